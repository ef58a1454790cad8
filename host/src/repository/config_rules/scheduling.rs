//! `dynamic_batching`: preferred sizes, delay, the queue's bounds and timeouts, and levels of urgency.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use model::{BatchingConfig, Priorities, QueuePolicy, TimeoutAction};

use super::Rules;
use super::block::Block;

/// Longest configurable delay or timeout.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Most levels of urgency.
const LEVELS_MAX: u32 = 1_000;
/// Most configurable waiting requests of one model.
const QUEUE_SIZE_MAX: u32 = 1_000_000;

pub(super) fn read(root: &Block<'_>, max_batch_size: u32, rules: &mut Rules<'_, '_>) -> BatchingConfig {
    let mut batching = BatchingConfig::default();
    batching.queue.max_queue_size = rules.defaults.max_queue_size;
    batching.is_dynamic = root.has("dynamic_batching");
    let Some(block) = root.block("dynamic_batching") else { return batching };
    batching.preferred_batch_sizes = preferred_sizes(&block, max_batch_size, rules);
    batching.max_queue_delay = wait(&block, "max_queue_delay_microseconds", rules);
    if let Some(policy) = block.block("default_queue_policy") {
        batching.queue = queue_policy(&policy, rules);
    }
    batching.priorities = priorities(&block, rules);
    batching.preserve_ordering = block.flag("preserve_ordering");
    check_ordering(&block, &batching, rules);
    batching
}

fn preferred_sizes(block: &Block<'_>, max_batch_size: u32, rules: &mut Rules<'_, '_>) -> Vec<u32> {
    const FIELD: &str = "preferred_batch_size";
    let model = rules.model.clone();
    let mut sizes = Vec::new();
    for size in block.integers(FIELD) {
        match u32::try_from(size) {
            Ok(size) if (1..=max_batch_size).contains(&size) => sizes.push(size),
            Ok(1..) => {
                let message = format!("dynamic batching preferred size must be <= max batch size for {model}");
                let fix = if max_batch_size == 0 {
                    format!(
                        "write max_batch_size: {size}, or leave dynamic_batching out: without it nothing is batched"
                    )
                } else {
                    format!("{size} is above max_batch_size {max_batch_size}: raise the one or lower the other")
                };
                rules.refuse(block, FIELD, message, fix);
            }
            _ => {
                let message = format!("dynamic batching preferred size must be positive for {model}");
                rules.refuse(block, FIELD, message, format!("remove {size}"));
            }
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn queue_policy(policy: &Block<'_>, rules: &mut Rules<'_, '_>) -> QueuePolicy {
    let timeout = wait(policy, "default_timeout_microseconds", rules);
    let default_timeout = (!timeout.is_zero()).then_some(timeout);
    let timeout_action =
        if policy.integer("timeout_action") == 0 { TimeoutAction::Reject } else { TimeoutAction::Delay };
    let size = policy.integer("max_queue_size");
    if size > i128::from(QUEUE_SIZE_MAX) {
        let message = format!("max_queue_size is {size}; it must be at most {QUEUE_SIZE_MAX}");
        rules.refuse(policy, "max_queue_size", message, None);
    }
    let own = usize::try_from(size).ok().and_then(NonZeroUsize::new);
    QueuePolicy {
        max_queue_size: own.unwrap_or(rules.defaults.max_queue_size),
        default_timeout,
        timeout_action,
        allow_timeout_override: policy.flag("allow_timeout_override"),
    }
}

fn wait(block: &Block<'_>, field: &str, rules: &mut Rules<'_, '_>) -> Duration {
    let wait = Duration::from_micros(u64::try_from(block.integer(field)).unwrap_or(0));
    if wait > WAIT_MAX {
        let message = format!("{field} is {}; it must be at most {}", wait.as_micros(), WAIT_MAX.as_micros());
        rules.refuse(block, field, message, None);
    }
    wait.min(WAIT_MAX)
}

/// The levels of urgency and the policies of those that have one.
fn priorities(block: &Block<'_>, rules: &mut Rules<'_, '_>) -> Option<Priorities> {
    const LEVELS: &str = "priority_levels";
    const POLICIES: &str = "priority_queue_policy";
    let (given, default) = (block.integer(LEVELS), block.integer("default_priority_level"));
    if given > i128::from(LEVELS_MAX) {
        let message = format!("priority_levels is {given}; it must be at most {LEVELS_MAX}");
        rules.refuse(block, LEVELS, message, None);
        return None;
    }
    let levels = u32::try_from(given).ok().and_then(NonZeroU32::new)?;
    let default_level = u32::try_from(default).ok().filter(|level| (1..=levels.get()).contains(level));
    if default_level.is_none() {
        let message = format!("default priority level must be in range [1, {levels}] for {}", rules.model);
        rules.refuse(block, "default_priority_level", message, "write default_priority_level: 1".to_owned());
    }
    let mut policies = BTreeMap::new();
    for (key, policy) in block.entries(POLICIES) {
        match key.parse::<u32>().ok().filter(|level| (1..=levels.get()).contains(level)) {
            Some(level) => drop(policies.insert(level, queue_policy(&policy, rules))),
            None => {
                let message = format!(
                    "priority queue policy must have priority level in range [1, {levels}] for {}",
                    rules.model
                );
                rules.refuse(block, POLICIES, message, format!("remove the key {key}"));
            }
        }
    }
    Some(Priorities { levels, default_level: default_level?, policies })
}

fn check_ordering(block: &Block<'_>, batching: &BatchingConfig, rules: &mut Rules<'_, '_>) {
    if !batching.preserve_ordering {
        return;
    }
    let model = rules.model.clone();
    if batching.priorities.as_ref().is_some_and(|priorities| priorities.levels.get() > 1) {
        let message = format!("Only one priority level is allowed when 'preserve_ordering' is true for {model}");
        rules.refuse(block, "preserve_ordering", message, "leave out one of the two".to_owned());
    }
    if batching.delays() {
        let message =
            format!("Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {model}");
        rules.refuse(block, "preserve_ordering", message, "write timeout_action: REJECT".to_owned());
    }
}
