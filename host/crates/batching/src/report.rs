//! What goes in and out of a batcher: requests, answers, errors and what an observer is told for metrics.

use std::time::Duration;

use model::{EngineError, Tensor};
use tokio::time::Instant;

/// A request for a batcher.
#[derive(Clone, Debug)]
pub struct InferenceRequest {
    /// Tensors as `Signature::check_inputs` returned them: checked and in the signature's order. Where the model has
    /// an `Assembly`, they have passed its check too.
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
    /// Times of its batch; of a request that ran in pieces, the longest of each.
    pub times: BatchTimes,
    /// Rows of the whole batch; of a request that ran in pieces, of the largest.
    pub batch_rows: u64,
}

/// How long a batch took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// From leaving the queue to the result.
    pub compute: Duration,
    /// How much of that went into laying the inputs into the batch.
    pub input: Duration,
    /// To cut the result into what belongs to each request; zero where the engine failed.
    pub output: Duration,
}

impl BatchTimes {
    /// The longer of each.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            compute: self.compute.max(other.compute),
            input: self.input.max(other.input),
            output: self.output.max(other.output),
        }
    }
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
    /// How long it took.
    pub times: BatchTimes,
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
