//! `POST /v1/models/{model}[/versions/{version}]:predict`: a business request through the model's plugin. The router
//! knows no suffixes, so a route captures the last segment and splits it at its last ':'.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request, Response, header};
use model::ErrorCode;

use super::request::{admit, read_body, request_id};
use super::{HttpState, answer};
use crate::failure::RequestFailure;
use crate::pipeline::{self, PredictRequest};

/// Predict on the version that serves by default.
pub(super) async fn predict(
    State(state): State<Arc<HttpState>>,
    Path(segment): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    match split_verb(&segment) {
        Ok(model) => run(&state, model, None, request).await,
        Err(failure) => answer::failure(&failure),
    }
}

/// Predict on a version.
pub(super) async fn predict_version(
    State(state): State<Arc<HttpState>>,
    Path((model, segment)): Path<(String, String)>,
    request: Request<Body>,
) -> Response<Body> {
    match split_verb(&segment) {
        Ok(version) => run(&state, &model, Some(version), request).await,
        Err(failure) => answer::failure(&failure),
    }
}

/// Takes `:predict` off a segment.
fn split_verb(segment: &str) -> Result<&str, RequestFailure> {
    match segment.rsplit_once(':') {
        Some((name, "predict")) => Ok(name),
        Some((_, verb)) => {
            let text = format!("Not Found: no verb ':{verb}'; this server knows ':predict'");
            Err(RequestFailure::new(ErrorCode::RouteNotFound, text))
        }
        None => Err(RequestFailure::new(ErrorCode::RouteNotFound, "Not Found: the path ends without ':predict'")),
    }
}

async fn run(state: &HttpState, model: &str, version: Option<&str>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let admitted = match admit(state, &parts.headers) {
        Ok(admitted) => admitted,
        Err(failure) => return answer::failure(&failure),
    };
    let release = match state.registry.pin(model, version) {
        Ok(release) => release,
        Err(failure) => return answer::failure(&failure),
    };
    let id = request_id(&parts.headers);
    let response = match read_body(state, &parts.headers, body, admitted.deadline).await {
        Err(failure) => answer::failure(&failure),
        Ok(body) => {
            let request = PredictRequest {
                request_id: id.clone(),
                content_type: text_header(&parts.headers, &header::CONTENT_TYPE),
                accept: text_header(&parts.headers, &header::ACCEPT),
                body,
                deadline: admitted.deadline,
            };
            match pipeline::predict(&release, request).await {
                Ok(response) => answer::from_plugin(response),
                Err(failure) => answer::failure(&failure),
            }
        }
    };
    answer::with_release(response, &release, &id)
}

fn text_header(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}
