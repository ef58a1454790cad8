//! What one plugin may use, and how it runs. Every limit has a name, a default and a place where it is enforced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::ModelName;

use crate::{MetricKind, PluginSink};

/// Bounds of one plugin. The memory limit holds per instance, all others per call of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for one stage, instantiation included where there is one. Default 1 s.
    pub time: Duration,
    /// Bytes of all linear memories of an instance together. Growth past it fails inside the guest. Default 256 MiB.
    pub memory_bytes: usize,
    /// Bytes of an answer's body. Default 16 MiB.
    pub body_bytes_max: usize,
    /// Bytes of all tensors that `preprocess` gives back. Default 64 MiB; the host sets it to what `limits.output_mb` says.
    pub tensor_bytes_max: usize,
    /// Bytes of `carry`. Default 1 MiB.
    pub carry_bytes_max: usize,
    /// Headers of an answer. Default 32.
    pub headers_max: usize,
    /// Bytes of an answer's header names and values. Default 8 KiB.
    pub header_bytes_max: usize,
    /// Bytes of an error's text; longer ones are cut. Default 8 KiB.
    pub error_bytes_max: usize,
    /// Wrong fields that one answer may list; further ones are left out. Default 100.
    pub field_errors_max: usize,
    /// Lines of log and captured output. Default 100.
    pub log_lines_max: usize,
    /// Bytes of one line of these; longer ones are cut. Default 4 KiB.
    pub log_line_bytes_max: usize,
    /// Bytes of log and captured output. Default 64 KiB.
    pub log_bytes_max: usize,
    /// Metric values. Default 1,000.
    pub metrics_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(1),
            memory_bytes: 256 << 20,
            body_bytes_max: 16 << 20,
            tensor_bytes_max: 64 << 20,
            carry_bytes_max: 1 << 20,
            headers_max: 32,
            header_bytes_max: 8 << 10,
            error_bytes_max: 8 << 10,
            field_errors_max: 100,
            log_lines_max: 100,
            log_line_bytes_max: 4 << 10,
            log_bytes_max: 64 << 10,
            metrics_max: 1_000,
        }
    }
}

impl Limits {
    /// Bytes that one crossing from the guest may carry: the largest lawful value and room for names and records.
    pub(crate) fn crossing_bytes(&self) -> usize {
        const SLACK: usize = 1 << 20;
        let largest = self.tensor_bytes_max.saturating_add(self.carry_bytes_max).max(self.body_bytes_max);
        largest.saturating_add(SLACK)
    }
}

/// Whether an instance serves one call or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// A new instance for each call.
    Fresh,
    /// Instances stay warm between calls.
    Warm(WarmPolicy),
}

/// When a warm instance is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmPolicy {
    /// Calls after which an instance is replaced. Default 100,000.
    pub calls_max: u64,
    /// Idle time after which [`crate::Plugin::sweep`] drops it. Default 5 minutes.
    pub idle_max: Duration,
    /// Bytes of memory above which an instance is replaced, since a memory never shrinks. Default 128 MiB.
    pub memory_bytes_kept_max: usize,
}

impl Default for WarmPolicy {
    fn default() -> Self {
        Self { calls_max: 100_000, idle_max: Duration::from_secs(300), memory_bytes_kept_max: 128 << 20 }
    }
}

impl Default for Reuse {
    fn default() -> Self {
        Self::Warm(WarmPolicy::default())
    }
}

/// On which threads a plugin's stages run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementPolicy {
    /// By each stage's own measured times: inline once proven short, on the plugin runtime otherwise.
    #[default]
    Auto,
    /// Always on the thread that holds the request.
    Inline,
    /// Always on the plugin runtime.
    Runtime,
}

/// Everything that makes a generation beside its compiled component.
pub struct PluginSpec {
    /// The model.
    pub model: ModelName,
    /// The generation's number.
    pub generation: u64,
    /// What it may use.
    pub limits: Limits,
    /// Whether instances stay warm.
    pub reuse: Reuse,
    /// On which threads it runs.
    pub placement: PlacementPolicy,
    /// `[config]` of plugin.toml: strings as they are, other values as JSON text.
    pub config: BTreeMap<String, String>,
    /// The files of `assets/`, by their path relative to it.
    pub assets: Arc<BTreeMap<String, Bytes>>,
    /// The metrics it may write, by name.
    pub metrics: BTreeMap<String, MetricKind>,
    /// Where its words and numbers go.
    pub sink: Arc<dyn PluginSink>,
}
