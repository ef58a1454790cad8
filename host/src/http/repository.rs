//! The model repository extension: index, load and unload.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::ErrorCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer;
use super::path::Path;
use super::request::{malformed_json, read_object};
use crate::failure::RequestFailure;
use crate::repository_api::{IndexScope, LoadParameters};
use crate::serving::ServingState;

/// What a request of this extension may say.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RepositoryRequest {
    ready: Option<Value>,
    parameters: Map<String, Value>,
}

/// `POST /v2/repository/index`.
pub(super) async fn index(State(state): State<Arc<ServingState>>, request: Request<Body>) -> Response<Body> {
    let scope = match read(&state, request).await.and_then(|request| scope(&request)) {
        Ok(scope) => scope,
        Err(failure) => return answer::failure(&failure),
    };
    let entries = state.repository.index(&state.registry.snapshot(), scope).await;
    answer::json(serde_json::to_vec(&entries).expect("strings always serialize"))
}

/// `POST /v2/repository/models/{model}/load`: answers once the model serves, or once it is known why not.
pub(super) async fn load(
    State(state): State<Arc<ServingState>>,
    Path(model): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    finish(load_model(&state, &model, request).await)
}

/// `POST /v2/repository/models//load`: no name is no captured part of a path, and Triton has a text for it.
pub(super) async fn load_nameless(State(state): State<Arc<ServingState>>, request: Request<Body>) -> Response<Body> {
    finish(load_model(&state, "", request).await)
}

/// `POST /v2/repository/models//unload`.
pub(super) async fn unload_nameless(state: State<Arc<ServingState>>, request: Request<Body>) -> Response<Body> {
    unload(state, Path(String::new()), request).await
}

/// `POST /v2/repository/models/{model}/unload`.
pub(super) async fn unload(
    State(state): State<Arc<ServingState>>,
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

async fn load_model(state: &ServingState, model: &str, request: Request<Body>) -> Result<(), RequestFailure> {
    state.repository.check_target(model)?;
    // What is waited with is what was decoded: the text of the request is gone by then.
    let parameters = load_parameters(&read(state, request).await?.parameters)?;
    state.repository.load(model, parameters).await
}

async fn unload_model(state: &ServingState, model: &str, request: Request<Body>) -> Result<(), RequestFailure> {
    state.repository.check_target(model)?;
    read(state, request).await?;
    state.repository.unload(model).await
}

/// The body; an empty one says nothing.
async fn read(state: &ServingState, request: Request<Body>) -> Result<RepositoryRequest, RequestFailure> {
    let members = read_object(state, request).await?;
    serde_json::from_value(Value::Object(members)).map_err(|error| malformed_json(&error))
}

fn scope(request: &RepositoryRequest) -> Result<IndexScope, RequestFailure> {
    match &request.ready {
        None | Some(Value::Bool(false)) => Ok(IndexScope::All),
        Some(Value::Bool(true)) => Ok(IndexScope::Ready),
        Some(_) => {
            let text = "Invalid value for 'ready': expected a boolean";
            Err(RequestFailure::new(ErrorCode::MalformedRequest, text))
        }
    }
}

/// Reads the parameters of a load request. Texts are Triton's where it has one.
fn load_parameters(parameters: &Map<String, Value>) -> Result<LoadParameters, RequestFailure> {
    let malformed = |text: String| RequestFailure::new(ErrorCode::MalformedRequest, text);
    let mut read = LoadParameters::default();
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
                return Err(malformed(format!("invalid value type for load parameter '{name}', expected a string")));
            }
            _ => return Err(malformed(format!("unrecognized load parameter '{name}'."))),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parameters: &str) -> Result<LoadParameters, String> {
        load_parameters(&serde_json::from_str(parameters).expect("JSON")).map_err(|failure| failure.text)
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
