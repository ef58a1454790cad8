//! Kinds of requests that must bring a header (`--http-restricted-api`).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use axum::middleware::Next;
use model::ErrorCode;

use super::{HttpState, answer};
use crate::failure::RequestFailure;
use crate::settings::ApiKind;

/// Refuses a request that does not bring what its kind must. The text is Triton's.
pub(super) async fn check(State(state): State<Arc<HttpState>>, request: Request<Body>, next: Next) -> Response<Body> {
    let kind = ApiKind::of_path(request.uri().path());
    let Some(required) = kind.and_then(|kind| state.server.restricted.required(kind)) else {
        return next.run(request).await;
    };
    let brought = request.headers().get(&required.name).map(|value| value.as_bytes());
    if brought.is_some_and(|brought| is_same(brought, required.value.as_bytes())) {
        return next.run(request).await;
    }
    let text = format!("This API is restricted, expecting header '{}'", required.name);
    answer::closing(answer::failure(&RequestFailure::new(ErrorCode::Restricted, text)))
}

/// Compares a secret in a time that says nothing of where the two differ.
fn is_same(brought: &[u8], required: &[u8]) -> bool {
    let differences = brought.iter().zip(required).fold(0, |differences, (one, other)| differences | (one ^ other));
    brought.len() == required.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_compared_whole() {
        assert!(is_same(b"", b"") && is_same(b"secret", b"secret"));
        assert!(!is_same(b"secre", b"secret") && !is_same(b"secret", b"secre") && !is_same(b"Secret", b"secret"));
    }
}
