//! The statistics extension: what each served version has done since it was loaded.

use std::collections::HashMap;
use std::sync::Arc;

use super::infer::version_of;
use super::proto::inference::{
    InferBatchStatistics, InferStatistics, ModelStatistics, ModelStatisticsRequest, ModelStatisticsResponse,
    StatisticDuration,
};
use crate::failure::RequestFailure;
use crate::metrics::{BatchCounts, InferenceSnapshot, TimedCount};
use crate::registry::Release;
use crate::serving::ServingState;

/// The statistics of a version, of all versions of a model, or where no model is named of all models.
pub(super) fn statistics(
    state: &ServingState,
    request: &ModelStatisticsRequest,
) -> Result<ModelStatisticsResponse, RequestFailure> {
    let map = state.registry.snapshot();
    let mut models: Vec<_> = match &request.name[..] {
        "" => map.models().collect(),
        name => vec![map.model(name)?],
    };
    models.sort_by(|one, other| one.name.cmp(&other.name));
    let releases: Vec<&Arc<Release>> = match (version_of(&request.version), &models[..]) {
        (Some(version), [model]) => vec![model.release(Some(version))?],
        _ => models.iter().flat_map(|model| model.releases.values()).collect(),
    };
    Ok(ModelStatisticsResponse { model_stats: releases.into_iter().map(|release| statistics_of(release)).collect() })
}

fn statistics_of(release: &Release) -> ModelStatistics {
    let version = &release.version;
    let InferenceSnapshot { last_inference_ms, inference_count, execution_count, phases, batches, .. } =
        version.metrics.statistics();
    let inference_stats = InferStatistics {
        success: duration(phases.success),
        fail: duration(phases.fail),
        queue: duration(phases.queue),
        compute_input: duration(phases.compute_input),
        compute_infer: duration(phases.compute_infer),
        compute_output: duration(phases.compute_output),
        cache_hit: duration(phases.cache_hit),
        cache_miss: duration(phases.cache_miss),
    };
    ModelStatistics {
        name: version.model.to_string(),
        version: version.number_text.to_string(),
        last_inference: last_inference_ms,
        inference_count,
        execution_count,
        inference_stats: Some(inference_stats),
        batch_stats: batches.into_iter().map(batch).collect(),
        // Of devices; there is none.
        memory_usage: Vec::new(),
        // Of models that answer a request more than once; none does.
        response_stats: HashMap::new(),
    }
}

fn batch((batch_size, counts): (u64, BatchCounts)) -> InferBatchStatistics {
    InferBatchStatistics {
        batch_size,
        compute_input: duration(counts.compute_input),
        compute_infer: duration(counts.compute_infer),
        compute_output: duration(counts.compute_output),
    }
}

fn duration(TimedCount { count, ns }: TimedCount) -> Option<StatisticDuration> {
    Some(StatisticDuration { count, ns })
}
