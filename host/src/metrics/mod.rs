//! Everything `/metrics` shows: the names as consts, the families, and the handles of one model version resolved once
//! so that no request looks a label up. Owned by the app; others hold clones of the handles.

mod departed;
mod dropped_lines;
mod families;
mod forget;
mod inference;
mod latencies;
mod model_metrics;
pub mod names;
mod observations;
mod plugin_families;
mod recent_times;
mod resources;
mod response_cache;
mod sandbox;
mod shared_memory;
mod system;
mod traffic;
mod triton;
mod version;

use std::time::Duration;

use model::{ErrorCode, ModelName, VersionNumber};
use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder, exponential_buckets,
};

pub use departed::{Departed, SERIES_GRACE};
use dropped_lines::DroppedLines;
use forget::Known;
pub use inference::{BatchCounts, FailureReason, InferenceCounters, InferenceSnapshot, PhaseCounts, TimedCount};
pub use model_metrics::{ModelMetrics, histogram_families, histogram_family, tag_label};
use plugin_families::PluginFamilies;
pub use resources::Resource;
use resources::Resources;
use response_cache::CacheSeries;
pub use sandbox::SandboxGauges;
use sandbox::SandboxMetrics;
use shared_memory::SharedMemoryMetrics;
use system::SystemSeries;
use traffic::Names;
pub use traffic::{Endpoint, Surface, Traffic};
pub use triton::TritonMetrics;
use triton::TritonSeries;
pub use version::{Stage, VersionMetrics};

use crate::response_cache::CacheSnapshot;

/// Outcome of one attempt to publish something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwapOutcome {
    /// It serves.
    Published,
    /// It could not be read, compiled, loaded or parsed.
    FailedToBuild,
    /// It was built and did not pass verification.
    FailedToVerify,
    /// It never came to rest.
    StillChanging,
}

impl SwapOutcome {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::FailedToBuild => "failed_to_build",
            Self::FailedToVerify => "failed_to_verify",
            Self::StillChanging => "still_changing",
        }
    }
}

/// All metric families of the process.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    known: Known,
    triton: TritonSeries,
    non_finite: IntCounterVec,
    kserve: [HistogramVec; 3],
    stage: HistogramVec,
    batch_rows: HistogramVec,
    requests: IntCounterVec,
    queue_drops: IntCounterVec,
    queue_size: IntGaugeVec,
    queue_limit: IntGaugeVec,
    runs_inline: IntGaugeVec,
    swaps: IntCounterVec,
    engine_loads: IntCounterVec,
    plugin: PluginFamilies,
    sandbox: SandboxMetrics,
    shared_memory: SharedMemoryMetrics,
    log_lines_dropped: DroppedLines,
    access_log_lines_dropped: DroppedLines,
    trace_spans: IntCounterVec,
    limit: GaugeVec,
    models: IntGaugeVec,
    /// What goes over HTTP.
    pub http: Traffic,
    /// What goes over gRPC.
    pub grpc: Traffic,
    in_flight: [IntGauge; 2],
    connections: IntGaugeVec,
    /// Releases replaced and not yet freed.
    pub draining: IntGauge,
}

fn registered<C: prometheus::core::Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    let collector = made.expect("metric names and labels are consts of this file and valid");
    registered_once(registry, collector.clone());
    collector
}

fn registered_once<C: prometheus::core::Collector + 'static>(registry: &Registry, collector: C) {
    registry.register(Box::new(collector)).expect("each name is registered once");
}

/// The stages of predict, for dashboards made for KServe.
fn kserve(registry: &Registry) -> [HistogramVec; 3] {
    let families = [
        (names::KSERVE_PREPROCESS, "Time of preprocess in the plugin, as KServe's dashboards read it"),
        (names::KSERVE_PREDICT, "Time in the model behind a plugin, as KServe's dashboards read it"),
        (names::KSERVE_POSTPROCESS, "Time of postprocess in the plugin, as KServe's dashboards read it"),
    ];
    families.map(|(name, help)| {
        let options = HistogramOpts::new(name, help).buckets(duration_buckets());
        registered(registry, HistogramVec::new(options, &["model_name"]))
    })
}

/// Every outcome is there from the start, at zero.
fn trace_spans(registry: &Registry) -> IntCounterVec {
    let options = Opts::new(names::TRACE_SPANS, "Spans of traces, by what became of them");
    let family = registered(registry, IntCounterVec::new(options, &["outcome"]));
    for outcome in ["exported", "dropped", "failed"] {
        family.with_label_values(&[outcome]);
    }
    family
}

/// One series that never changes: which version runs.
fn show_build(registry: &Registry) {
    let made = IntGaugeVec::new(Opts::new(names::BUILD, "Build information"), &["version"]);
    registered(registry, made).with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every family, with Triton's default ones of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::with(&TritonMetrics::default())
    }

    /// Registers every family, with these of Triton's.
    #[must_use]
    pub fn with(triton: &TritonMetrics) -> Self {
        let registry = Registry::new();
        let r = &registry;
        let counters = |name, help, labels: &[&str]| registered(r, IntCounterVec::new(Opts::new(name, help), labels));
        let gauges = |name, help, labels: &[&str]| registered(r, IntGaugeVec::new(Opts::new(name, help), labels));
        let gauge = |name, help| registered(r, IntGauge::new(name, help));
        let histograms = |name, help, buckets, labels: &[&str]| {
            registered(r, HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets), labels))
        };
        let version: &[&str] = &["model", "version"];
        let this = Self {
            known: Known::default(),
            triton: registered(r, Ok(TritonSeries::new(triton))),
            non_finite: counters(
                names::NON_FINITE,
                "Answers of which an output held a NaN or an infinity",
                &["model", "version", "output"],
            ),
            kserve: kserve(r),
            stage: histograms(
                names::STAGE_DURATION,
                "Time of each stage of a request in seconds",
                duration_buckets(),
                &["model", "version", "stage"],
            ),
            batch_rows: histograms(names::BATCH_ROWS, "Rows of each batch run", row_buckets(), version),
            requests: counters(names::REQUESTS, "Requests answered, by outcome", &["model", "version", "code"]),
            queue_drops: counters(names::QUEUE_DROPS, "Requests dropped from a queue", &["model", "version", "reason"]),
            queue_size: gauges(names::QUEUE_SIZE, "Requests waiting in a queue now", version),
            queue_limit: gauges(names::QUEUE_LIMIT, "Most requests that may wait in a queue", version),
            runs_inline: gauges(names::RUNS_INLINE, "1 where batches run on the thread of a request", version),
            swaps: counters(
                names::SWAPS,
                "Attempts to publish a plugin, version or configuration",
                &["model", "outcome"],
            ),
            engine_loads: counters(names::ENGINE_LOADS, "Model versions loaded by the engine", &["model"]),
            plugin: PluginFamilies::new(r),
            sandbox: SandboxMetrics::new(r),
            shared_memory: SharedMemoryMetrics::new(r),
            log_lines_dropped: DroppedLines::new(
                r,
                names::LOG_LINES_DROPPED,
                "Log lines dropped because nobody took them",
            ),
            access_log_lines_dropped: DroppedLines::new(
                r,
                names::ACCESS_LOG_LINES_DROPPED,
                "Access log lines dropped because nobody took them",
            ),
            trace_spans: trace_spans(r),
            limit: registered(r, GaugeVec::new(Opts::new(names::LIMIT, "Limits in force, by name"), &["name"])),
            models: gauges(names::MODELS, "Models by state", &["state"]),
            http: Traffic::new(r, &Names::HTTP),
            grpc: Traffic::new(r, &Names::GRPC),
            in_flight: traffic::in_flight(r),
            connections: gauges(names::CONNECTIONS, "Connections open now", &["port"]),
            draining: gauge(names::DRAINING, "Releases replaced and not yet freed"),
            registry: registry.clone(),
        };
        show_build(r);
        this
    }

    /// The text exposition (Prometheus 0.0.4).
    ///
    /// # Errors
    /// When the encoder refuses a family, which would be a fault of this file.
    pub fn render(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// Shows, from now on, the resources that `read` tells of, as [`RateLimiter::resources`](batching::RateLimiter::resources)
    /// does. Once per process.
    pub fn show_resources(&self, read: impl Fn() -> Vec<Resource> + Send + Sync + 'static) {
        registered_once(&self.registry, Resources::new(read));
    }

    /// Shows, from now on, what `read` tells of the response cache. Once per process.
    pub fn show_response_cache(&self, read: impl Fn() -> CacheSnapshot + Send + Sync + 'static) {
        registered_once(&self.registry, CacheSeries::new(read));
    }

    /// Shows, from now on, how busy the system is, read anew when the last reading is older than `interval`. Once per
    /// process.
    pub fn show_system(&self, interval: Duration) {
        registered_once(&self.registry, SystemSeries::new(interval));
    }

    /// Requests that this surface holds now.
    #[must_use]
    pub fn in_flight(&self, surface: Surface) -> &IntGauge {
        &self.in_flight[surface as usize]
    }

    /// Connections to the port of this name that are open now.
    #[must_use]
    pub fn connections(&self, port: &str) -> IntGauge {
        self.connections.with_label_values(&[port])
    }

    /// Shows how many log lines have been dropped since the start.
    pub fn show_log_lines_dropped(&self, count: u64) {
        self.log_lines_dropped.show(count);
    }

    /// Shows the shared memory regions that are open, and their bytes together.
    pub fn show_shared_memory(&self, regions: u64, bytes: u64) {
        self.shared_memory.show(regions, bytes);
    }

    /// Shows how many lines of the access log have been dropped.
    pub fn show_access_log_lines_dropped(&self, count: u64) {
        self.access_log_lines_dropped.show(count);
    }

    /// Counts spans of which this became: `exported`, `dropped` or `failed`.
    #[must_use]
    pub fn trace_spans(&self, outcome: &str) -> IntCounter {
        self.trace_spans.with_label_values(&[outcome])
    }

    /// Shows a limit.
    pub fn show_limit(&self, name: &str, value: f64) {
        let gauge: Gauge = self.limit.with_label_values(&[name]);
        gauge.set(value);
    }

    /// Counts an attempt to publish.
    pub fn swap(&self, model: &ModelName, outcome: SwapOutcome) {
        let _known = self.known.note(model);
        self.swaps.with_label_values(&[model.as_str(), outcome.as_str()]).inc();
    }

    /// Counts a version loaded by the engine.
    pub fn engine_load(&self, model: &ModelName) {
        let _known = self.known.note(model);
        self.engine_loads.with_label_values(&[model.as_str()]).inc();
    }

    /// Shows how many models are in a state.
    pub fn models_in_state(&self, state: &str, count: usize) {
        self.models.with_label_values(&[state]).set(gauge_value(count));
    }

    /// Sets the gauges of a version from what its batcher says.
    pub fn show_queue(&self, model: &ModelName, version: VersionNumber, queue: &QueueGauges) {
        let version = version.to_string();
        let labels = [model.as_str(), &version];
        let set = |gauges: &IntGaugeVec, value: usize| {
            gauges.with_label_values(&labels).set(gauge_value(value));
        };
        set(&self.queue_size, queue.requests);
        set(&self.queue_limit, queue.limit);
        set(&self.runs_inline, usize::from(queue.inline));
    }

    /// Sets the gauges of the sandbox.
    pub fn show_sandbox(&self, sandbox: &SandboxGauges<'_>) {
        self.sandbox.show(sandbox);
    }

    /// Forgets the gauges of a version that serves no longer. Counters and histograms stay: they are history.
    pub fn forget_version(&self, model: &ModelName, version: VersionNumber) {
        let version = version.to_string();
        for gauges in [&self.queue_size, &self.queue_limit, &self.runs_inline, &self.plugin.generation] {
            // Absent already: nothing to forget.
            let _ = gauges.remove_label_values(&[model.as_str(), &version]);
        }
    }

    /// Counts a request that was refused before its model and version were known.
    pub fn refused(&self, code: ErrorCode) {
        self.requests.with_label_values(&["", "", code.as_str()]).inc();
    }
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What a batcher says of its queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueGauges {
    /// Waiting now.
    pub requests: usize,
    /// May wait.
    pub limit: usize,
    /// Whether batches run on the thread of a request.
    pub inline: bool,
}

/// From 10 µs to 80 s, in steps of about 2.
fn duration_buckets() -> Vec<f64> {
    exponential_buckets(10e-6, 2.0, 24).expect("constants are in range")
}

/// 1, 2, 4 … 4096.
fn row_buckets() -> Vec<f64> {
    exponential_buckets(1.0, 2.0, 13).expect("constants are in range")
}

#[cfg(test)]
mod tests;
