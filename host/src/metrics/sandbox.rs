//! What the sandbox side of the process uses, over all models.

use prometheus::{IntGauge, IntGaugeVec, Opts, Registry};

use super::{gauge_value, names, registered};

/// What the sandbox side says of itself.
#[derive(Clone, Copy, Debug)]
pub struct SandboxGauges<'a> {
    /// Instances alive.
    pub instances: usize,
    /// Calls waiting for one.
    pub waiting: usize,
    /// What is taken from the pool, by kind; empty without a pool.
    pub pool: &'a [(&'static str, usize)],
}

/// The families.
#[derive(Clone)]
pub(super) struct SandboxMetrics {
    instances: IntGauge,
    waiting: IntGauge,
    pool: IntGaugeVec,
}

impl SandboxMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help));
        let pool =
            IntGaugeVec::new(Opts::new(names::SANDBOX_POOL, "What is taken from the instance pool now"), &["what"]);
        Self {
            instances: gauge(names::SANDBOX_INSTANCES, "Plugin instances alive now, over all models"),
            waiting: gauge(names::SANDBOX_WAITING, "Plugin calls waiting for an instance now"),
            pool: registered(registry, pool),
        }
    }

    pub(super) fn show(&self, gauges: &SandboxGauges<'_>) {
        self.instances.set(gauge_value(gauges.instances));
        self.waiting.set(gauge_value(gauges.waiting));
        for (what, count) in gauges.pool {
            self.pool.with_label_values(&[what]).set(gauge_value(*count));
        }
    }
}
