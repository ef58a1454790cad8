//! The names in a request's path. Where one cannot be had, the answer has the form of every other failure, not axum's own.

use axum::extract::rejection::PathRejection;
use axum::extract::{self, FromRequestParts};
use axum::http::request::Parts;
use axum::response::Response;
use model::ErrorCode;

use super::answer;
use crate::failure::RequestFailure;

/// What a path names, decoded, as axum's extractor of the same name has it.
pub(super) struct Path<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Path<T>
where
    extract::Path<T>: FromRequestParts<S, Rejection = PathRejection>,
    S: Send + Sync,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match extract::Path::from_request_parts(parts, state).await {
            Ok(extract::Path(names)) => Ok(Self(names)),
            Err(rejection) => Err(refused(&rejection)),
        }
    }
}

fn refused(rejection: &PathRejection) -> Response {
    let code = if rejection.status().is_server_error() { ErrorCode::Internal } else { ErrorCode::MalformedRequest };
    answer::closing(answer::failure(&RequestFailure::new(code, rejection.body_text())))
}
