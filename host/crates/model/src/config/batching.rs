//! How requests wait and are gathered (Triton's `dynamic_batching`): sizes, delay, bounds, timeouts and levels of urgency.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// How requests wait and are gathered into batches (Triton's `dynamic_batching`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchingConfig {
    /// Whether requests are gathered into batches (`dynamic_batching`); without, each runs alone, whatever
    /// `max_batch_size` says.
    pub is_dynamic: bool,
    /// Batch sizes that run at once when reached, ascending, each from 1 to `max_batch_size`; may be empty.
    pub preferred_batch_sizes: Vec<u32>,
    /// How long the oldest request may wait for others while an instance is idle. Zero: never.
    pub max_queue_delay: Duration,
    /// Bounds and timeouts of the queue; with levels, those of every level that has no policy of its own.
    pub queue: QueuePolicy,
    /// Whether answers are handed out in the order of arrival, even where a later batch finishes earlier. Possible only
    /// with one level and without [`TimeoutAction::Delay`].
    pub preserve_ordering: bool,
    /// Levels of urgency; `None` where every request is as urgent as any other.
    pub priorities: Option<Priorities>,
    /// Whether a request of more than `max_batch_size` rows runs in pieces instead of being refused.
    pub split_large_requests: bool,
}

impl Default for BatchingConfig {
    fn default() -> Self {
        Self {
            is_dynamic: true,
            preferred_batch_sizes: Vec::new(),
            max_queue_delay: Duration::ZERO,
            queue: QueuePolicy::default(),
            preserve_ordering: false,
            priorities: None,
            split_large_requests: false,
        }
    }
}

impl BatchingConfig {
    /// Most pieces of a request. Each costs memory, also where its rows cost their sender none.
    pub const MAX_PIECES: u32 = 4096;

    /// The level that a request of this `priority` waits in. 0 and priorities past the last level ask for the default
    /// level, as in Triton. Without levels there is one, number 1.
    #[must_use]
    pub fn level(&self, priority: u64) -> u32 {
        let Some(priorities) = &self.priorities else { return 1 };
        let own = u32::try_from(priority).ok().filter(|level| (1..=priorities.levels.get()).contains(level));
        own.unwrap_or(priorities.default_level)
    }

    /// The policy of a level: its own, or the default one.
    #[must_use]
    pub fn policy(&self, level: u32) -> &QueuePolicy {
        self.priorities.as_ref().and_then(|priorities| priorities.policies.get(&level)).unwrap_or(&self.queue)
    }

    /// Whether a timeout can move a request behind others.
    #[must_use]
    pub fn delays(&self) -> bool {
        let own = self.priorities.iter().flat_map(|priorities| priorities.policies.values());
        own.chain([&self.queue]).any(QueuePolicy::delays)
    }

    /// Checks what the fields ask of each other.
    ///
    /// # Errors
    /// The first [`BatchingConfigError`].
    pub fn check(&self) -> Result<(), BatchingConfigError> {
        let levels = self.priorities.as_ref().map_or(1, |priorities| priorities.levels.get());
        if let Some(priorities) = &self.priorities {
            priorities.check()?;
        }
        if self.preserve_ordering && levels > 1 {
            return Err(BatchingConfigError::OrderAcrossLevels { levels });
        }
        if self.preserve_ordering && self.delays() {
            return Err(BatchingConfigError::OrderWithDelay);
        }
        Ok(())
    }
}

/// Levels of urgency. A more urgent level is always served first: a less urgent one gets what is left, and nothing where
/// nothing is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// How many; 1 is the most urgent.
    pub levels: NonZeroU32,
    /// The level of requests that name none, or none there is; from 1 to `levels`.
    pub default_level: u32,
    /// Policies by level, from 1 to `levels`; a level without one has [`BatchingConfig::queue`].
    pub policies: BTreeMap<u32, QueuePolicy>,
}

impl Priorities {
    fn check(&self) -> Result<(), BatchingConfigError> {
        let levels = self.levels.get();
        if !(1..=levels).contains(&self.default_level) {
            return Err(BatchingConfigError::DefaultLevel { level: self.default_level, levels });
        }
        match self.policies.keys().find(|level| !(1..=levels).contains(*level)) {
            Some(&level) => Err(BatchingConfigError::PolicyLevel { level, levels }),
            None => Ok(()),
        }
    }
}

/// Bounds and timeouts of a queue (Triton's `ModelQueuePolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Most requests waiting, at each level that has this policy.
    pub max_queue_size: NonZeroUsize,
    /// How long a request waits at most; `None` leaves it to the request's own deadline.
    pub default_timeout: Option<Duration>,
    /// What happens to a request that has waited so long.
    pub timeout_action: TimeoutAction,
    /// Whether a request can ask for a shorter timeout. Without `default_timeout` it cannot, as in Triton.
    pub allow_timeout_override: bool,
}

/// What happens to a request that has waited as long as its queue allows (Triton's `TimeoutAction`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeoutAction {
    /// It is refused.
    #[default]
    Reject,
    /// It moves behind the requests of its level that have not timed out.
    Delay,
}

impl QueuePolicy {
    /// Waiting requests where neither the model nor the server says otherwise.
    pub const DEFAULT_MAX_QUEUE_SIZE: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

    /// How long a request waits that asks for `requested` (the parameter `timeout`; zero asks for nothing): the default,
    /// or where overriding is allowed what it asks for if that is shorter.
    #[must_use]
    pub fn timeout(&self, requested: Option<Duration>) -> Option<Duration> {
        let default = self.default_timeout?;
        let shorter = requested.filter(|timeout| self.allow_timeout_override && !timeout.is_zero());
        Some(shorter.map_or(default, |timeout| timeout.min(default)))
    }

    /// Whether its timeouts move requests behind others.
    #[must_use]
    pub fn delays(&self) -> bool {
        self.default_timeout.is_some() && self.timeout_action == TimeoutAction::Delay
    }
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self {
            max_queue_size: Self::DEFAULT_MAX_QUEUE_SIZE,
            default_timeout: None,
            timeout_action: TimeoutAction::Reject,
            allow_timeout_override: false,
        }
    }
}

/// Fields of a [`BatchingConfig`] that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchingConfigError {
    /// Requests of different levels cannot be answered in the order of their arrival.
    #[error("preserve_ordering allows one priority level, priority_levels is {levels}; drop the one or the other")]
    OrderAcrossLevels {
        /// The levels.
        levels: u32,
    },
    /// Nor can requests that a timeout moves behind others.
    #[error(
        "preserve_ordering does not allow timeout_action DELAY, and a queue policy with a timeout has it; \
         write REJECT or drop preserve_ordering"
    )]
    OrderWithDelay,
    /// The default level does not exist.
    #[error("default_priority_level is {level}; it must be from 1 to {levels}, the priority_levels")]
    DefaultLevel {
        /// The level given.
        level: u32,
        /// The levels.
        levels: u32,
    },
    /// A policy's level does not exist.
    #[error("priority_queue_policy names level {level}; it must be from 1 to {levels}, the priority_levels")]
    PolicyLevel {
        /// The level given.
        level: u32,
        /// The levels.
        levels: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(max_queue_size: usize) -> QueuePolicy {
        QueuePolicy { max_queue_size: NonZeroUsize::new(max_queue_size).expect("a bound"), ..QueuePolicy::default() }
    }

    fn delaying() -> QueuePolicy {
        let default_timeout = Some(Duration::from_micros(1));
        QueuePolicy { default_timeout, timeout_action: TimeoutAction::Delay, ..QueuePolicy::default() }
    }

    fn levels(levels: u32, default_level: u32, policies: &[(u32, QueuePolicy)]) -> BatchingConfig {
        let levels = NonZeroU32::new(levels).expect("a level");
        let priorities = Priorities { levels, default_level, policies: policies.iter().copied().collect() };
        BatchingConfig { queue: policy(5), priorities: Some(priorities), ..BatchingConfig::default() }
    }

    #[test]
    fn a_priority_leads_to_its_level_or_the_default_one() {
        let three = levels(3, 2, &[]);
        let past_u32 = u64::from(u32::MAX) + 2;
        for (priority, level) in [(0, 2), (1, 1), (2, 2), (3, 3), (4, 2), (past_u32, 2), (u64::MAX, 2)] {
            assert_eq!(three.level(priority), level, "priority {priority}");
        }
        for priority in [0, 1, 7] {
            assert_eq!(BatchingConfig::default().level(priority), 1, "without levels");
        }
    }

    #[test]
    fn a_level_has_its_own_policy_or_the_default_one() {
        let config = levels(3, 1, &[(2, policy(7))]);
        let bounds = [1, 2, 3].map(|level| config.policy(level).max_queue_size.get());
        assert_eq!(bounds, [5, 7, 5]);
        assert_eq!(BatchingConfig::default().policy(1), &QueuePolicy::default());
    }

    #[test]
    fn a_request_can_only_shorten_a_timeout_that_there_is() {
        /// Default, override allowed, requested; effective. In microseconds.
        type Case = (Option<u64>, bool, Option<u64>, Option<u64>);
        let cases: &[Case] = &[
            (None, false, None, None),
            (None, true, Some(5), None),
            (Some(10), false, None, Some(10)),
            (Some(10), false, Some(5), Some(10)),
            (Some(10), true, None, Some(10)),
            (Some(10), true, Some(0), Some(10)),
            (Some(10), true, Some(5), Some(5)),
            (Some(10), true, Some(10), Some(10)),
            (Some(10), true, Some(11), Some(10)),
        ];
        for &(default, allow_timeout_override, requested, effective) in cases {
            let default_timeout = default.map(Duration::from_micros);
            let policy = QueuePolicy { default_timeout, allow_timeout_override, ..QueuePolicy::default() };
            let timeout = policy.timeout(requested.map(Duration::from_micros));
            assert_eq!(timeout, effective.map(Duration::from_micros), "{policy:?}, requested {requested:?}");
        }
    }

    #[test]
    fn fields_that_do_not_go_together_are_named() {
        let ordered = |config: BatchingConfig| BatchingConfig { preserve_ordering: true, ..config };
        let cases = [
            (
                ordered(levels(2, 1, &[])),
                "preserve_ordering allows one priority level, priority_levels is 2; drop the one or the other",
            ),
            (
                ordered(BatchingConfig { queue: delaying(), ..BatchingConfig::default() }),
                "preserve_ordering does not allow timeout_action DELAY, and a queue policy with a timeout has it; write REJECT or drop preserve_ordering",
            ),
            (
                ordered(levels(1, 1, &[(1, delaying())])),
                "preserve_ordering does not allow timeout_action DELAY, and a queue policy with a timeout has it; write REJECT or drop preserve_ordering",
            ),
            (levels(2, 0, &[]), "default_priority_level is 0; it must be from 1 to 2, the priority_levels"),
            (levels(2, 3, &[]), "default_priority_level is 3; it must be from 1 to 2, the priority_levels"),
            (
                levels(2, 1, &[(3, policy(1))]),
                "priority_queue_policy names level 3; it must be from 1 to 2, the priority_levels",
            ),
            (
                levels(2, 1, &[(0, policy(1))]),
                "priority_queue_policy names level 0; it must be from 1 to 2, the priority_levels",
            ),
        ];
        for (config, text) in cases {
            assert_eq!(config.check().expect_err(text).to_string(), text);
        }
    }

    #[test]
    fn fields_that_go_together_pass() {
        let never = QueuePolicy { timeout_action: TimeoutAction::Delay, ..QueuePolicy::default() };
        let cases = [
            BatchingConfig::default(),
            levels(3, 3, &[(1, delaying()), (3, policy(1))]),
            BatchingConfig { preserve_ordering: true, ..levels(1, 1, &[(1, policy(1))]) },
            BatchingConfig { preserve_ordering: true, queue: never, ..BatchingConfig::default() },
        ];
        for config in cases {
            assert_eq!(config.check(), Ok(()), "{config:?}");
        }
    }
}
