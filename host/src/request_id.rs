//! Ids for requests whose clients gave none.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

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
