//! What every request goes through before its route looks at it: admission, deadline, id and body.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use model::ErrorCode;
use prometheus::IntGauge;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::HttpState;
use super::answer::REQUEST_ID;
use crate::failure::RequestFailure;

/// A client's word on how long it waits, in milliseconds.
const REQUEST_TIMEOUT: &str = "x-request-timeout-ms";
/// Chunks of a body that is sent in chunks, at most. Source: Triton's limit.
const CHUNKS_MAX: usize = 65_536;
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

/// Reads the body, up to the limits and the deadline. `what` is the body's name in texts.
///
/// # Errors
/// [`ErrorCode::BodyTooLarge`], [`ErrorCode::DeadlineExceeded`], too many chunks, or a body that broke off.
pub(super) async fn read_body(
    state: &HttpState,
    (headers, body): (&HeaderMap, Body),
    deadline: Instant,
    what: &'static str,
) -> Result<Bytes, RequestFailure> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let bounds = BodyBounds { what, announced, bytes_max: state.limits.body_bytes_max };
    match tokio::time::timeout_at(deadline, bounds.read(body)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(RequestFailure::new(ErrorCode::DeadlineExceeded, "the body did not arrive in time")),
    }
}

/// How large a body may be, and says it is.
struct BodyBounds {
    what: &'static str,
    /// Its length, where it is not sent in chunks.
    announced: Option<usize>,
    bytes_max: usize,
}

impl BodyBounds {
    async fn read(&self, mut body: Body) -> Result<Bytes, RequestFailure> {
        if self.announced.is_some_and(|length| length > self.bytes_max) {
            return Err(self.too_large());
        }
        let (mut whole, mut chunks) = (Gathered::default(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                RequestFailure::new(ErrorCode::MalformedRequest, format!("reading the request's body: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            chunks += usize::from(!data.is_empty());
            if self.announced.is_none() && chunks > CHUNKS_MAX {
                return Err(too_many_chunks());
            }
            if whole.len() + data.len() > self.bytes_max {
                return Err(self.too_large());
            }
            whole.push(data, self.announced);
        }
        Ok(whole.into_bytes())
    }

    fn too_large(&self) -> RequestFailure {
        let Self { what, announced, bytes_max } = self;
        let size = announced.map_or_else(String::new, |length| format!(" of {length} bytes"));
        let text = format!(
            "{what} size{size} exceeds the maximum allowed input size of {bytes_max} bytes. Use --http-max-input-size to \
             increase the limit."
        );
        RequestFailure::new(ErrorCode::BodyTooLarge, text)
    }
}

fn too_many_chunks() -> RequestFailure {
    let text = format!(
        "Chunked request body exceeds maximum of {CHUNKS_MAX} non-empty chunks. Send fewer or larger HTTP chunks."
    );
    RequestFailure::new(ErrorCode::MalformedRequest, text)
}

/// A body's parts, put together as they come. One that comes whole is not copied.
#[derive(Default)]
struct Gathered {
    first: Bytes,
    rest: BytesMut,
}

impl Gathered {
    fn len(&self) -> usize {
        if self.rest.is_empty() { self.first.len() } else { self.rest.len() }
    }

    fn push(&mut self, part: Bytes, announced: Option<usize>) {
        if self.len() == 0 {
            self.first = part;
            return;
        }
        if self.rest.is_empty() {
            self.rest.reserve(announced.unwrap_or(0).max(self.first.len() + part.len()));
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&part);
    }

    fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
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
