//! `generate` and `generate_stream`: inputs and outputs as plain members of JSON objects. Every model here answers once, so
//! the stream is one event.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Request, Response, header};
use model::ErrorCode;

use super::answer;
use super::coding::request_coding;
use super::infer::{context, finish, forward, pin, run};
use super::request::{admit, read_body};
use super::v2::Target;
use super::v2_json::{parse_generate, render_generate};
use crate::failure::RequestFailure;
use crate::registry::{LoadedVersion, Release};
use crate::serving::ServingState;
use crate::tally::Tally;

/// `POST /v2/models/{model}[/versions/{version}]/generate`.
pub(super) async fn generate(
    State(state): State<Arc<ServingState>>,
    target: Target,
    request: Request<Body>,
) -> Response<Body> {
    generate_as(&state, &target, request, answer::json).await
}

/// `POST /v2/models/{model}[/versions/{version}]/generate_stream`.
pub(super) async fn generate_stream(
    State(state): State<Arc<ServingState>>,
    target: Target,
    request: Request<Body>,
) -> Response<Body> {
    generate_as(&state, &target, request, event).await
}

async fn generate_as(
    state: &ServingState,
    target: &Target,
    request: Request<Body>,
    envelope: fn(Vec<u8>) -> Response<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut tally = Tally::open(state);
    let release = match pin(state, target, &mut tally) {
        Ok(release) => release,
        Err(failure) => return answer::closing(answer::failure(&failure)),
    };
    let outcome = generate_pinned(state, &release, (&parts.headers, body), &mut tally).await;
    finish(outcome.map(envelope), &release, &mut tally)
}

async fn generate_pinned(
    state: &ServingState,
    release: &Release,
    (headers, body): (&HeaderMap, Body),
    tally: &mut Tally<'_>,
) -> Result<Vec<u8>, RequestFailure> {
    if !matches!(request_coding(headers), Ok(None)) {
        let text = "Unsupported content-encoding, only 'identity' is supported.";
        return Err(RequestFailure::new(ErrorCode::MalformedRequest, text));
    }
    let admitted = admit(state, headers)?;
    let body = read_body(state, (headers, body), admitted.deadline, "request JSON").await?;
    tally.body_read();
    let version: &LoadedVersion = &release.version;
    let mut request = parse_generate(&body, &context(state, version))?;
    forward(state, headers, &mut request)?;
    tally.hand_over();
    let inferred = run(version, request, admitted.deadline).await?;
    Ok(render_generate(&inferred.answer(version))?)
}

/// One event of a stream.
fn event(mut json: Vec<u8>) -> Response<Body> {
    json.splice(..0, *b"data: ");
    json.extend_from_slice(b"\n\n");
    let mut response = answer::json(json);
    let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
