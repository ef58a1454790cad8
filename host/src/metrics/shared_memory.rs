//! The memory that clients share with the server.

use prometheus::{IntGauge, Registry};

use super::{names, registered};

/// The families.
#[derive(Clone)]
pub(super) struct SharedMemoryMetrics {
    regions: IntGauge,
    bytes: IntGauge,
}

impl SharedMemoryMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help));
        let help = "Shared memory regions open now: registered, or in use by a request";
        Self {
            regions: gauge(names::SHARED_MEMORY_REGIONS, help),
            bytes: gauge(names::SHARED_MEMORY_BYTES, "Bytes of the shared memory regions open now"),
        }
    }

    pub(super) fn show(&self, regions: u64, bytes: u64) {
        let set = |gauge: &IntGauge, value| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.regions, regions);
        set(&self.bytes, bytes);
    }
}
