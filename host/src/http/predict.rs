//! `POST /v1/models/{model}[/versions/{version}]:predict`: a business request through the model's plugin. The router
//! knows no suffixes, so a route captures the last segment and splits it at its last ':'.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request, Response, header};
use model::ErrorCode;

use super::request::{admit, read_body, request_id};
use super::tally::Tally;
use super::{HttpState, answer};
use crate::failure::RequestFailure;
use crate::pipeline::{self, PredictRequest};
use crate::registry::Release;

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
    let mut tally = Tally::open(state);
    let release = match state.registry.pin(model, version) {
        Ok(release) => release,
        Err(failure) => {
            tally.failed(&failure);
            return answer::closing(answer::failure(&failure));
        }
    };
    tally.pinned(&release);
    let id = request_id(&parts.headers);
    let response = match answer_pinned(state, &release, (&parts.headers, &id, body), &mut tally).await {
        Ok(response) => answer::from_plugin(response),
        Err(failure) => {
            tally.failed(&failure);
            let response = answer::failure(&failure);
            if tally.body_was_read() { response } else { answer::closing(response) }
        }
    };
    answer::with_release(response, &release, &id)
}

async fn answer_pinned(
    state: &HttpState,
    release: &Release,
    (headers, id, body): (&HeaderMap, &str, Body),
    tally: &mut Tally<'_>,
) -> Result<plugin::Response, RequestFailure> {
    let admitted = admit(state, headers)?;
    let body = read_body(state, (headers, body), admitted.deadline, "request body").await?;
    tally.body_read();
    let request = PredictRequest {
        request_id: id.to_owned(),
        content_type: text_header(headers, &header::CONTENT_TYPE),
        accept: text_header(headers, &header::ACCEPT),
        body,
        deadline: admitted.deadline,
    };
    tally.hand_over();
    pipeline::predict(release, request).await
}

fn text_header(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}
