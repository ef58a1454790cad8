//! The description of every route, which is written by hand and served as it is. Tests hold it to the routes, to the error
//! codes and to this crate's version; that answers are as it says is shown by the Python tests, on the real server.

use axum::body::Body;
use axum::http::Response;

use super::answer;

/// The description, in OpenAPI 3.1.
static DESCRIPTION: &str = include_str!("openapi.json");

/// `GET /openapi.json`.
pub(super) async fn openapi() -> Response<Body> {
    answer::json(DESCRIPTION)
}

#[cfg(test)]
mod tests;
