//! A request in a batcher, as a future. It waits for its answer, runs a batch when it is its turn to lead, and keeps its
//! own deadline, timeout and delay. Dropped, it leaves the queue, and if it had been asked to lead, another one is asked.

use std::num::NonZeroU64;
use std::sync::Arc;

use model::{Moment, Tensor, TimeoutAction, split_tensors};
use tokio::time::{Instant, timeout_at};

use crate::cell::{Outcome, Reply, RequestCell, Signal};
use crate::gather::Gather;
use crate::mode::Mode;
use crate::order::Order;
use crate::queue::{Arrival, Piece, Ticket};
use crate::report::{BatchError, DropReason, InferenceRequest};
use crate::state::{Echo, Shared, Turn, Waiting};

/// See the module.
pub(crate) struct Submission<'a> {
    shared: &'a Arc<Shared>,
    cell: Arc<RequestCell>,
    ticket: Ticket,
    timers: Timers,
    is_answered: bool,
}

/// When a request has to look. Each is `None` where there is none, and once passed.
struct Timers {
    /// It is answered, whether it waits or runs.
    limit: Option<Instant>,
    /// It expires if it still waits: the limit, or the queue's timeout.
    deadline: Option<Instant>,
    /// It moves behind others.
    postpone: Option<Instant>,
    /// Its delay is over.
    due: Option<Instant>,
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
        let entered = Instant::now();
        let level = shared.config.level(request.priority);
        let timers = Timers::new(shared, level, &request, entered);
        let cell = Arc::new(RequestCell::new(shared.order.as_ref().map(Order::enter)));
        let key = shared.shape_key(&request.inputs);
        let (Piece { rows, item }, rest) = pieces(shared, &cell, request);
        let moment = |instant: Option<Instant>| instant.map(|instant| shared.moment(instant));
        let (deadline, postpone) = (moment(timers.deadline), moment(timers.postpone));
        let arrival = Arrival { key, level, rows, deadline, postpone, item, rest };
        let (ticket, leads) = queue(shared, shared.moment(entered), arrival)?;
        let submission = Self { shared, cell, ticket, timers, is_answered: false };
        Ok(if leads { Entered::ToLead(submission) } else { Entered::ToWait(submission) })
    }

    /// Runs the next batch if one is ready and an instance free, whether or not this request is in it. One batch a turn:
    /// what is left is handed to the oldest request, so that this thread can serve its other tasks in between.
    pub(crate) fn lead(&self) {
        let now = self.shared.now();
        let turn = {
            let mut state = self.shared.lock();
            state.end_appointment(self.ticket);
            state.open_gate(now);
            match state.free_instance() {
                Some(index) if state.pace.mode() == Mode::Inline && !state.is_held() => {
                    self.shared.take(&mut state, index, now)
                }
                _ => Turn::passing(self.shared.dispatch(&mut state, now)),
            }
        };
        if let Some(work) = turn.finish(&*self.shared.observer) {
            work.run();
        }
    }

    /// [`Self::lead`], and a turn for the thread's other tasks where there is more to lead.
    pub(crate) async fn take_turn(&self) {
        self.lead();
        if !self.cell.is_answered() {
            tokio::task::yield_now().await;
        }
    }

    /// [`Self::take_turn`] after a yield, in which somebody else may have run this request.
    pub(crate) async fn lead_unless_answered(&self) {
        if !self.cell.is_answered() {
            self.take_turn().await;
        }
    }

    /// The answer.
    pub(crate) async fn outcome(mut self) -> Outcome {
        loop {
            let timer = if self.cell.is_answered() { None } else { self.timers.next() };
            let signal = match timer {
                None => Some(self.cell.signal().await),
                Some(timer) => timeout_at(timer, self.cell.signal()).await.ok(),
            };
            match signal {
                Some(Signal::Done(outcome)) => {
                    self.is_answered = true;
                    return outcome;
                }
                Some(Signal::Lead) => self.take_turn().await,
                None => self.timer_fired()?,
            }
        }
    }

    /// Expires, or moves behind others, or looks whether its batch is ready. A request that has expired while it waits
    /// answers its cell; one that runs leaves its batch to itself.
    fn timer_fired(&mut self) -> Result<(), BatchError> {
        let now = Instant::now();
        let has_passed = |timer: &mut Option<Instant>| timer.take_if(|moment| *moment <= now).is_some();
        if has_passed(&mut self.timers.deadline)
            && let Some(waiting) = self.withdraw()
        {
            self.shared.observer.request_dropped(DropReason::Expired);
            waiting.reply.refuse(BatchError::Expired);
            return Ok(());
        }
        if has_passed(&mut self.timers.limit) && !self.cell.is_answered() {
            return Err(BatchError::Expired);
        }
        if has_passed(&mut self.timers.postpone) {
            self.shared.postpone();
        }
        if has_passed(&mut self.timers.due) {
            self.lead();
        }
        Ok(())
    }

    /// Leaves the queue with all that waits; `None` when nothing does.
    fn withdraw(&self) -> Option<Waiting> {
        self.shared.change(|state| state.withdraw(self.ticket))
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
        self.cell.leave();
    }
}

impl Timers {
    /// The timers of a request that enters this level now. A wait past the end of the clock has no end.
    fn new(shared: &Shared, level: u32, request: &InferenceRequest, now: Instant) -> Self {
        let policy = shared.config.policy(level);
        let timeout = policy.timeout(request.timeout).and_then(|timeout| now.checked_add(timeout));
        let delay = Some(shared.config.max_queue_delay).filter(|delay| !delay.is_zero());
        let due = delay.and_then(|delay| now.checked_add(delay));
        let limit = request.deadline;
        match policy.timeout_action {
            TimeoutAction::Reject => Self { limit, deadline: earlier(limit, timeout), postpone: None, due },
            TimeoutAction::Delay => Self { limit, deadline: limit, postpone: timeout, due },
        }
    }

    fn next(&self) -> Option<Instant> {
        earlier(earlier(self.limit, self.deadline), earlier(self.postpone, self.due))
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// What a request waits as: itself, or cut into pieces where it is larger than a batch and the model lets it be.
fn pieces(
    shared: &Shared,
    cell: &Arc<RequestCell>,
    request: InferenceRequest,
) -> (Piece<Waiting>, Vec<Piece<Waiting>>) {
    let InferenceRequest { inputs, rows, .. } = request;
    let reply = Reply::new(Arc::clone(cell));
    match shared.piece_rows {
        Some(most) if rows > most.get() => cut_into_pieces(reply, &inputs, rows, most),
        _ => (Piece { rows, item: Waiting { reply, inputs } }, Vec::new()),
    }
}

fn cut_into_pieces(
    reply: Reply,
    inputs: &[Tensor],
    rows: u64,
    most: NonZeroU64,
) -> (Piece<Waiting>, Vec<Piece<Waiting>>) {
    let full = rows / most;
    let last = Some(rows % most).filter(|&rows| rows > 0);
    let counts: Vec<u64> = (0..full).map(|_| most.get()).chain(last).collect();
    let gather = Arc::new(Gather::new(reply, counts.len()));
    let reply = |number| Reply::piece(Arc::clone(&gather), number);
    let piece = |(number, (&rows, inputs))| Piece { rows, item: Waiting { reply: reply(number), inputs } };
    let mut pieces = (0..).zip(counts.iter().zip(split_tensors(inputs, &counts))).map(piece);
    let first = pieces.next().expect("a request that is larger than a piece has pieces");
    (first, pieces.collect())
}

/// Pushes a request; tells whether it should lead.
fn queue(shared: &Arc<Shared>, now: Moment, arrival: Arrival<Waiting>) -> Result<(Ticket, bool), BatchError> {
    let level = arrival.level;
    let (pushed, turn) = {
        let mut state = shared.lock();
        let expired = if state.queue.is_full(level) { state.expire(now) } else { Vec::new() };
        let pushed = match state.refusal(level) {
            Some(refusal) => Err((refusal, arrival)),
            None => Ok(state.queue.push(now, arrival).unwrap_or_else(|_| unreachable!("a full queue is a refusal"))),
        };
        state.release_when_enough();
        state.open_gate(now);
        let leads =
            pushed.is_ok() && state.pace.mode() == Mode::Inline && state.free_instance().is_some() && !state.is_held();
        let echo = if leads { Echo::default() } else { shared.dispatch(&mut state, now) };
        (pushed.map(|ticket| (ticket, leads)), Turn::expiring(expired, echo))
    };
    turn.finish(&*shared.observer);
    pushed.map_err(|(refusal, arrival)| {
        arrival.item.reply.discard();
        let is_stopped = refusal == BatchError::Stopped;
        shared.observer.request_dropped(if is_stopped { DropReason::Stopped } else { DropReason::QueueFull });
        refusal
    })
}
