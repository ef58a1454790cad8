//! Executors of a model version (Triton's `instance_group`) and what each of them takes from the server's resources.

use std::num::NonZeroUsize;

use super::rate_limit::RateLimit;

/// Executors that are alike. Those of all groups share one session on the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceGroup {
    /// Its name; `<model>_<position>` unless configured.
    pub name: String,
    /// How many.
    pub count: NonZeroUsize,
    /// What each of them needs before it may run.
    pub rate_limit: RateLimit,
}

impl InstanceGroup {
    /// A group of one that needs nothing.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), count: NonZeroUsize::MIN, rate_limit: RateLimit::default() }
    }
}
