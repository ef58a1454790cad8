//! What becomes known of a request of predict or infer while it is answered: who asked, what answered, how long each stage
//! took and how it ended. It travels with the request's task, so that whoever learns something notes it without being
//! handed anything; off such a task a note is lost. The [`Observer`] makes the access log's line and the spans of it.

mod access_log;
mod observer;
mod sampling;
pub(crate) mod trace_context;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::ErrorCode;
use tokio::time::Instant;

use crate::metrics::{Stage, Surface};
use crate::registry::Release;
use crate::request_id::is_request_id;
use trace_context::TraceContext;

pub use access_log::AccessLogError;
pub use observer::Observer;
pub(crate) use observer::{Arrival, Sealed};
pub use sampling::{Sampling, TraceChange};

tokio::task_local! {
    static CURRENT: RefCell<Observation>;
}

/// One request so far.
pub(crate) struct Observation {
    pub(crate) surface: Surface,
    /// Its route or rpc; empty where nobody will read it.
    pub(crate) route: String,
    pub(crate) request_id: String,
    pub(crate) trace: Option<TraceContext>,
    /// Whether sizes are worth measuring: something will be written of it.
    is_recorded: bool,
    /// Whether spans are made of it; decided once it is answered.
    is_traced: bool,
    started: Instant,
    began: SystemTime,
    release: Option<Arc<Release>>,
    failure: Option<ErrorCode>,
    bytes_in: Option<usize>,
    bytes_out: Option<usize>,
    rows: Option<Rows>,
    stages: [Option<StageTime>; 4],
}

/// Rows of a request, and of the batch that it ran in.
#[derive(Clone, Copy)]
struct Rows {
    own: u64,
    batch: u64,
}

/// When a stage ended, since the request began, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageTime {
    pub(crate) ended: Duration,
    pub(crate) time: Duration,
}

/// The stages in their order, with their names.
pub(crate) const STAGES: [&str; 4] = ["preprocess", "queue", "compute", "postprocess"];

impl Observation {
    fn note_stage(&mut self, stage: Stage, time: Duration) {
        let position = match stage {
            Stage::Preprocess => 0,
            Stage::Queue => 1,
            Stage::Compute => 2,
            Stage::Postprocess => 3,
            Stage::Total => return,
        };
        self.stages[position] = Some(StageTime { ended: self.started.elapsed(), time });
    }

    /// The stages that ran, by their positions in [`STAGES`]. What the queue took is told together with what the model
    /// took, so its end is where that began.
    pub(crate) fn stages(&self) -> [Option<StageTime>; 4] {
        let mut stages = self.stages;
        if let (Some(queue), Some(compute)) = (&mut stages[1], self.stages[2]) {
            queue.ended = compute.ended.saturating_sub(compute.time);
        }
        stages
    }

    /// `ok`, or the code of its failure.
    pub(crate) fn outcome(&self) -> &'static str {
        self.failure.map_or("ok", ErrorCode::as_str)
    }
}

/// Notes something of the request of this task.
fn note(take: impl FnOnce(&mut Observation)) {
    // Samples and other runs of the pipeline are nobody's request.
    let _ = CURRENT.try_with(|current| take(&mut current.borrow_mut()));
}

/// It is answered by this release.
pub(crate) fn pinned(release: &Arc<Release>) {
    note(|seen| seen.release = Some(Arc::clone(release)));
}

/// A stage of it has just ended.
pub(crate) fn stage(stage: Stage, time: Duration) {
    note(|seen| seen.note_stage(stage, time));
}

/// It ran with so many rows, in a batch of so many.
pub(crate) fn rows(own: u64, batch: u64) {
    note(|seen| seen.rows = Some(Rows { own, batch }));
}

/// It fails for this reason.
pub(crate) fn failed(code: ErrorCode) {
    note(|seen| seen.failure = Some(code));
}

/// Its body or message has been read; the size is asked for only where something will be written of it.
pub(crate) fn received(bytes: impl FnOnce() -> usize) {
    note(|seen| seen.bytes_in = seen.is_recorded.then(bytes));
}

/// Its answer is ready; likewise.
pub(crate) fn answered(bytes: impl FnOnce() -> usize) {
    note(|seen| seen.bytes_out = seen.is_recorded.then(bytes));
}

/// Its body brings an id of its own, which outweighs a header's.
pub(crate) fn named(id: &str) {
    if is_request_id(id) {
        note(|seen| id.clone_into(&mut seen.request_id));
    }
}

/// The id of this task's request.
pub(crate) fn request_id() -> Option<String> {
    CURRENT.try_with(|current| current.borrow().request_id.clone()).ok()
}

/// The id of the trace that it belongs to.
pub(crate) fn trace_id() -> Option<String> {
    let id = |current: &RefCell<Observation>| current.borrow().trace.as_ref().map(|trace| trace.trace.to_string());
    CURRENT.try_with(id).ok().flatten()
}
