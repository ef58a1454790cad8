//! A request in a batcher, as a future. It waits for its answer, runs a batch when it is its turn to lead, and keeps its
//! own deadline and delay. Dropped, it leaves the queue, and if it had been asked to lead, another one is asked.

use std::sync::Arc;

use model::Moment;
use tokio::time::{Instant, timeout_at};

use crate::cell::{Outcome, Reply, RequestCell, Signal};
use crate::mode::Mode;
use crate::queue::{Arrival, Ticket};
use crate::report::{BatchError, DropReason, InferenceRequest};
use crate::state::{Shared, Turn, Waiting};

/// See the module.
pub(crate) struct Submission<'a> {
    shared: &'a Arc<Shared>,
    cell: Arc<RequestCell>,
    ticket: Ticket,
    /// When it expires, if it still waits; `None` once passed.
    deadline: Option<Instant>,
    /// When its delay is over; `None` where there is none, and once passed.
    due: Option<Instant>,
    is_answered: bool,
}

/// What a request found on entering the queue.
pub(crate) enum Entered<'a> {
    /// An instance is free: yield to the thread's other requests, then lead.
    ToLead(Submission<'a>),
    /// Somebody else is to run it.
    ToWait(Submission<'a>),
}

impl<'a> Submission<'a> {
    /// Queues a request.
    pub(crate) fn enter(shared: &'a Arc<Shared>, request: InferenceRequest) -> Result<Entered<'a>, BatchError> {
        let InferenceRequest { inputs, rows, deadline } = request;
        let entered = Instant::now();
        // A wait past the end of the clock has no end.
        let timeout = shared.default_timeout.and_then(|timeout| entered.checked_add(timeout));
        let deadline = deadline.into_iter().chain(timeout).min();
        let due = Some(shared.max_delay).filter(|delay| !delay.is_zero()).and_then(|delay| entered.checked_add(delay));
        let cell = Arc::new(RequestCell::default());
        let arrival = Arrival {
            key: shared.shape_key(&inputs),
            rows,
            deadline: deadline.map(|deadline| shared.moment(deadline)),
            item: Waiting { reply: Reply::new(Arc::clone(&cell)), inputs },
        };
        let (ticket, leads) = queue(shared, shared.moment(entered), arrival)?;
        let submission = Self { shared, cell, ticket, deadline, due, is_answered: false };
        Ok(if leads { Entered::ToLead(submission) } else { Entered::ToWait(submission) })
    }

    /// Runs the next batch if one is ready and an instance free, whether or not this request is in it. One batch a turn:
    /// what is left is handed to the oldest request, so that this thread can serve its other tasks in between.
    pub(crate) fn lead(&self) {
        let now = self.shared.now();
        let turn = {
            let mut state = self.shared.lock();
            state.end_appointment(self.ticket);
            match state.free_instance() {
                Some(index) if state.pace.mode() == Mode::Inline => self.shared.take(&mut state, index, now),
                _ => Turn::waking(self.shared.dispatch(&mut state, now)),
            }
        };
        if let Some(work) = turn.finish(&*self.shared.observer) {
            work.run();
        }
    }

    /// [`Self::lead`] after a yield, in which somebody else may have run this request.
    pub(crate) fn lead_unless_answered(&self) {
        if !self.cell.is_answered() {
            self.lead();
        }
    }

    /// The answer.
    pub(crate) async fn outcome(mut self) -> Outcome {
        loop {
            let timer = if self.cell.is_answered() { None } else { self.next_timer() };
            let signal = match timer {
                None => Some(self.cell.signal().await),
                Some(timer) => timeout_at(timer, self.cell.signal()).await.ok(),
            };
            match signal {
                Some(Signal::Done(outcome)) => {
                    self.is_answered = true;
                    return outcome;
                }
                Some(Signal::Lead) => self.lead(),
                None => self.timer_fired(),
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.due).min()
    }

    /// Expires, which answers the cell, or looks whether its batch is ready.
    fn timer_fired(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            if let Some(waiting) = self.withdraw() {
                self.shared.observer.request_dropped(DropReason::Expired);
                waiting.reply.send(Err(BatchError::Expired));
                return;
            }
        }
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.lead();
        }
    }

    /// Leaves the queue; `None` when the batch has been taken.
    fn withdraw(&self) -> Option<Waiting> {
        let now = self.shared.now();
        let (waiting, waker) = {
            let mut state = self.shared.lock();
            (state.withdraw(self.ticket), self.shared.dispatch(&mut state, now))
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        waiting
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        if let Some(waiting) = self.withdraw() {
            waiting.reply.discard();
            self.shared.observer.request_dropped(DropReason::Abandoned);
        }
    }
}

/// Pushes a request; tells whether it should lead.
fn queue(shared: &Arc<Shared>, now: Moment, arrival: Arrival<Waiting>) -> Result<(Ticket, bool), BatchError> {
    let (pushed, turn) = {
        let mut state = shared.lock();
        let expired = if state.queue.is_full() { state.expire(now) } else { Vec::new() };
        let pushed = match state.refusal() {
            Some(refusal) => Err((refusal, arrival)),
            None => Ok(state.queue.push(now, arrival).unwrap_or_else(|_| unreachable!("a full queue is a refusal"))),
        };
        let leads = pushed.is_ok() && state.pace.mode() == Mode::Inline && state.free_instance().is_some();
        let waker = if leads { None } else { shared.dispatch(&mut state, now) };
        (pushed.map(|ticket| (ticket, leads)), Turn::expiring(expired, waker))
    };
    turn.finish(&*shared.observer);
    pushed.map_err(|(refusal, arrival)| {
        arrival.item.reply.discard();
        let is_stopped = refusal == BatchError::Stopped;
        shared.observer.request_dropped(if is_stopped { DropReason::Stopped } else { DropReason::QueueFull });
        refusal
    })
}
