//! Kinds of requests that must bring a header (`--http-restricted-api`).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use axum::middleware::Next;
use model::ErrorCode;

use super::answer;
use crate::failure::RequestFailure;
use crate::serving::ServingState;
use crate::settings::ApiKind;

/// Refuses a request that does not bring what its kind must. The text is Triton's.
pub(super) async fn check(
    State(state): State<Arc<ServingState>>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let kind = ApiKind::of_path(request.uri().path());
    let Some(required) = kind.and_then(|kind| state.server.restricted.required(kind)) else {
        return next.run(request).await;
    };
    let brought = request.headers().get(&required.name).map(|value| value.as_bytes());
    if brought.is_some_and(|brought| required.is_brought_by(brought)) {
        return next.run(request).await;
    }
    let text = format!("This API is restricted, expecting header '{}'", required.name);
    answer::closing(answer::failure(&RequestFailure::new(ErrorCode::Restricted, text)))
}
