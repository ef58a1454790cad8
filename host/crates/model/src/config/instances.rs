//! Executors of a model version (Triton's `instance_group`) and what each of them takes from the server's resources.

use std::num::{NonZeroU32, NonZeroUsize};

/// Executors that are alike. Those of all groups share one session on the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceGroup {
    /// Its name; `<model>_<position>` unless configured.
    pub name: String,
    /// How many.
    pub count: NonZeroUsize,
    /// What each of them needs before it may run.
    pub rate_limiter: RateLimiter,
}

impl InstanceGroup {
    /// A group of one that needs nothing.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), count: NonZeroUsize::MIN, rate_limiter: RateLimiter::default() }
    }
}

/// What an instance needs before it may run, and how often it is its turn (Triton's `ModelRateLimiter`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimiter {
    /// Taken before a run and given back after it.
    pub resources: Vec<RateResource>,
    /// An instance of priority 2 gets half as many turns as one of priority 1.
    pub priority: NonZeroU32,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self { resources: Vec::new(), priority: NonZeroU32::MIN }
    }
}

/// A number of units of one of the server's resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateResource {
    /// The resource's name.
    pub name: String,
    /// Units of it.
    pub count: u32,
    /// Where the units are counted.
    pub scope: ResourceScope,
}

/// Where units of a resource are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// On each device by itself.
    Device,
    /// Over the whole server.
    Global,
}
