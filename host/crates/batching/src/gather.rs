//! One answer from many: a request that runs in pieces is answered when its last piece has, with its rows put together
//! in order, or as soon as one piece fails. Its lock is taken before the cell's and nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use model::Tensor;

use crate::cell::{Outcome, Reply};
use crate::outputs::join;
use crate::report::{BatchError, BatchTimes, Inferred};

/// See the module. Dropped without an answer, it answers that the batch was lost.
#[derive(Debug)]
pub(crate) struct Gather {
    state: Mutex<GatherState>,
}

#[derive(Debug)]
struct GatherState {
    /// `None` once the request has been answered.
    reply: Option<Reply>,
    /// Each piece's outputs; empty once the request has been answered.
    pieces: Vec<Option<Vec<Tensor>>>,
    missing: usize,
    queue: Duration,
    times: BatchTimes,
    batch_rows: u64,
}

impl Gather {
    /// For a request of so many pieces.
    pub(crate) fn new(reply: Reply, pieces: usize) -> Self {
        let state = GatherState {
            reply: Some(reply),
            pieces: vec![None; pieces],
            missing: pieces,
            queue: Duration::ZERO,
            times: BatchTimes::default(),
            batch_rows: 0,
        };
        Self { state: Mutex::new(state) }
    }

    /// Takes in what became of a piece; what comes after the answer is dropped.
    pub(crate) fn add(&self, piece: u32, outcome: Outcome) {
        let answer = match outcome {
            Ok(inferred) => self.lock().add(piece, inferred),
            Err(error) => self.close().map(|reply| (reply, Err(error))),
        };
        if let Some((reply, answer)) = answer {
            reply.send(answer.and_then(Whole::join));
        }
    }

    /// Answers at once that the request is refused.
    pub(crate) fn refuse(&self, error: BatchError) {
        if let Some(reply) = self.close() {
            reply.refuse(error);
        }
    }

    /// Gives up the duty to answer.
    pub(crate) fn discard(&self) {
        if let Some(reply) = self.close() {
            reply.discard();
        }
    }

    /// See [`RequestCell::ask_to_lead`](crate::cell::RequestCell::ask_to_lead).
    pub(crate) fn ask_to_lead(&self) -> Option<Waker> {
        self.lock().reply.as_ref().and_then(Reply::ask_to_lead)
    }

    /// Whether anybody still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().reply.as_ref().is_some_and(Reply::is_awaited)
    }

    /// The reply, if the request has not been answered; what has been gathered is dropped.
    fn close(&self) -> Option<Reply> {
        let mut state = self.lock();
        let (reply, pieces) = (state.reply.take(), std::mem::take(&mut state.pieces));
        drop(state);
        drop(pieces);
        reply
    }

    fn lock(&self) -> MutexGuard<'_, GatherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All pieces of an answer.
struct Whole {
    pieces: Vec<Vec<Tensor>>,
    queue: Duration,
    times: BatchTimes,
    batch_rows: u64,
}

impl GatherState {
    /// The reply and what to answer, once no piece is missing.
    fn add(&mut self, piece: u32, inferred: Inferred) -> Option<(Reply, Result<Whole, BatchError>)> {
        let Inferred { outputs, queue, times, batch_rows } = inferred;
        let place = self.pieces.get_mut(piece as usize).filter(|place| place.is_none())?;
        *place = Some(outputs);
        self.missing -= 1;
        self.queue = self.queue.max(queue);
        self.times = self.times.max(times);
        self.batch_rows = self.batch_rows.max(batch_rows);
        if self.missing > 0 {
            return None;
        }
        let pieces = std::mem::take(&mut self.pieces).into_iter().flatten().collect();
        let Self { queue, times, batch_rows, .. } = *self;
        self.reply.take().map(|reply| (reply, Ok(Whole { pieces, queue, times, batch_rows })))
    }
}

impl Whole {
    fn join(self) -> Outcome {
        let Self { pieces, queue, times, batch_rows } = self;
        Ok(Inferred { outputs: join(pieces)?, queue, times, batch_rows })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::EngineError;
    use model::testing::fake_input;

    use super::*;
    use crate::cell::{RequestCell, Signal};

    fn gather(pieces: u32) -> (Arc<RequestCell>, Vec<Reply>) {
        let cell = Arc::new(RequestCell::default());
        let gather = Arc::new(Gather::new(Reply::new(Arc::clone(&cell)), pieces as usize));
        (cell, (0..pieces).map(|piece| Reply::piece(Arc::clone(&gather), piece)).collect())
    }

    fn piece(rows: u64, width: u64, value: u8, millis: [u64; 2]) -> Outcome {
        let [queue, compute] = millis.map(Duration::from_millis);
        let times = BatchTimes { compute, input: compute / 2, output: compute / 4 };
        Ok(Inferred { outputs: vec![fake_input(rows, width, value)], queue, times, batch_rows: rows + 1 })
    }

    async fn answer(cell: &RequestCell) -> Outcome {
        let Signal::Done(outcome) = cell.signal().await else { panic!("answered") };
        outcome
    }

    #[tokio::test]
    async fn pieces_are_put_together_in_their_order_whatever_order_they_come_in() {
        let (cell, replies) = gather(3);
        let [first, second, third] = <[Reply; 3]>::try_from(replies).expect("three");
        third.send(piece(1, 2, 3, [9, 1]));
        first.send(piece(2, 2, 1, [1, 2]));
        assert!(!cell.is_answered(), "one is missing");
        second.send(piece(2, 2, 2, [2, 9]));
        let Inferred { outputs, queue, times, batch_rows } = answer(&cell).await.expect("all ran");
        assert_eq!((outputs[0].shape(), &outputs[0].data()[..]), (&[5, 2][..], &[1, 1, 1, 1, 2, 2, 2, 2, 3, 3][..]));
        assert_eq!(
            (queue.as_millis(), times.compute.as_millis(), batch_rows),
            (9, 9, 3),
            "the longest and the largest"
        );
        assert_eq!((times.input.as_micros(), times.output.as_micros()), (4_500, 2_250));
    }

    #[tokio::test]
    async fn the_first_failure_is_the_answer_and_the_rest_is_dropped() {
        let (cell, replies) = gather(3);
        let [first, second, third] = <[Reply; 3]>::try_from(replies).expect("three");
        first.send(piece(1, 1, 1, [0, 0]));
        second.send(Err(EngineError::Run("no".to_owned()).into()));
        assert_eq!(answer(&cell).await.expect_err("failed").to_string(), "running the model failed: no");
        third.send(piece(1, 1, 1, [0, 0]));
        assert!(!cell.is_answered(), "once");
    }

    #[tokio::test]
    async fn pieces_that_do_not_fit_together_are_an_error() {
        let (cell, replies) = gather(2);
        for (reply, width) in replies.into_iter().zip([2, 3]) {
            reply.send(piece(1, width, 1, [0, 0]));
        }
        assert_eq!(
            answer(&cell).await.expect_err("2 and 3 columns").to_string(),
            "running the model failed: rows of tensor 'x' cannot be put together: some are UINT8 [1,2], some UINT8 [1,3]"
        );
    }

    #[tokio::test]
    async fn pieces_that_all_vanish_are_a_lost_request() {
        let (cell, replies) = gather(2);
        drop(replies);
        let error = answer(&cell).await.expect_err("lost");
        assert_eq!(error.to_string(), "running the model failed: the engine dropped the batch without an outcome");
    }
}
