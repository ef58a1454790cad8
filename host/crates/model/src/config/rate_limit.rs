//! What an instance needs in order to run (Triton's `instance_group.rate_limiter`).

use std::num::NonZeroU32;
use std::sync::Arc;

/// The resources that an instance holds while it runs, and its share of the chances where they are scarce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// What it holds, each name once per scope.
    pub resources: Vec<RateResource>,
    /// An instance of priority `n` gets one `n`th of the chances of one of priority 1.
    pub priority: NonZeroU32,
}

impl Default for RateLimit {
    /// Nothing is needed.
    fn default() -> Self {
        Self { resources: Vec::new(), priority: NonZeroU32::MIN }
    }
}

/// An amount of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateResource {
    /// The resource's name, which models share.
    pub name: Arc<str>,
    /// Whose the resource is.
    pub scope: RateScope,
    /// How much of it, at least 1.
    pub count: NonZeroU32,
}

/// Whose a resource is: resources of one name and of different scopes are different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateScope {
    /// Each device has its own; all instances here run on the processor, which counts as one.
    Device,
    /// The whole server has one.
    Global,
}
