//! The Open Inference Protocol v2 as Triton speaks it: health, metadata and JSON inference.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use model::{ErrorCode, VersionNumber};
use tokio::time::Instant;

use super::request::{admit, read_body};
use super::tally::Tally;
use super::v2_json::{
    InferAnswer, InferContext, ModelMetadata, ParameterValue, V2Error, parse_infer, render_infer, render_metadata,
    render_server_metadata,
};
use super::{HttpState, answer};
use crate::failure::RequestFailure;
use crate::pipeline::{self, Waiting};
use crate::registry::{LoadedVersion, Release};
use crate::repository::config_json::model_config_json;

/// A model, and the version where the path names one.
pub(super) type Target = Path<Vec<(String, String)>>;

pub(super) fn split(target: &Target) -> (&str, Option<&str>) {
    let value = |key: &str| target.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    (value("model").unwrap_or_default(), value("version"))
}

/// `GET /v2`.
pub(super) async fn server_metadata(State(state): State<Arc<HttpState>>) -> Response<Body> {
    let mut body = Vec::new();
    render_server_metadata(&mut body, &state.server.name, env!("CARGO_PKG_VERSION"));
    answer::json(body)
}

/// `GET /v2/health/live`: the process answers.
pub(super) async fn live() -> Response<Body> {
    answer::empty(StatusCode::OK)
}

/// `GET /v2/health/ready`: every model serves, or where readiness is not strict has been looked at, and the server is not
/// stopping.
pub(super) async fn ready(State(state): State<Arc<HttpState>>) -> Response<Body> {
    if state.leaving().load(Ordering::Acquire) {
        return answer::failure(&RequestFailure::new(ErrorCode::ShuttingDown, "Server exiting"));
    }
    let map = state.registry.snapshot();
    let ready = if state.server.strict_readiness { map.is_ready() } else { map.is_complete() };
    answer::empty(if ready { StatusCode::OK } else { StatusCode::BAD_REQUEST })
}

/// `GET /v2/models/{model}[/versions/{version}]/ready`.
pub(super) async fn model_ready(State(state): State<Arc<HttpState>>, target: Target) -> Response<Body> {
    let (model, version) = split(&target);
    match state.registry.pin(model, version) {
        Ok(release) => answer::with_version(answer::empty(StatusCode::OK), &release),
        Err(mut failure) => {
            if failure.code == ErrorCode::ModelNotReady {
                failure.text = format!("Model version not ready: {}", failure.text);
            }
            answer::failure(&failure)
        }
    }
}

/// `GET /v2/models/{model}[/versions/{version}]`.
pub(super) async fn model_metadata(State(state): State<Arc<HttpState>>, target: Target) -> Response<Body> {
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
pub(super) async fn model_config(State(state): State<Arc<HttpState>>, target: Target) -> Response<Body> {
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

/// `POST /v2/models/{model}[/versions/{version}]/infer`.
pub(super) async fn infer(
    State(state): State<Arc<HttpState>>,
    target: Target,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (model, version) = split(&target);
    let mut tally = Tally::open(&state);
    let release = match state.registry.pin(model, version) {
        Ok(release) => release,
        Err(failure) => {
            tally.failed(&failure);
            return answer::closing(answer::failure(&failure));
        }
    };
    tally.pinned(&release);
    let response = match infer_pinned(&state, &release, (&parts.headers, body), &mut tally).await {
        Ok(body) => answer::json(body),
        Err(failure) => {
            tally.failed(&failure);
            let response = answer::failure(&failure);
            if tally.body_was_read() { response } else { answer::closing(response) }
        }
    };
    answer::with_version(response, &release)
}

async fn infer_pinned(
    state: &HttpState,
    release: &Release,
    (headers, body): (&HeaderMap, Body),
    tally: &mut Tally<'_>,
) -> Result<Vec<u8>, RequestFailure> {
    let admitted = admit(state, headers)?;
    let body = read_body(state, headers, body, admitted.deadline).await?;
    tally.body_read();
    let version: &LoadedVersion = &release.version;
    let model = version.model.as_str();
    let context = InferContext { model, signature: &version.signature, data_bytes_max: state.limits.body_bytes_max };
    let request = parse_infer(&body, &context)?;
    tally.hand_over();
    let waiting = waiting(admitted.deadline, &request.parameters);
    let outputs = pipeline::infer(version, request.inputs, &request.outputs, waiting).await?;
    let mut answer = Vec::new();
    let id = request.id.as_deref();
    let fields = InferAnswer { model, version: &version.number_text, id, outputs: &outputs };
    render_infer(&mut answer, &fields)?;
    Ok(answer)
}

/// What the request's parameters say of how it waits: `priority`, and `timeout` in microseconds.
fn waiting(deadline: Instant, parameters: &[(String, ParameterValue)]) -> Waiting {
    let unsigned = |name: &str| {
        parameters.iter().find_map(|(key, value)| match value {
            ParameterValue::Unsigned(number) if key == name => Some(*number),
            _ => None,
        })
    };
    Waiting {
        deadline,
        priority: unsigned("priority").unwrap_or(0),
        timeout: unsigned("timeout").map(Duration::from_micros),
    }
}

impl From<V2Error> for RequestFailure {
    fn from(error: V2Error) -> Self {
        Self::new(error.code, error.text)
    }
}
