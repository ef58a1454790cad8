//! What plugins do and say: calls, failures and instances, and the counters and histograms that they declare.

use model::{ModelName, VersionNumber};
use prometheus::{CounterVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::observations::Observations;
use super::{Metrics, gauge_value, names, registered};

/// See the module.
#[derive(Clone)]
pub(super) struct PluginFamilies {
    pub(super) generation: IntGaugeVec,
    pub(super) failures: IntCounterVec,
    pub(super) calls: IntCounterVec,
    pub(super) dropped: IntCounterVec,
    pub(super) warm: IntGaugeVec,
    pub(super) created: IntGaugeVec,
    pub(super) counter: CounterVec,
    pub(super) observation: Observations,
}

impl PluginFamilies {
    pub(super) fn new(r: &Registry) -> Self {
        let counters = |name, help, labels: &[&str]| registered(r, IntCounterVec::new(Opts::new(name, help), labels));
        let gauges = |name, help, labels: &[&str]| registered(r, IntGaugeVec::new(Opts::new(name, help), labels));
        let declared = Opts::new(names::PLUGIN_COUNTER, "Counters that plugins declare");
        let calls = "Plugin calls, by stage and by the threads they ran on";
        let created = "Plugin instances made by the serving generation";
        Self {
            generation: gauges(names::PLUGIN_GENERATION, "Plugin generation that serves", &["model", "version"]),
            failures: counters(names::PLUGIN_FAILURES, "Plugin calls that failed", &["model", "kind"]),
            calls: counters(names::PLUGIN_CALLS, calls, &["model", "stage", "placement"]),
            dropped: counters(names::PLUGIN_DROPPED, "Plugin output dropped over its limits", &["model", "what"]),
            warm: gauges(names::PLUGIN_WARM, "Warm plugin instances now", &["model"]),
            created: gauges(names::PLUGIN_CREATED, created, &["model"]),
            counter: registered(r, CounterVec::new(declared, &["model", "name"])),
            observation: registered(r, Ok(Observations::new())),
        }
    }
}

impl Metrics {
    /// Sets the gauges of a model's plugin.
    pub fn show_plugin(&self, model: &ModelName, warm: usize, created: u64) {
        let set = |gauges: &IntGaugeVec, value| gauges.with_label_values(&[model.as_str()]).set(value);
        set(&self.plugin.warm, gauge_value(warm));
        set(&self.plugin.created, i64::try_from(created).unwrap_or(i64::MAX));
    }

    /// Shows the generation of a version.
    pub fn show_generation(&self, model: &ModelName, version: VersionNumber, generation: u64) {
        let gauge = self.plugin.generation.with_label_values(&[model.as_str(), &version.to_string()]);
        gauge.set(i64::try_from(generation).unwrap_or(i64::MAX));
    }

    /// Forgets the gauges of a plugin that serves no version any more.
    pub fn forget_plugin(&self, model: &ModelName) {
        for gauges in [&self.plugin.warm, &self.plugin.created] {
            // Absent already: nothing to forget.
            let _ = gauges.remove_label_values(&[model.as_str()]);
        }
    }

    /// Forgets the generation of a version that serves without a plugin.
    pub fn forget_generation(&self, model: &ModelName, version: VersionNumber) {
        // Absent already: nothing to forget.
        let _ = self.plugin.generation.remove_label_values(&[model.as_str(), &version.to_string()]);
    }

    /// Counts a failed plugin call.
    pub fn plugin_failure(&self, model: &ModelName, kind: &str) {
        self.plugin.failures.with_label_values(&[model.as_str(), kind]).inc();
    }

    /// Counts a plugin call.
    pub fn plugin_stage(&self, model: &ModelName, stage: &str, placement: &str) {
        self.plugin.calls.with_label_values(&[model.as_str(), stage, placement]).inc();
    }

    /// Counts plugin output dropped.
    pub fn plugin_dropped(&self, model: &ModelName, what: &str, count: u64) {
        self.plugin.dropped.with_label_values(&[model.as_str(), what]).inc_by(count);
    }

    /// Adds to a counter that a plugin declared. Negative and non-finite values are ignored: counters only grow.
    pub fn plugin_count(&self, model: &ModelName, name: &str, value: f64) {
        if value.is_finite() && value >= 0.0 {
            self.plugin.counter.with_label_values(&[model.as_str(), name]).inc_by(value);
        }
    }

    /// Adds a value to a histogram that a plugin declared with these bounds; none means the default ones.
    pub fn plugin_observe(&self, model: &ModelName, name: &str, bounds: &[f64], value: f64) {
        if value.is_finite() {
            self.plugin.observation.observe(model, name, bounds, value);
        }
    }
}
