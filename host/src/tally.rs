//! Counts what ends before the pipeline counts it: requests that were refused on the way there, and clients that left.
//! With the pipeline's own counts, every request of predict and infer is in `airlock_requests_total` exactly once.

use std::sync::Arc;

use model::ErrorCode;
use tokio::time::Instant;

use crate::failure::RequestFailure;
use crate::observed;
use crate::registry::Release;
use crate::serving::ServingState;

/// One request until the pipeline has it. Dropped before, it counts a client that left.
pub(crate) struct Tally<'a> {
    state: &'a ServingState,
    release: Option<Arc<Release>>,
    started: Instant,
    is_inference: bool,
    is_open: bool,
    body_was_read: bool,
}

impl<'a> Tally<'a> {
    /// A request that nothing is known of yet.
    pub(crate) fn open(state: &'a ServingState) -> Self {
        let (started, is_inference) = (Instant::now(), false);
        Self { state, release: None, started, is_inference, is_open: true, body_was_read: false }
    }

    /// It is for this release.
    pub(crate) fn pinned(&mut self, release: &Arc<Release>) {
        observed::pinned(release);
        self.release = Some(Arc::clone(release));
    }

    /// It asks the model itself, so what Triton counts of the model counts it, too.
    pub(crate) fn infers(&mut self) {
        self.is_inference = true;
    }

    /// Its body has been read to the end.
    pub(crate) fn body_read(&mut self) {
        self.body_was_read = true;
    }

    /// Whether its body has been read; if not, the connection cannot be used again.
    pub(crate) fn body_was_read(&self) -> bool {
        self.body_was_read
    }

    /// The pipeline counts it from here on.
    pub(crate) fn hand_over(&mut self) {
        self.is_open = false;
    }

    /// It ends with this failure; counted unless the pipeline has done so.
    pub(crate) fn failed(&mut self, failure: &RequestFailure) {
        self.end(failure.code);
    }

    fn end(&mut self, code: ErrorCode) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        match &self.release {
            Some(release) => {
                let metrics = &release.version.metrics;
                metrics.answered(Some(code));
                if self.is_inference {
                    metrics.inference().failed(code, self.started.elapsed());
                }
            }
            None => self.state.metrics.refused(code),
        }
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.end(ErrorCode::Cancelled);
    }
}
