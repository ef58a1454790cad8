//! A plugin generation: one published state of a model's plugin, numbered 1, 2, 3 … per model. Immutable; shared by the
//! releases that serve it; its sandbox memory is given back by the janitor when the last of them is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use model::ModelName;
use plugin::{Dropped, LogEntry, LogLevel, MetricKind, Plugin, PluginSink, Stage, StageTiming};
use prometheus::IntGauge;

use crate::janitor::{Chore, ChoreSender};
use crate::metrics::Metrics;

/// One state of a model's plugin that serves or is about to.
pub struct PluginGeneration {
    /// Its number.
    pub number: u64,
    /// The number as text, for headers.
    pub number_text: Arc<str>,
    /// Content hash of component, manifest and assets.
    pub digest: Arc<str>,
    /// The sandboxed component.
    pub plugin: Arc<Plugin>,
    model: ModelName,
    metrics: Metrics,
    chores: ChoreSender,
    draining: OnceLock<IntGauge>,
}

/// What a [`PluginGeneration`] is made of, beside the plugin itself.
pub struct GenerationParts {
    /// The model.
    pub model: ModelName,
    /// The number.
    pub number: u64,
    /// Content hash.
    pub digest: Arc<str>,
    /// Where failures are counted.
    pub metrics: Metrics,
    /// Where the sandbox goes in the end.
    pub chores: ChoreSender,
}

impl PluginGeneration {
    /// Puts a generation together.
    #[must_use]
    pub fn new(parts: GenerationParts, plugin: Arc<Plugin>) -> Self {
        Self {
            number: parts.number,
            number_text: parts.number.to_string().into(),
            digest: parts.digest,
            plugin,
            model: parts.model,
            metrics: parts.metrics,
            chores: parts.chores,
            draining: OnceLock::new(),
        }
    }

    /// It has been replaced: `gauge` counts it until it is freed.
    pub fn start_draining(&self, gauge: &IntGauge) {
        if self.draining.set(gauge.clone()).is_ok() {
            gauge.inc();
        }
    }

    /// Counts a request that failed through the plugin's fault, by kind.
    pub fn count_failure(&self, kind: &str) {
        self.metrics.plugin_failure(&self.model, kind);
    }
}

impl Drop for PluginGeneration {
    fn drop(&mut self) {
        if let Some(gauge) = self.draining.get() {
            gauge.dec();
        }
        self.chores.send(Chore::RetirePlugin(Arc::clone(&self.plugin)));
    }
}

/// Takes what a plugin says out of the sandbox: its lines to the log, its metrics to `/metrics`.
pub struct GenerationSink {
    /// The model.
    pub model: ModelName,
    /// The generation.
    pub generation: u64,
    /// The families to add to.
    pub metrics: Metrics,
    /// The histograms it declares, with their bucket bounds.
    pub histograms: BTreeMap<String, Vec<f64>>,
}

impl PluginSink for GenerationSink {
    fn log(&self, entry: &LogEntry<'_>) {
        let (model, generation) = (&self.model, self.generation);
        let LogEntry { request_id, trace_id, message, level, .. } = *entry;
        match level {
            LogLevel::Trace => {
                tracing::trace!(target: "airlock::plugin", %model, generation, request_id, trace_id, "{message}");
            }
            LogLevel::Debug => {
                tracing::debug!(target: "airlock::plugin", %model, generation, request_id, trace_id, "{message}");
            }
            LogLevel::Info => {
                tracing::info!(target: "airlock::plugin", %model, generation, request_id, trace_id, "{message}");
            }
            LogLevel::Warn => {
                tracing::warn!(target: "airlock::plugin", %model, generation, request_id, trace_id, "{message}");
            }
            LogLevel::Error => {
                tracing::error!(target: "airlock::plugin", %model, generation, request_id, trace_id, "{message}");
            }
        }
    }

    fn metric(&self, name: &str, kind: MetricKind, value: f64) {
        match kind {
            MetricKind::Counter => self.metrics.plugin_count(&self.model, name, value),
            MetricKind::Histogram => {
                let bounds = self.histograms.get(name).map_or(&[][..], Vec::as_slice);
                self.metrics.plugin_observe(&self.model, name, bounds, value);
            }
        }
    }

    fn dropped(&self, what: Dropped, count: u64) {
        let what = match what {
            Dropped::LogLines => "log_lines",
            Dropped::LogBytes => "log_bytes",
            Dropped::Metrics => "metrics",
        };
        self.metrics.plugin_dropped(&self.model, what, count);
    }

    fn stage(&self, stage: Stage, timing: StageTiming) {
        self.metrics.plugin_stage(&self.model, stage.as_str(), timing.placement.as_str());
    }
}
