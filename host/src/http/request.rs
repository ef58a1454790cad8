//! What every request goes through before its route looks at it: admission, deadline, id and body.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use model::ErrorCode;
use tokio::time::Instant;

use super::answer::REQUEST_ID;
use crate::failure::RequestFailure;
use crate::request_id::{REQUEST_ID_BYTES_MAX, made_id};
use crate::serving::{Admitted, ServingState};

/// A client's word on how long it waits, in milliseconds.
const REQUEST_TIMEOUT: &str = "x-request-timeout-ms";

/// Lets a request in.
///
/// # Errors
/// [`ErrorCode::ShuttingDown`], [`ErrorCode::Overloaded`], or an unreadable timeout header.
pub(super) fn admit(state: &ServingState, headers: &HeaderMap) -> Result<Admitted, RequestFailure> {
    state.admit(timeout(headers, state.limits.timeout)?)
}

fn timeout(headers: &HeaderMap, max: Duration) -> Result<Duration, RequestFailure> {
    let Some(value) = headers.get(REQUEST_TIMEOUT) else { return Ok(max) };
    let millis = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()).filter(|millis| *millis > 0);
    match millis {
        Some(millis) => Ok(Duration::from_millis(millis).min(max)),
        None => {
            let text = format!("X-Request-Timeout-Ms is {value:?}; it must be a number of milliseconds from 1 up");
            Err(RequestFailure::new(ErrorCode::MalformedRequest, text))
        }
    }
}

/// Reads the body, up to the limit and the deadline.
///
/// # Errors
/// [`ErrorCode::BodyTooLarge`], [`ErrorCode::DeadlineExceeded`], or a body that broke off.
pub(super) async fn read_body(
    state: &ServingState,
    headers: &HeaderMap,
    body: Body,
    deadline: Instant,
) -> Result<Bytes, RequestFailure> {
    let max = state.limits.body_bytes_max;
    let too_large = || {
        let text = format!("the body is larger than {max} bytes; raise --http-max-input-size to allow it");
        RequestFailure::new(ErrorCode::BodyTooLarge, text)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max) {
        return Err(too_large());
    }
    match tokio::time::timeout_at(deadline, Limited::new(body, max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(RequestFailure::new(ErrorCode::MalformedRequest, format!("reading the request's body: {error}")))
        }
        Err(_) => Err(RequestFailure::new(ErrorCode::DeadlineExceeded, "the body did not arrive in time")),
    }
}

/// The client's id for the request, or one made here. Ids are printable ASCII of at most 128 characters.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX => id.to_owned(),
        _ => made_id(),
    }
}
