//! What every request goes through before its route looks at it: admission, deadline, id and body.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use model::ErrorCode;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::coding::{Coding, decompress};
use crate::failure::RequestFailure;
use crate::metrics::Surface;
use crate::observed;
use crate::serving::{Admitted, ServingState};
use crate::tally::Tally;

/// A client's word on how long it waits, in milliseconds.
const REQUEST_TIMEOUT: &str = "x-request-timeout-ms";
/// Chunks of a body that is sent in chunks, at most. Source: Triton's limit.
const CHUNKS_MAX: usize = 65_536;

/// Lets a request in.
///
/// # Errors
/// [`ErrorCode::ShuttingDown`], [`ErrorCode::Overloaded`], or an unreadable timeout header.
pub(super) fn admit(state: &ServingState, headers: &HeaderMap) -> Result<Admitted, RequestFailure> {
    state.admit(Surface::Http, timeout(headers, state.limits.timeout)?)
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
    state: &ServingState,
    (headers, mut body): (&HeaderMap, Body),
    deadline: Instant,
    what: &'static str,
) -> Result<Bytes, RequestFailure> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let bounds = BodyBounds { what, announced, bytes_max: state.limits.body_bytes_max };
    match timeout_at(deadline, bounds.read(&mut body)).await {
        Ok(Err(failure)) if failure.code == ErrorCode::BodyTooLarge => {
            // The answer goes out either way; this only gives its client the time to come and read it.
            timeout_at(deadline, bounds.discard(&mut body)).await.ok();
            Err(failure)
        }
        Ok(outcome) => outcome.inspect(|body| observed::received(|| body.len())),
        Err(_) => Err(RequestFailure::new(ErrorCode::DeadlineExceeded, "the body did not arrive in time")),
    }
}

/// Lets a request in and reads its body, a JSON object; a body without text is one without members.
///
/// # Errors
/// As [`admit`] and [`read_body`], and [`ErrorCode::MalformedRequest`].
pub(super) async fn read_object(
    state: &ServingState,
    request: Request<Body>,
) -> Result<Map<String, Value>, RequestFailure> {
    let (parts, body) = request.into_parts();
    let admitted = admit(state, &parts.headers)?;
    let body = read_body(state, (&parts.headers, body), admitted.deadline, "request JSON").await?;
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    serde_json::from_slice(&body).map_err(|error| malformed_json(&error))
}

/// Says that a body is not the JSON that was asked for. The text is Triton's.
pub(super) fn malformed_json(error: &serde_json::Error) -> RequestFailure {
    RequestFailure::new(ErrorCode::MalformedRequest, format!("failed to parse the request JSON buffer: {error}"))
}

/// Reads the body as [`read_body`] does, and undoes its compression.
///
/// # Errors
/// As [`read_body`] and [`decompress`].
pub(super) async fn read_decoded(
    state: &ServingState,
    (body, coding): ((&HeaderMap, Body), Option<Coding>),
    deadline: Instant,
    what: &'static str,
    tally: &mut Tally<'_>,
) -> Result<Bytes, RequestFailure> {
    let body = read_body(state, body, deadline, what).await?;
    tally.body_read();
    if coding.is_none() {
        return Ok(body);
    }
    let late = |_| RequestFailure::new(ErrorCode::DeadlineExceeded, "the body was not decompressed in time");
    timeout_at(deadline, decompress(body, state.limits.body_bytes_max)).await.map_err(late)?
}

/// How large a body may be, and says it is.
struct BodyBounds {
    what: &'static str,
    /// Its length, where it is not sent in chunks.
    announced: Option<usize>,
    bytes_max: usize,
}

impl BodyBounds {
    async fn read(&self, body: &mut Body) -> Result<Bytes, RequestFailure> {
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

    /// Reads on and forgets, as far as a body that fits would go: most clients write to the end before they look for an
    /// answer, and would see nothing but a connection that broke.
    async fn discard(&self, body: &mut Body) {
        let mut left = self.bytes_max;
        while let Some(Ok(frame)) = body.frame().await {
            let read = frame.data_ref().map_or(0, Bytes::len);
            if read > left {
                return;
            }
            left -= read;
        }
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
