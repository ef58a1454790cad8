//! What every request goes through before its route looks at it: admission, deadline, id and body.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use model::ErrorCode;
use prometheus::IntGauge;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::HttpState;
use super::answer::REQUEST_ID;
use crate::failure::RequestFailure;

/// A client's word on how long it waits, in milliseconds.
const REQUEST_TIMEOUT: &str = "x-request-timeout-ms";
/// Longest request id taken over from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// A request that was let in; leaving gives its place back.
pub(super) struct Admitted<'a> {
    _permit: SemaphorePermit<'a>,
    in_flight: &'a IntGauge,
    /// When its answer is worthless.
    pub deadline: Instant,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

/// Lets a request in.
///
/// # Errors
/// [`ErrorCode::ShuttingDown`], [`ErrorCode::Overloaded`], or an unreadable timeout header.
pub(super) fn admit<'a>(state: &'a HttpState, headers: &HeaderMap) -> Result<Admitted<'a>, RequestFailure> {
    if state.is_stopping() {
        return Err(RequestFailure::new(ErrorCode::ShuttingDown, "Server exiting").retry_after(Duration::from_secs(1)));
    }
    let timeout = timeout(headers, state.limits.timeout)?;
    let Ok(permit) = state.admission.try_acquire() else {
        let max = state.limits.in_flight_max;
        let text = format!("the server holds {max} requests already; raise --max-in-flight or send fewer at once");
        return Err(RequestFailure::new(ErrorCode::Overloaded, text).retry_after(Duration::from_secs(1)));
    };
    let in_flight = &state.metrics.in_flight;
    in_flight.inc();
    Ok(Admitted { _permit: permit, in_flight, deadline: Instant::now() + timeout })
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
    state: &HttpState,
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

/// Unique within the process: a random start, counted up.
fn made_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static START: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| {
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish() >> 16
    });
    format!("{:012x}-{:x}", *START, NEXT.fetch_add(1, Ordering::Relaxed))
}
