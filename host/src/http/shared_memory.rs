//! The shared memory extensions: regions of system memory, and CUDA's, of which there are none. Texts are Triton's.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode};
use model::ErrorCode;
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer;
use super::path::Path;
use super::request::{admit, read_body};
use super::routes::Routes;
use crate::failure::RequestFailure;
use crate::serving::ServingState;
use crate::shared_memory::{RegionError, RegionPlace, cuda};

/// The routes of both extensions.
pub(super) fn routes() -> Routes {
    Routes::default()
        .get("/v2/systemsharedmemory/status", statuses)
        .post("/v2/systemsharedmemory/register", register_nameless)
        .post("/v2/systemsharedmemory/unregister", unregister_all)
        .get("/v2/systemsharedmemory/region/{region}/status", status)
        .post("/v2/systemsharedmemory/region/{region}/register", register)
        .post("/v2/systemsharedmemory/region/{region}/unregister", unregister)
        .get("/v2/cudasharedmemory/status", cuda_statuses)
        .post("/v2/cudasharedmemory/unregister", cuda_unregister)
        .get("/v2/cudasharedmemory/region/{region}/status", cuda_status)
        .post("/v2/cudasharedmemory/region/{region}/register", cuda_register)
        .post("/v2/cudasharedmemory/region/{region}/unregister", cuda_unregister)
}

/// A region as a status lists it.
#[derive(Serialize)]
struct StatusLine<'a> {
    name: &'a str,
    key: &'a str,
    offset: u64,
    byte_size: u64,
}

impl<'a> StatusLine<'a> {
    fn of(name: &'a str, place: &'a RegionPlace) -> Self {
        let RegionPlace { key, offset, byte_size } = place;
        Self { name, key, offset: *offset, byte_size: *byte_size }
    }
}

async fn statuses(State(state): State<Arc<ServingState>>) -> Response<Body> {
    let places = state.shared_memory.places();
    listed(&places.iter().map(|(name, place)| StatusLine::of(name, place)).collect::<Vec<_>>())
}

async fn status(State(state): State<Arc<ServingState>>, Path(region): Path<String>) -> Response<Body> {
    match state.shared_memory.place(&region) {
        Ok(place) => listed(&[StatusLine::of(&region, &place)]),
        Err(error) => answer::failure(&error.into()),
    }
}

fn listed(lines: &[StatusLine<'_>]) -> Response<Body> {
    answer::json(serde_json::to_vec(lines).expect("texts and numbers always serialize"))
}

async fn register(
    State(state): State<Arc<ServingState>>,
    Path(region): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    if let Err(error) = state.shared_memory.check_enabled() {
        return answer::closing(answer::failure(&error.into()));
    }
    let place = read_place(&state, request).await;
    finish(place.and_then(|place| Ok(state.shared_memory.register(&region, place)?)))
}

async fn register_nameless() -> Response<Body> {
    answer::closing(answer::failure(&RegionError::Unnamed.into()))
}

async fn unregister(State(state): State<Arc<ServingState>>, Path(region): Path<String>) -> Response<Body> {
    finish(state.shared_memory.unregister(&region).map_err(RequestFailure::from))
}

async fn unregister_all(State(state): State<Arc<ServingState>>) -> Response<Body> {
    finish(state.shared_memory.unregister_all().map_err(RequestFailure::from))
}

async fn cuda_statuses() -> Response<Body> {
    listed(&[])
}

async fn cuda_status(State(state): State<Arc<ServingState>>, Path(region): Path<String>) -> Response<Body> {
    answer::failure(&cuda::no_status(&state.shared_memory, &region))
}

async fn cuda_register(State(state): State<Arc<ServingState>>, Path(region): Path<String>) -> Response<Body> {
    answer::closing(answer::failure(&cuda::refuse(&state.shared_memory, &region)))
}

async fn cuda_unregister(State(state): State<Arc<ServingState>>) -> Response<Body> {
    finish(state.shared_memory.check_enabled().map_err(RequestFailure::from))
}

fn finish(outcome: Result<(), RequestFailure>) -> Response<Body> {
    match outcome {
        Ok(()) => answer::empty(StatusCode::OK),
        Err(failure) => answer::failure(&failure),
    }
}

/// The body of a register request.
async fn read_place(state: &ServingState, request: Request<Body>) -> Result<RegionPlace, RequestFailure> {
    let (parts, body) = request.into_parts();
    let admitted = admit(state, &parts.headers)?;
    let body = read_body(state, (&parts.headers, body), admitted.deadline, "request JSON").await?;
    place_of(&body)
}

fn place_of(body: &[u8]) -> Result<RegionPlace, RequestFailure> {
    let members: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| malformed(format!("failed to parse the request JSON buffer: {error}")))?;
    let missing = |field: &str| malformed(format!("Shared memory register request has no '{field}' field"));
    let unsigned = |field: &str| members.get(field).map(|value| unsigned_of(field, value)).transpose();
    let key = members.get("key").ok_or_else(|| missing("key"))?;
    let key = key.as_str().ok_or_else(|| wrong_type("key", "string"))?.to_owned();
    let offset = unsigned("offset")?.unwrap_or(0);
    let byte_size = unsigned("byte_size")?.ok_or_else(|| missing("byte_size"))?;
    Ok(RegionPlace { key, offset, byte_size })
}

fn unsigned_of(field: &str, value: &Value) -> Result<u64, RequestFailure> {
    value.as_u64().ok_or_else(|| wrong_type(field, "unsigned-integer"))
}

fn wrong_type(field: &str, wanted: &str) -> RequestFailure {
    malformed(format!("Unable to parse '{field}': attempt to access JSON non-{wanted} as {wanted}"))
}

fn malformed(text: String) -> RequestFailure {
    RequestFailure::new(ErrorCode::MalformedRequest, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_register_requests() {
        let place = |key: &str, offset, byte_size| Ok(RegionPlace { key: key.to_owned(), offset, byte_size });
        let refused = |text: &str| Err(text.to_owned());
        let unsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer";
        for (body, expected) in [
            (r#"{"key":"/k","byte_size":8}"#, place("/k", 0, 8)),
            (r#"{"byte_size":18446744073709551615,"offset":4,"key":"k","more":[]}"#, place("k", 4, u64::MAX)),
            ("{}", refused("Shared memory register request has no 'key' field")),
            (r#"{"key":"k"}"#, refused("Shared memory register request has no 'byte_size' field")),
            (r#"{"key":7}"#, refused("Unable to parse 'key': attempt to access JSON non-string as string")),
            (r#"{"key":"k","byte_size":-1}"#, refused(&format!("Unable to parse 'byte_size': {unsigned}"))),
            (r#"{"key":"k","byte_size":1.5}"#, refused(&format!("Unable to parse 'byte_size': {unsigned}"))),
            (r#"{"key":"k","offset":"0","byte_size":1}"#, refused(&format!("Unable to parse 'offset': {unsigned}"))),
        ] {
            assert_eq!(place_of(body.as_bytes()).map_err(|failure| failure.text), expected, "{body}");
        }
        let text = place_of(b"").expect_err("nothing").text;
        assert!(text.starts_with("failed to parse the request JSON buffer: EOF"), "{text}");
    }
}
