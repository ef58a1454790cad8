//! What may run together and when: Triton's rules for preferred sizes and queue delay, as pure functions over row
//! counts. Nothing here knows requests, clocks or threads.

use std::num::NonZeroUsize;
use std::time::Duration;

use model::{BatchingConfig, Moment};

/// What to do about a queue at a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A batch is ready: take it.
    Run,
    /// Requests wait for others; their delay is over at this moment.
    WaitUntil(Moment),
    /// Nothing waits.
    Empty,
}

/// The rules of one queue.
#[derive(Clone, Debug)]
pub struct BatchRules {
    max_rows: u64,
    preferred_rows: Vec<u64>,
    max_delay: Duration,
    config: BatchingConfig,
}

impl BatchRules {
    /// The rules that a model's configuration asks for. Every request runs alone where `max_batch_size` is 0, which means
    /// that the model does not batch, and where the configuration does not ask for batches.
    #[must_use]
    pub fn new(max_batch_size: u32, config: &BatchingConfig) -> Self {
        Self {
            max_rows: if config.is_dynamic { u64::from(max_batch_size) } else { 0 },
            preferred_rows: config.preferred_batch_sizes.iter().copied().map(u64::from).collect(),
            max_delay: config.max_queue_delay,
            config: config.clone(),
        }
    }

    /// Most requests of a level waiting.
    #[must_use]
    pub fn max_requests(&self, level: u32) -> NonZeroUsize {
        self.config.policy(level).max_queue_size
    }

    /// Whether requests have levels.
    #[must_use]
    pub fn has_levels(&self) -> bool {
        self.config.priorities.is_some()
    }

    /// Whether requests can go before others that came earlier and have their shape.
    #[must_use]
    pub fn ranks(&self) -> bool {
        self.has_levels() || self.config.delays()
    }

    /// How long the oldest request waits for others at most; zero means that nobody waits.
    #[must_use]
    pub fn max_delay(&self) -> Duration {
        self.max_delay
    }

    /// From now on nobody waits for others.
    pub(crate) fn stop_waiting(&mut self) {
        self.max_delay = Duration::ZERO;
    }

    /// Walks `rows`, the row counts of a lane from its head on, as far as one batch reaches.
    pub(crate) fn survey(&self, rows: impl Iterator<Item = u64>) -> Survey {
        let mut survey = Survey::default();
        let largest = self.preferred_rows.last().copied().unwrap_or(self.max_rows);
        for count in rows {
            let total = survey.rows.saturating_add(count);
            // The head always fits, so that a queue cannot jam on it.
            if survey.requests > 0 && total > self.max_rows {
                survey.full = true;
                break;
            }
            survey.rows = total;
            survey.requests += 1;
            if self.preferred_rows.contains(&total) {
                survey.preferred = Some(survey.requests);
            }
            if total >= self.max_rows {
                break;
            }
        }
        survey.full |= survey.requests > 0 && (survey.rows >= largest || survey.preferred.is_some());
        survey
    }
}

/// What one batch from a lane's head could be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Requests that fit into one batch.
    requests: usize,
    /// Their rows.
    rows: u64,
    /// Requests up to the largest preferred size that is met exactly.
    preferred: Option<usize>,
    /// Whether waiting longer is pointless: the batch cannot grow, or a preferred size is reached.
    full: bool,
}

impl Survey {
    /// Whether the batch is ready before its delay is over.
    pub(crate) fn is_full(self) -> bool {
        self.full
    }

    /// Requests to take: up to the preferred size while the oldest one's delay is not over, all that fit after it.
    pub(crate) fn requests(self, delay: Delay) -> usize {
        match delay {
            Delay::Running => self.preferred.unwrap_or(self.requests),
            Delay::Over => self.requests,
        }
    }
}

/// Where the oldest request of a lane stands with its delay. Without a configured delay it is never over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// Not over.
    Running,
    /// Over.
    Over,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(max_batch_size: u32, preferred: &[u32]) -> BatchRules {
        let config = BatchingConfig { preferred_batch_sizes: preferred.to_vec(), ..BatchingConfig::default() };
        BatchRules::new(max_batch_size, &config)
    }

    #[test]
    fn a_batch_is_as_large_as_the_rules_say() {
        /// Most rows, preferred sizes, rows waiting; full, requests while the delay runs and once it is over.
        type Case = (u32, &'static [u32], &'static [u64], bool, usize, usize);
        let cases: &[Case] = &[
            (8, &[], &[], false, 0, 0),
            (8, &[], &[1], false, 1, 1),
            (8, &[], &[1; 8], true, 8, 8),
            (8, &[], &[1; 20], true, 8, 8),
            (8, &[], &[4, 3, 2], true, 2, 2),
            (8, &[], &[4, 3, 1, 1], true, 3, 3),
            (8, &[4], &[1; 3], false, 3, 3),
            (8, &[4], &[1; 4], true, 4, 4),
            (8, &[4], &[1; 5], true, 4, 5),
            (8, &[2, 4], &[1; 3], true, 2, 3),
            (8, &[2, 4], &[1; 9], true, 4, 8),
            (8, &[4], &[3, 2], true, 2, 2),
            (8, &[4], &[3, 3, 3], true, 2, 2),
            (0, &[], &[1], true, 1, 1),
            (0, &[], &[1, 1], true, 1, 1),
            (4, &[], &[9, 1], true, 1, 1),
        ];
        for (max, preferred, rows, full, running, over) in cases {
            let survey = rules(*max, preferred).survey(rows.iter().copied());
            assert_eq!(survey.is_full(), *full, "full: max {max} preferred {preferred:?} rows {rows:?}");
            assert_eq!(survey.requests(Delay::Running), *running, "running: {max} {preferred:?} {rows:?}");
            assert_eq!(survey.requests(Delay::Over), *over, "over: {max} {preferred:?} {rows:?}");
        }
    }

    proptest! {
        #[test]
        fn a_batch_is_the_longest_prefix_that_fits(
            max in 1_u32..32,
            rows in prop::collection::vec(1_u64..32, 0..40),
        ) {
            let rows: Vec<u64> = rows.into_iter().map(|count| count.min(u64::from(max))).collect();
            let taken = rules(max, &[]).survey(rows.iter().copied()).requests(Delay::Over);
            prop_assert!(rows[..taken].iter().sum::<u64>() <= u64::from(max));
            if let Some(next) = rows.get(taken) {
                prop_assert!(rows[..taken].iter().sum::<u64>() + next > u64::from(max));
            }
        }
    }
}
