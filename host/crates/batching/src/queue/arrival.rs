//! What goes into the queue and what comes out of it.

use std::sync::Arc;

use model::Moment;

/// What two requests must share to run in one batch: every dimension but the batch's that the signature leaves free.
/// Types, ranks and fixed dimensions are equal anyway for requests that passed the signature's check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShapeKey(Option<Arc<[u64]>>);

impl ShapeKey {
    /// The key of these dimensions, in a fixed order. No dimension: no allocation.
    #[must_use]
    pub fn new(dimensions: &[u64]) -> Self {
        Self((!dimensions.is_empty()).then(|| dimensions.into()))
    }
}

/// Names a waiting request. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// A request on its way into the queue. One that is larger than a batch comes in pieces, which leave one by one and in
/// order; whatever else happens to it happens to all pieces that still wait.
#[derive(Clone, Debug)]
pub struct Arrival<T> {
    /// What it must share with others to run with them.
    pub key: ShapeKey,
    /// Its level, 1 the most urgent; of no account where the model has no levels.
    pub level: u32,
    /// Its rows, or those of its first piece, from 1 to the model's `max_batch_size` (1 where the model does not batch).
    pub rows: u64,
    /// When it is no longer worth running.
    pub deadline: Option<Moment>,
    /// When it moves behind the others of its level; of no account unless the rules have
    /// [timeouts that delay](model::TimeoutAction::Delay).
    pub postpone: Option<Moment>,
    /// The request, or its first piece.
    pub item: T,
    /// The pieces after the first, in order.
    pub rest: Vec<Piece<T>>,
}

impl<T> Arrival<T> {
    /// A request in one piece that waits at the most urgent level for as long as it takes.
    #[must_use]
    pub fn new(key: ShapeKey, rows: u64, item: T) -> Self {
        Self { key, level: 1, rows, deadline: None, postpone: None, item, rest: Vec::new() }
    }
}

/// Rows that run together: a request, or a piece of one.
#[derive(Clone, Debug)]
pub struct Piece<T> {
    /// How many.
    pub rows: u64,
    /// What they are.
    pub item: T,
}

/// `max_queue_size` requests of its level wait already; the request comes back, of one in pieces the first.
#[derive(Debug)]
pub struct QueueIsFull<T>(pub T);

/// Requests that left the queue together.
#[derive(Debug)]
pub struct Batch<T> {
    /// The batch in the order of its lane; empty when none is ready.
    pub requests: Vec<Taken<T>>,
    /// Rows of all of them.
    pub rows: u64,
    /// Requests whose deadline passed, to be answered so; they are not part of the batch.
    pub expired: Vec<T>,
}

/// A request of a [`Batch`], or a piece of one.
#[derive(Debug)]
pub struct Taken<T> {
    /// The request's ticket. It is still good while other pieces wait.
    pub ticket: Ticket,
    /// The request or the piece.
    pub item: T,
    /// Its rows.
    pub rows: u64,
    /// When it came.
    pub enqueued: Moment,
}
