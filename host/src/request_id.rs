//! Ids of requests: the client's where it gave one that can be given back, else one made here.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;

/// The header that brings a request's id, and gives it back.
pub const REQUEST_ID: &str = "x-request-id";

/// Longest request id taken over from a client.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// An id that is unique within the process: a random start, counted up.
#[must_use]
pub fn made_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static START: LazyLock<u64> = LazyLock::new(|| {
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish() >> 16
    });
    format!("{:012x}-{:x}", *START, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether an id can be given back in a header: printable ASCII, at most [`REQUEST_ID_BYTES_MAX`] of it.
#[must_use]
pub fn is_request_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The client's id for a request, or one made here.
#[must_use]
pub fn of_headers(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    given.filter(|id| is_request_id(id)).map_or_else(made_id, str::to_owned)
}
