//! What goes in and out of a batcher: requests, answers, errors and what an observer is told for metrics.

use std::time::Duration;

use model::{EngineError, Tensor};
use tokio::time::Instant;

/// A request for a batcher.
#[derive(Clone, Debug)]
pub struct InferenceRequest {
    /// Tensors as `Signature::check_inputs` returned them: checked and in the signature's order. Where the model pads, they
    /// have passed `Padding::check` too.
    pub inputs: Vec<Tensor>,
    /// Rows as `Signature::check_inputs` returned them; 1 where the model does not batch. More than `max_batch_size` run
    /// in pieces where the configuration says `split_large_requests` (at most `ModelConfig::max_request_rows`), and in one
    /// batch of their own elsewhere.
    pub rows: u64,
    /// When the answer is no longer worth anything. A batch that has started runs on for the others in it.
    pub deadline: Option<Instant>,
    /// Its urgency (the request parameter `priority`): a level from 1, the most urgent; 0 asks for the default one.
    pub priority: u64,
    /// How long it may wait (the request parameter `timeout`), where the queue's policy lets requests say so.
    pub timeout: Option<Duration>,
}

/// A request's answer.
#[derive(Clone, Debug)]
pub struct Inferred {
    /// This request's rows of every output, in the signature's order; views of the batch's memory, or a copy where the
    /// request ran in pieces.
    pub outputs: Vec<Tensor>,
    /// Time in the queue; of a request that ran in pieces, the longest piece's.
    pub queue: Duration,
    /// Time of the batch from leaving the queue to its result; of a request that ran in pieces, the longest piece's.
    pub compute: Duration,
    /// Rows of the whole batch; of a request that ran in pieces, of the largest.
    pub batch_rows: u64,
}

/// Why a request was not answered. Texts are Triton's where Triton has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// So many requests of its level wait already.
    #[error("Exceeds maximum queue size")]
    QueueFull {
        /// The bound, the level's `max_queue_size`.
        max: usize,
    },
    /// Its deadline passed before it had an answer, or the queue's timeout before it ran.
    #[error("Request timeout expired")]
    Expired,
    /// The batcher takes no requests any more.
    #[error("Server is stopping, scheduler for model has stopped accepting new inference requests")]
    Stopped,
    /// It failed, alone in its batch, or its batch was lost.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Hears of every batch and every request that did not run. Called on serving threads
/// and workers: count and return, and never panic.
pub trait BatchObserver: Send + Sync {
    /// A batch ran; called before it answers its requests.
    fn batch_finished(&self, report: &BatchReport);

    /// A request left without running, or one in pieces before all of them had run. Told once a request, and not where
    /// a batch of it failed.
    fn request_dropped(&self, reason: DropReason);
}

/// One batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchReport {
    /// Rows.
    pub rows: u64,
    /// Requests, and pieces of requests.
    pub requests: usize,
    /// How long its oldest request waited.
    pub queue: Duration,
    /// Time from leaving the queue to the result.
    pub compute: Duration,
    /// Whether the engine failed. If so, and there is more than one request, they run again in halves, and whoever fails
    /// has failed alone in the end.
    pub failed: bool,
}

/// Why a request did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// It expired in the queue.
    Expired,
    /// Its caller left while it waited.
    Abandoned,
    /// The batcher had stopped.
    Stopped,
}
