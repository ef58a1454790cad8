//! What a plugin.toml says, in the sandbox's terms. The operator's bounds outweigh what the plugin asks for.

use std::collections::BTreeMap;

use plugin::{Limits, MetricKind, PlacementPolicy, WarmPolicy};

use super::plugin_toml::{DeclaredMetrics, PluginLimits, Reuse, StageExecution};

/// Bounds of one call.
pub(super) fn limits(asked: &PluginLimits) -> Limits {
    let bytes = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Limits {
        time: asked.time(),
        memory_bytes: bytes(asked.memory_bytes()),
        body_bytes_max: bytes(asked.output_bytes()),
        tensor_bytes_max: bytes(asked.output_bytes()),
        log_lines_max: asked.log_lines as usize,
        carry_bytes_max: (asked.carry_kb as usize) << 10,
        headers_max: asked.headers as usize,
        header_bytes_max: asked.header_bytes as usize,
        log_line_bytes_max: asked.log_line_bytes as usize,
        log_bytes_max: (asked.log_lines as usize).saturating_mul(asked.log_line_bytes as usize),
        ..Limits::default()
    }
}

/// Whether instances stay warm.
pub(super) fn reuse(asked: Reuse) -> plugin::Reuse {
    match asked {
        Reuse::Fresh => plugin::Reuse::Fresh,
        Reuse::Warm => plugin::Reuse::Warm(WarmPolicy::default()),
    }
}

/// On which threads it runs.
pub(super) fn placement(asked: StageExecution) -> PlacementPolicy {
    match asked {
        StageExecution::Auto => PlacementPolicy::Auto,
        StageExecution::Inline => PlacementPolicy::Inline,
        StageExecution::Runtime => PlacementPolicy::Runtime,
    }
}

/// The metrics it may write, by name.
pub(super) fn metrics(declared: &DeclaredMetrics) -> BTreeMap<String, MetricKind> {
    let counters = declared.counters.iter().map(|name| (name.clone(), MetricKind::Counter));
    let histograms = declared.histograms.keys().map(|name| (name.clone(), MetricKind::Histogram));
    counters.chain(histograms).collect()
}
