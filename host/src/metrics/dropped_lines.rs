//! Lines that nobody took, as a counter that is told their number and not each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::{IntCounter, Registry};

use super::registered;

/// See the module.
#[derive(Clone)]
pub(super) struct DroppedLines {
    counter: IntCounter,
    /// The largest number that anybody has told.
    seen: Arc<AtomicU64>,
}

impl DroppedLines {
    pub(super) fn new(registry: &Registry, name: &str, help: &str) -> Self {
        Self { counter: registered(registry, IntCounter::new(name, help)), seen: Arc::default() }
    }

    /// So many have been dropped since the start.
    pub(super) fn show(&self, count: u64) {
        // Of those who look at the same time each adds what nobody has added.
        let seen = self.seen.fetch_max(count, Ordering::Relaxed);
        self.counter.inc_by(count.saturating_sub(seen));
    }
}
