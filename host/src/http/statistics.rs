//! The statistics extension: what each served version has done since it was loaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde::Serialize;

use super::answer;
use super::v2::{Target, split};
use crate::metrics::{BatchCounts, InferenceSnapshot, TimedCount};
use crate::registry::Release;
use crate::serving::ServingState;

/// Source: Triton's statistics extension, "Statistics Response JSON Object".
#[derive(Serialize)]
struct Statistics {
    model_stats: Vec<ModelStatistics>,
}

#[derive(Serialize)]
struct ModelStatistics {
    name: String,
    version: String,
    last_inference: u64,
    inference_count: u64,
    execution_count: u64,
    inference_stats: InferenceStatistics,
    /// Of models that answer a request more than once; none does.
    response_stats: BTreeMap<String, ()>,
    batch_stats: Vec<BatchStatistics>,
    /// Of devices; there is none.
    memory_usage: [(); 0],
}

#[derive(Serialize)]
struct InferenceStatistics {
    success: Duration,
    fail: Duration,
    queue: Duration,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
    cache_hit: Duration,
    cache_miss: Duration,
}

#[derive(Serialize)]
struct BatchStatistics {
    batch_size: u64,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
}

#[derive(Default, Serialize)]
struct Duration {
    count: u64,
    ns: u64,
}

impl From<TimedCount> for Duration {
    fn from(TimedCount { count, ns }: TimedCount) -> Self {
        Self { count, ns }
    }
}

/// `GET /v2/models/stats`.
pub(super) async fn all(State(state): State<Arc<ServingState>>) -> Response<Body> {
    let map = state.registry.snapshot();
    let mut models: Vec<_> = map.models().collect();
    models.sort_by(|one, other| one.name.cmp(&other.name));
    render(models.iter().flat_map(|model| model.releases.values()))
}

/// `GET /v2/models/{model}[/versions/{version}]/stats`.
pub(super) async fn of_model(State(state): State<Arc<ServingState>>, target: Target) -> Response<Body> {
    let (name, version) = split(&target);
    let map = state.registry.snapshot();
    let found = map.model(name).and_then(|model| Ok((model, model.release(version)?)));
    match found {
        Ok((model, _)) if version.is_none() => render(model.releases.values()),
        Ok((_, release)) => render([release]),
        Err(failure) => answer::failure(&failure),
    }
}

fn render<'a>(releases: impl IntoIterator<Item = &'a Arc<Release>>) -> Response<Body> {
    let model_stats = releases.into_iter().map(|release| statistics_of(release)).collect();
    answer::json(serde_json::to_vec(&Statistics { model_stats }).expect("numbers and strings always serialize"))
}

fn statistics_of(release: &Release) -> ModelStatistics {
    let version = &release.version;
    let InferenceSnapshot { last_inference_ms, inference_count, execution_count, phases, batches, .. } =
        version.metrics.statistics();
    ModelStatistics {
        name: version.model.to_string(),
        version: version.number_text.to_string(),
        last_inference: last_inference_ms,
        inference_count,
        execution_count,
        inference_stats: InferenceStatistics {
            success: phases.success.into(),
            fail: phases.fail.into(),
            queue: phases.queue.into(),
            compute_input: phases.compute_input.into(),
            compute_infer: phases.compute_infer.into(),
            compute_output: phases.compute_output.into(),
            cache_hit: phases.cache_hit.into(),
            cache_miss: phases.cache_miss.into(),
        },
        response_stats: BTreeMap::new(),
        batch_stats: batches.into_iter().map(batch_statistics).collect(),
        memory_usage: [],
    }
}

fn batch_statistics((batch_size, counts): (u64, BatchCounts)) -> BatchStatistics {
    BatchStatistics {
        batch_size,
        compute_input: counts.compute_input.into(),
        compute_infer: counts.compute_infer.into(),
        compute_output: counts.compute_output.into(),
    }
}
