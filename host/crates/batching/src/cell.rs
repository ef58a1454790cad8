//! Where a request and whoever runs it meet: a cell that holds the answer until the request's future picks it up, and
//! through which the future can be asked to lead the next batch. Its lock is a leaf: nothing is called while it is held.
//! Whoever runs a request answers through a [`Reply`], which knows whether the answer is whole and whose turn it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use model::EngineError;

use crate::gather::Gather;
use crate::order::Position;
use crate::report::{BatchError, Inferred};

/// A request's answer.
pub(crate) type Outcome = Result<Inferred, BatchError>;

/// What a waiting request hears.
#[derive(Debug)]
pub(crate) enum Signal {
    /// Its answer.
    Done(Outcome),
    /// It should run the next batch.
    Lead,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RequestCell {
    state: Mutex<CellState>,
    /// Whose turn it is; `None` where answers go out as they come.
    position: Option<Position>,
}

#[derive(Debug, Default)]
struct CellState {
    outcome: Option<Outcome>,
    lead: bool,
    has_left: bool,
    waker: Option<Waker>,
}

impl RequestCell {
    /// The cell of a request that is answered when it is its turn, if it has a position.
    pub(crate) fn new(position: Option<Position>) -> Self {
        Self { position, ..Self::default() }
    }

    /// Nobody waits for the answer any more, and nobody is to wait for it to be handed out.
    pub(crate) fn leave(&self) {
        self.lock().has_left = true;
        if let Some(position) = &self.position {
            position.leave();
        }
    }

    /// Asks the request to lead; the waker, if any, is for the caller to call once it holds no lock.
    pub(crate) fn ask_to_lead(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.lead = true;
        state.waker.take()
    }

    /// Whether anybody still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.lock().has_left
    }

    /// Whether the answer is there.
    pub(crate) fn is_answered(&self) -> bool {
        self.lock().outcome.is_some()
    }

    /// Waits for the next signal; an answer goes before a request to lead.
    pub(crate) async fn signal(&self) -> Signal {
        std::future::poll_fn(|context| self.poll_signal(context)).await
    }

    fn poll_signal(&self, context: &Context<'_>) -> Poll<Signal> {
        let mut state = self.lock();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(Signal::Done(outcome));
        }
        if std::mem::take(&mut state.lead) {
            return Poll::Ready(Signal::Lead);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Hands the answer out.
    pub(crate) fn answer(&self, outcome: Outcome) {
        let waker = {
            let mut state = self.lock();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CellState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right, and the duty, to answer a request once. Dropped unused, it answers that the batch was lost. A piece's is
/// shared by all pieces of the request: the answer counts as lost once none of them is left.
#[derive(Debug)]
pub(crate) struct Reply {
    recipient: Option<Recipient>,
}

#[derive(Debug)]
enum Recipient {
    Request(Arc<RequestCell>),
    /// A number of 32 bits keeps a reply at two words; more pieces no memory holds.
    Piece(Arc<Gather>, u32),
}

impl Reply {
    pub(crate) fn new(cell: Arc<RequestCell>) -> Self {
        Self { recipient: Some(Recipient::Request(cell)) }
    }

    /// For the piece of this number.
    pub(crate) fn piece(gather: Arc<Gather>, number: u32) -> Self {
        Self { recipient: Some(Recipient::Piece(gather, number)) }
    }

    pub(crate) fn is_piece(&self) -> bool {
        matches!(self.recipient, Some(Recipient::Piece(..)))
    }

    /// Answers, in turn.
    pub(crate) fn send(mut self, outcome: Outcome) {
        match self.recipient.take() {
            Some(Recipient::Request(cell)) => answer(&cell, outcome),
            Some(Recipient::Piece(gather, number)) => gather.add(number, outcome),
            None => {}
        }
    }

    /// Answers the whole request at once that it does not run.
    pub(crate) fn refuse(mut self, error: BatchError) {
        match self.recipient.take() {
            Some(Recipient::Request(cell)) => {
                cell.answer(Err(error));
                cell.leave();
            }
            Some(Recipient::Piece(gather, _)) => gather.refuse(error),
            None => {}
        }
    }

    /// Gives up the duty: nobody waits any more.
    pub(crate) fn discard(mut self) {
        match self.recipient.take() {
            Some(Recipient::Request(cell)) => cell.leave(),
            Some(Recipient::Piece(gather, _)) => gather.discard(),
            None => {}
        }
    }

    /// Whether anybody still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        match &self.recipient {
            Some(Recipient::Request(cell)) => cell.is_awaited(),
            Some(Recipient::Piece(gather, _)) => gather.is_awaited(),
            None => false,
        }
    }

    /// See [`RequestCell::ask_to_lead`].
    pub(crate) fn ask_to_lead(&self) -> Option<Waker> {
        match self.recipient.as_ref()? {
            Recipient::Request(cell) => cell.ask_to_lead(),
            Recipient::Piece(gather, _) => gather.ask_to_lead(),
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(Recipient::Request(cell)) = self.recipient.take() {
            answer(&cell, Err(lost().into()));
        }
    }
}

fn answer(cell: &Arc<RequestCell>, outcome: Outcome) {
    match &cell.position {
        None => cell.answer(outcome),
        Some(position) => position.answer(Arc::clone(cell), outcome),
    }
}

/// What a request hears whose batch ended without an outcome.
pub(crate) fn lost() -> EngineError {
    EngineError::Run("the engine dropped the batch without an outcome".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_goes_before_the_lead_and_comes_once() {
        let cell = Arc::new(RequestCell::default());
        let reply = Reply::new(Arc::clone(&cell));
        assert!(reply.ask_to_lead().is_none(), "nobody polls yet");
        reply.send(Err(BatchError::Expired));
        assert!(matches!(cell.signal().await, Signal::Done(Err(BatchError::Expired))));
        assert!(!cell.is_answered());
        assert!(matches!(cell.signal().await, Signal::Lead));
    }

    #[tokio::test]
    async fn a_dropped_reply_is_an_answer() {
        let cell = Arc::new(RequestCell::default());
        drop(Reply::new(Arc::clone(&cell)));
        let Signal::Done(Err(error)) = cell.signal().await else { panic!("answered") };
        assert_eq!(error.to_string(), "running the model failed: the engine dropped the batch without an outcome");
    }
}
