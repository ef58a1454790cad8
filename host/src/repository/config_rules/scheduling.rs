//! `dynamic_batching`: preferred sizes, delay and the queue's bounds.

use std::num::NonZeroUsize;
use std::time::Duration;

use model::{BatchingConfig, QueuePolicy};

use super::Rules;
use super::block::Block;

/// Longest configurable delay or timeout.
const WAIT_MAX: Duration = Duration::from_secs(3600);
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
    check_priorities(&block, rules);
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
                let fix = format!("{size} is above max_batch_size {max_batch_size}: raise the one or lower the other");
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
    if policy.integer("timeout_action") != 0 && default_timeout.is_some() {
        let message = "timeout_action DELAY is not supported: a request whose timeout has passed is refused";
        rules.refuse(policy, "timeout_action", message, "write timeout_action: REJECT".to_owned());
    }
    let size = policy.integer("max_queue_size");
    if size > i128::from(QUEUE_SIZE_MAX) {
        let message = format!("max_queue_size is {size}; it must be at most {QUEUE_SIZE_MAX}");
        rules.refuse(policy, "max_queue_size", message, None);
    }
    let own = usize::try_from(size).ok().and_then(NonZeroUsize::new);
    QueuePolicy { max_queue_size: own.unwrap_or(rules.defaults.max_queue_size), default_timeout }
}

fn wait(block: &Block<'_>, field: &str, rules: &mut Rules<'_, '_>) -> Duration {
    let wait = Duration::from_micros(u64::try_from(block.integer(field)).unwrap_or(0));
    if wait > WAIT_MAX {
        let message = format!("{field} is {}; it must be at most {}", wait.as_micros(), WAIT_MAX.as_micros());
        rules.refuse(block, field, message, None);
    }
    wait.min(WAIT_MAX)
}

fn check_priorities(block: &Block<'_>, rules: &mut Rules<'_, '_>) {
    let (levels, default) = (block.integer("priority_levels"), block.integer("default_priority_level"));
    if levels == 0 {
        return;
    }
    if !(1..=levels).contains(&default) {
        let message = format!("default priority level must be in range [1, {levels}] for {}", rules.model);
        rules.refuse(block, "default_priority_level", message, "write default_priority_level: 1".to_owned());
    }
    let message = "priorities are not supported: all requests wait in one queue, in the order of their arrival";
    rules.warn(block, "priority_levels", message);
}
