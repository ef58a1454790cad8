//! `GET /metrics` on its own port. Gauges that only matter when somebody looks are read at that moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use batching::Mode;
use model::ErrorCode;
use plugin::{PoolSnapshot, RuntimeSnapshot};

use super::answer;
use super::routes::Routes;
use crate::failure::RequestFailure;
use crate::metrics::{QueueGauges, SandboxGauges};
use crate::registry::ServedModel;
use crate::serving::ServingState;

/// Every route of the metrics port.
pub fn metrics_routes() -> Routes {
    Routes::default().get("/metrics", metrics)
}

/// The metrics port's routes with all that answers.
pub fn metrics_router(state: Arc<ServingState>) -> Router {
    metrics_routes().into_router().with_state(state)
}

/// The page: gauges read now, then every family.
///
/// # Errors
/// When the encoder refuses a family.
pub fn metrics_text(state: &ServingState) -> prometheus::Result<String> {
    for model in state.registry.snapshot().models() {
        show_model(state, model);
    }
    show_sandbox(state);
    let (regions, bytes) = state.shared_memory.open_regions();
    state.metrics.show_shared_memory(regions, bytes);
    state.metrics.show_log_lines_dropped(crate::logging::lines_dropped());
    state.metrics.show_access_log_lines_dropped(state.observer.lines_dropped());
    state.metrics.render()
}

async fn metrics(State(state): State<Arc<ServingState>>) -> Response<Body> {
    match metrics_text(&state) {
        Ok(text) => {
            let mut response = Response::new(Body::from(text));
            let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, content_type);
            response
        }
        Err(error) => {
            answer::failure(&RequestFailure::new(ErrorCode::Internal, format!("encoding the metrics: {error}")))
        }
    }
}

fn show_sandbox(state: &ServingState) {
    let RuntimeSnapshot { instances, waiting, pool, .. } = state.sandbox.snapshot();
    let count = |taken: u64| usize::try_from(taken).unwrap_or(usize::MAX);
    let pool = pool.map(|pool| {
        [
            ("core_instances", count(pool.core_instances)),
            ("component_instances", count(pool.component_instances)),
            ("memories", pool.memories),
            ("tables", pool.tables),
            ("stacks", pool.stacks),
        ]
    });
    let pool = pool.as_ref().map_or(&[][..], |pool| pool);
    state.metrics.show_sandbox(&SandboxGauges { instances, waiting, pool });
}

fn show_model(state: &ServingState, model: &ServedModel) {
    let metrics = &state.metrics;
    let mut generations: BTreeMap<u64, PoolSnapshot> = BTreeMap::new();
    for release in model.releases.values() {
        let version = &release.version;
        let snapshot = version.batch.snapshot();
        let queue = QueueGauges {
            requests: snapshot.queued_requests,
            limit: version.config().completed.batching.queue.max_queue_size.get(),
            inline: snapshot.mode == Mode::Inline,
        };
        metrics.show_queue(&model.name, version.number, &queue);
        version.metrics.inference().show_pending(snapshot.queued_requests);
        if let Some(generation) = release.generation() {
            generations.entry(generation.number).or_insert_with(|| generation.plugin.snapshot());
        }
    }
    if !generations.is_empty() {
        let warm = generations.values().map(|pool| pool.warm).sum();
        let created = generations.values().map(|pool| pool.created_total).sum();
        metrics.show_plugin(&model.name, warm, created);
    }
}
