//! The model repository extension: index, load and unload.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{ErrorCode, ModelName};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::request::{admit, read_body};
use super::{HttpState, RepositoryApi, answer};
use crate::failure::RequestFailure;
use crate::repository::control::{ControlError, ModelControlQueue};
use crate::repository::index::{IndexState, index as index_of, names_on_disk};
use crate::repository::overrides::{Overrides, OverridesError};

/// What a request of this extension may say.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RepositoryRequest {
    ready: Option<Value>,
    parameters: Map<String, Value>,
}

/// `POST /v2/repository/index`.
pub(super) async fn index(State(state): State<Arc<HttpState>>, request: Request<Body>) -> Response<Body> {
    let only_ready = match read(&state, request).await.and_then(|request| only_ready(&request)) {
        Ok(only_ready) => only_ready,
        Err(failure) => return answer::failure(&failure),
    };
    let roots = state.repository.roots.clone();
    // A listing that panics lists nothing; what is known is told all the same.
    let on_disk = tokio::task::spawn_blocking(move || names_on_disk(&roots)).await.unwrap_or_default();
    let mut entries = index_of(&state.registry.snapshot(), &on_disk);
    entries.retain(|entry| !only_ready || entry.state == Some(IndexState::Ready));
    answer::json(serde_json::to_vec(&entries).expect("strings always serialize"))
}

/// `POST /v2/repository/models/{model}/load`: answers once the model serves, or once it is known why not.
pub(super) async fn load(
    State(state): State<Arc<HttpState>>,
    Path(model): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    finish(load_model(&state, &model, request).await)
}

/// `POST /v2/repository/models/{model}/unload`.
pub(super) async fn unload(
    State(state): State<Arc<HttpState>>,
    Path(model): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    finish(unload_model(&state, &model, request).await)
}

/// A repository of a name of its own. The text is Triton's.
pub(super) async fn named() -> Response<Body> {
    let text = "'repository_name' specification is not supported";
    answer::closing(answer::failure(&RequestFailure::new(ErrorCode::NotImplemented, text)))
}

fn finish(outcome: Result<(), RequestFailure>) -> Response<Body> {
    match outcome {
        Ok(()) => answer::empty(StatusCode::OK),
        Err(failure) => answer::failure(&failure),
    }
}

async fn load_model(state: &HttpState, model: &str, request: Request<Body>) -> Result<(), RequestFailure> {
    let (queue, name) = target(&state.repository, model)?;
    let RepositoryRequest { parameters, .. } = read(state, request).await?;
    let overrides = match LoadParameters::read(&parameters)? {
        LoadParameters { config: None, .. } => None,
        LoadParameters { config: Some(config), files } => {
            let (folders, name) = (state.repository.overrides.clone(), name.clone());
            let write = move || (!files.is_empty()).then(|| folders.write(&name, &files)).transpose();
            let written = tokio::task::spawn_blocking(write).await;
            let folder = written.map_err(|error| RequestFailure::new(ErrorCode::Internal, error.to_string()))??;
            Some(Overrides { config: config.into(), folder })
        }
    };
    queue.load(name, overrides).await.map_err(RequestFailure::from)
}

async fn unload_model(state: &HttpState, model: &str, request: Request<Body>) -> Result<(), RequestFailure> {
    let (queue, name) = target(&state.repository, model)?;
    read(state, request).await?;
    queue.unload(name).await.map_err(RequestFailure::from)
}

/// Where the request goes and whom it is about. Texts are Triton's.
fn target<'a>(
    repository: &'a RepositoryApi,
    model: &str,
) -> Result<(&'a ModelControlQueue, ModelName), RequestFailure> {
    let Some(queue) = &repository.requests else {
        let text = "explicit model load / unload is not allowed if polling is enabled";
        return Err(RequestFailure::new(ErrorCode::ModelControlDisabled, text));
    };
    if model.contains('/') || model.contains("..") {
        let text = format!("invalid model name '{model}', model name must not contain path traversal characters");
        return Err(RequestFailure::new(ErrorCode::MalformedRequest, text));
    }
    let name = ModelName::new(model);
    Ok((queue, name.map_err(|error| RequestFailure::new(ErrorCode::MalformedRequest, error.to_string()))?))
}

/// The body; an empty one says nothing.
async fn read(state: &HttpState, request: Request<Body>) -> Result<RepositoryRequest, RequestFailure> {
    let (parts, body) = request.into_parts();
    let admitted = admit(state, &parts.headers)?;
    let body = read_body(state, (&parts.headers, body), admitted.deadline, "request JSON").await?;
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(RepositoryRequest::default());
    }
    serde_json::from_slice(&body).map_err(|error| {
        RequestFailure::new(ErrorCode::MalformedRequest, format!("failed to parse the request JSON buffer: {error}"))
    })
}

fn only_ready(request: &RepositoryRequest) -> Result<bool, RequestFailure> {
    match &request.ready {
        None => Ok(false),
        Some(Value::Bool(ready)) => Ok(*ready),
        Some(_) => {
            let text = "Invalid value for 'ready': expected a boolean";
            Err(RequestFailure::new(ErrorCode::MalformedRequest, text))
        }
    }
}

/// The parameters of a load request.
#[derive(Debug, Default)]
struct LoadParameters {
    config: Option<String>,
    /// Paths and contents.
    files: Vec<(String, Vec<u8>)>,
}

impl LoadParameters {
    /// Reads them. Texts are Triton's where it has one.
    fn read(parameters: &Map<String, Value>) -> Result<Self, RequestFailure> {
        let malformed = |text: String| RequestFailure::new(ErrorCode::MalformedRequest, text);
        let mut read = Self::default();
        for (name, value) in parameters {
            let text = value.as_str();
            match (name.as_str(), name.strip_prefix("file:"), text) {
                ("config", _, Some(text)) => read.config = Some(text.to_owned()),
                (_, Some(path), Some(text)) => {
                    let content = STANDARD
                        .decode(text)
                        .map_err(|error| malformed(format!("load parameter '{name}' must be base64: {error}")))?;
                    read.files.push((path.to_owned(), content));
                }
                ("config", ..) | (_, Some(_), None) => {
                    return Err(malformed(format!(
                        "invalid value type for load parameter '{name}', expected a string"
                    )));
                }
                _ => return Err(malformed(format!("unrecognized load parameter '{name}'."))),
            }
        }
        if read.config.is_none() && !read.files.is_empty() {
            return Err(malformed("Load parameter 'config' must be specified for model file override".to_owned()));
        }
        Ok(read)
    }
}

impl From<ControlError> for RequestFailure {
    fn from(error: ControlError) -> Self {
        let code = match error {
            ControlError::NotFound { .. } => ErrorCode::RepositoryFailed,
            ControlError::Refused { .. } => ErrorCode::LoadFailed,
            ControlError::Overtaken { .. } | ControlError::Busy => ErrorCode::Overloaded,
        };
        Self::new(code, error.to_string())
    }
}

impl From<OverridesError> for RequestFailure {
    fn from(error: OverridesError) -> Self {
        let code = match error {
            OverridesError::Outside { .. } => ErrorCode::MalformedRequest,
            OverridesError::Write { .. } => ErrorCode::Internal,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parameters: &str) -> Result<LoadParameters, String> {
        LoadParameters::read(&serde_json::from_str(parameters).expect("JSON")).map_err(|failure| failure.text)
    }

    #[test]
    fn parameters_of_a_load_request() {
        let read = |text: &str| read(text).map(|read| (read.config, read.files));
        assert_eq!(read("{}"), Ok((None, Vec::new())));
        assert_eq!(read(r#"{"config": "{}"}"#), Ok((Some("{}".to_owned()), Vec::new())));
        let files = vec![("1/model.onnx".to_owned(), b"abc".to_vec())];
        assert_eq!(read(r#"{"config": "{}", "file:1/model.onnx": "YWJj"}"#), Ok((Some("{}".to_owned()), files)));
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (parameters, expected) in [
            (r#"{"file:1/model.onnx": "YWJj"}"#, "Load parameter 'config' must be specified for model file override"),
            (r#"{"config": 7}"#, "invalid value type for load parameter 'config', expected a string"),
            (r#"{"config": "{}", "file:x": 7}"#, "invalid value type for load parameter 'file:x', expected a string"),
            (
                r#"{"config": "{}", "file:x": "?"}"#,
                "load parameter 'file:x' must be base64: Invalid symbol 63, offset 0.",
            ),
            (r#"{"unload_dependents": true}"#, "unrecognized load parameter 'unload_dependents'."),
        ] {
            assert_eq!(read(parameters).expect_err("refused"), expected);
        }
    }
}
