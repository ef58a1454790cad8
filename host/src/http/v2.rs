//! The Open Inference Protocol v2 as Triton speaks it: health and metadata.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use model::{ErrorCode, VersionNumber};

use super::answer;
use super::path::Path;
use super::v2_json::{ModelMetadata, render_metadata, render_server_metadata};
use crate::failure::RequestFailure;
use crate::repository::config_json::model_config_json;
use crate::serving::ServingState;

/// A model, and the version where the path names one.
pub(super) type Target = Path<Vec<(String, String)>>;

pub(super) fn split(target: &Target) -> (&str, Option<&str>) {
    let value = |key: &str| target.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    (value("model").unwrap_or_default(), value("version"))
}

/// `GET /v2`.
pub(super) async fn server_metadata(State(state): State<Arc<ServingState>>) -> Response<Body> {
    let mut body = Vec::new();
    render_server_metadata(&mut body, &state.server.name, env!("CARGO_PKG_VERSION"), &state.server.extensions);
    answer::json(body)
}

/// `GET /v2/health/live`: the process answers.
pub(super) async fn live() -> Response<Body> {
    answer::empty(StatusCode::OK)
}

/// `GET /v2/health/ready`: every model serves, or where readiness is not strict has been looked at, and the server is not
/// stopping.
pub(super) async fn ready(State(state): State<Arc<ServingState>>) -> Response<Body> {
    if state.is_leaving() {
        return answer::failure(&RequestFailure::new(ErrorCode::ShuttingDown, "Server exiting"));
    }
    answer::empty(if state.is_ready() { StatusCode::OK } else { StatusCode::BAD_REQUEST })
}

/// `GET /v2/models/{model}[/versions/{version}]/ready`.
pub(super) async fn model_ready(State(state): State<Arc<ServingState>>, target: Target) -> Response<Body> {
    let (model, version) = split(&target);
    match state.registry.pin(model, version) {
        Ok(release) => answer::with_version(answer::empty(StatusCode::OK), &release),
        Err(mut failure) => {
            if matches!(failure.code, ErrorCode::ModelNotReady | ErrorCode::NoAvailableVersion) {
                failure.code = ErrorCode::ModelNotReady;
                failure.text = format!("Model version not ready: {}", failure.text);
                failure.retry_after = Some(Duration::from_secs(1));
            }
            answer::failure(&failure)
        }
    }
}

/// `GET /v2/models/{model}[/versions/{version}]`.
pub(super) async fn model_metadata(State(state): State<Arc<ServingState>>, target: Target) -> Response<Body> {
    let (model, version) = split(&target);
    let release = match state.registry.pin(model, version) {
        Ok(release) => release,
        Err(failure) => return answer::failure(&failure),
    };
    let served: Vec<VersionNumber> = match (version, state.registry.snapshot().model(model)) {
        (None, Ok(served)) => served.releases.keys().copied().collect(),
        _ => vec![release.version.number],
    };
    let platform = release.version.config().completed.backend.platform();
    let signature = &release.version.signature;
    let metadata = ModelMetadata { name: model, versions: &served, platform, signature };
    let mut body = Vec::new();
    render_metadata(&mut body, &metadata);
    answer::with_version(answer::json(body), &release)
}

/// `GET /v2/models/{model}[/versions/{version}]/config`: the configuration as Triton prints it.
pub(super) async fn model_config(State(state): State<Arc<ServingState>>, target: Target) -> Response<Body> {
    let (model, version) = split(&target);
    let map = state.registry.snapshot();
    let found = map.model(model).and_then(|served| Ok((served, served.release(version)?)));
    match found {
        Ok((served, release)) => {
            let config = answer::json(model_config_json(served, &release.version));
            answer::with_version(config, release)
        }
        Err(failure) => answer::failure(&failure),
    }
}
