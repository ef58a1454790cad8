//! Dynamic batching of one model version. A pure queue ([`BatchQueue`]) decides what runs together and when; a thin
//! driver ([`BatchHandle`]) around it leases instances, runs batches and hands every request its own rows. The queue
//! never reads a clock and the driver never decides, so what is worth simulating can be simulated in milliseconds.
//!
//! Always true: a request is answered exactly once or was dropped by its caller, in one piece or in many; no batch mixes
//! shapes, but for lengths that are padded; a batch in flight belongs to no caller, so a client that leaves takes nobody
//! with it.

mod cell;
mod decision;
mod flight;
mod gather;
mod handle;
mod mode;
mod order;
mod outputs;
mod queue;
mod rate_limit;
mod report;
mod rerun;
mod resize;
mod runner;
mod state;
mod submission;
mod worker;

pub use decision::{BatchRules, Decision};
pub use handle::{BatchHandle, BatcherSnapshot, BatcherSpec, RateLimits, StartError};
pub use mode::Mode;
pub use queue::{Arrival, Batch, BatchQueue, Piece, QueueIsFull, ShapeKey, Taken, Ticket};
pub use rate_limit::{RateLimitError, RateLimiter};
pub use report::{BatchError, BatchObserver, BatchReport, BatchTimes, DropReason, InferenceRequest, Inferred};
