//! Counts what goes over the HTTP port: every answer by the template of its route and its status, and the bytes of bodies.
//! A client that leaves before its answer counts with the status 499.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::{Request, Response, StatusCode};
use axum::middleware::Next;
use http_body::Body as _;
use model::ErrorCode;

use crate::counted_body::CountedBody;
use crate::metrics::Endpoint;
use crate::serving::ServingState;

/// The route of a path that none has.
const UNKNOWN_ROUTE: &str = "unknown";

/// Counts a request on its way in and its answer on its way out.
pub(super) async fn count(
    State(state): State<Arc<ServingState>>,
    route: Option<MatchedPath>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let endpoint = state.metrics.http.endpoint(route.as_ref().map_or(UNKNOWN_ROUTE, MatchedPath::as_str));
    let received = endpoint.received.clone();
    let mut pending = Pending { endpoint, status: None };
    let response = next.run(request.map(|body| counted(body, received))).await;
    pending.status = Some(response.status());
    match response.body().size_hint().exact() {
        Some(bytes) => {
            pending.endpoint.sent.inc_by(bytes);
            response
        }
        None => response.map(|body| Body::new(CountedBody::new(body, pending.endpoint.sent.clone()))),
    }
}

fn counted(body: Body, bytes: prometheus::IntCounter) -> Body {
    if body.is_end_stream() { body } else { Body::new(CountedBody::new(body, bytes)) }
}

/// A request until its answer goes out; dropped before, its client has left.
struct Pending {
    endpoint: Arc<Endpoint>,
    status: Option<StatusCode>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let left = || StatusCode::from_u16(ErrorCode::Cancelled.http_status()).unwrap_or(StatusCode::REQUEST_TIMEOUT);
        self.endpoint.answered(self.status.unwrap_or_else(left).as_str());
    }
}
