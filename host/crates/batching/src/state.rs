//! The state of one batcher: its queue, its instances, who was asked to lead, behind one mutex that is held for a few
//! lines and never across an await or an engine call.
//!
//! Always true between two holders of the lock: if an instance is free and a batch is ready, then somebody has been told
//! (a waiting request was appointed, or a worker called), or a request that found the instance free has yielded and
//! will look. Whoever changes the state calls [`Shared::dispatch`] before letting go, which keeps this so.

use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use model::{BatchLayout, BatchingConfig, ModelInstance, Moment, Padding, Signature, Tensor};
use tokio::time::Instant;

use crate::cell::Reply;
use crate::decision::Decision;
use crate::flight::Flight;
use crate::mode::{Mode, Pace};
use crate::order::Order;
use crate::outputs::Batches;
use crate::queue::{Batch, BatchQueue, ShapeKey, Ticket};
use crate::report::{BatchError, BatchObserver, DropReason};
use crate::rerun::Reruns;
use crate::runner::{Lease, Work};

/// What every request, worker and batch in flight of one batcher shares.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) signature: Arc<Signature>,
    pub(crate) batches: Batches,
    /// `None` where inputs are taken as they are sent.
    pub(crate) padding: Option<Arc<Padding>>,
    pub(crate) config: BatchingConfig,
    /// Most rows of a piece; `None` where requests are never cut.
    pub(crate) piece_rows: Option<NonZeroU64>,
    /// `None` where answers go out as they come.
    pub(crate) order: Option<Arc<Order>>,
    pub(crate) observer: Arc<dyn BatchObserver>,
    pub(crate) origin: Instant,
    /// One per instance: rings its worker.
    pub(crate) bells: Vec<Condvar>,
    /// Rings when a stopping batcher has nothing left to do.
    pub(crate) drained: Condvar,
    pub(crate) state: Mutex<State>,
}

/// See the module.
pub(crate) struct State {
    pub(crate) queue: BatchQueue<Waiting>,
    /// What goes before the queue: requests whose batch has failed.
    pub(crate) reruns: Reruns,
    pub(crate) slots: Vec<InstanceSlot>,
    pub(crate) pace: Pace,
    /// The request that was asked to lead and has not looked yet.
    pub(crate) appointed: Option<Ticket>,
    /// Batches taken whose outcome is not known yet.
    pub(crate) in_flight: usize,
    /// Instances that somebody holds.
    pub(crate) leased: usize,
    pub(crate) is_stopping: bool,
}

/// A request in the queue, or a piece of one.
pub(crate) struct Waiting {
    pub(crate) reply: Reply,
    pub(crate) inputs: Vec<Tensor>,
}

/// An instance's place.
pub(crate) struct InstanceSlot {
    /// `None` while leased, and after a stop.
    pub(crate) executor: Option<Executor>,
    pub(crate) in_flight: usize,
    pub(crate) capacity: usize,
    pub(crate) worker: WorkerState,
}

/// What an instance's worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerState {
    /// Busy, or about to look, or there is none.
    Away,
    /// Waiting for its bell.
    Parked,
    /// Its bell has rung.
    Called,
}

/// An instance with its scratch memory.
pub(crate) struct Executor {
    pub(crate) instance: Box<dyn ModelInstance>,
    pub(crate) layout: BatchLayout,
}

/// What is to be done once the lock is released.
#[derive(Default)]
#[must_use]
pub(crate) struct Turn {
    work: Option<Work>,
    expired: Vec<Waiting>,
    waker: Option<Waker>,
}

impl State {
    /// An instance that may start a batch now.
    pub(crate) fn free_instance(&self) -> Option<usize> {
        self.slots.iter().position(InstanceSlot::is_free)
    }

    /// Whether nothing waits, runs or is held.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.reruns.is_empty() && self.in_flight == 0 && self.leased == 0
    }

    /// What to do now; see [`BatchQueue::decide`].
    pub(crate) fn decide(&self, now: Moment) -> Decision {
        if self.reruns.is_empty() { self.queue.decide(now) } else { Decision::Run }
    }

    /// Asks the oldest request to lead, unless one is asked already or no instance is free.
    fn appoint(&mut self) -> Option<Waker> {
        if self.appointed.is_some() {
            return None;
        }
        self.free_instance()?;
        let (ticket, waiting) = self.reruns.first().or_else(|| self.queue.oldest())?;
        let waker = waiting.reply.ask_to_lead();
        self.appointed = Some(ticket);
        waker
    }

    /// A parked worker whose instance may start a batch, now called.
    fn call_worker(&mut self) -> Option<usize> {
        let idle = |slot: &InstanceSlot| slot.is_free() && slot.worker == WorkerState::Parked;
        let index = self.slots.iter().position(idle)?;
        self.slots[index].worker = WorkerState::Called;
        Some(index)
    }

    /// Takes a request out, and all its pieces; `None` when none of it waits.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.end_appointment(ticket);
        let from_queue = self.queue.remove(ticket);
        let from_reruns = if self.reruns.is_empty() { None } else { self.reruns.remove(ticket) };
        from_queue.or(from_reruns)
    }

    /// Why a request cannot enter this level, if so.
    pub(crate) fn refusal(&self, level: u32) -> Option<BatchError> {
        if self.is_stopping {
            return Some(BatchError::Stopped);
        }
        let max = self.queue.rules().max_requests(level).get();
        self.queue.is_full(level).then_some(BatchError::QueueFull { max })
    }

    /// Takes what has expired out of the queue, and postpones what has timed out.
    pub(crate) fn expire(&mut self, now: Moment) -> Vec<Waiting> {
        let expired = self.queue.expire(now);
        self.check_appointment();
        expired
    }

    /// Ends the appointment of a request that is no longer waiting: it will not look.
    fn check_appointment(&mut self) {
        let (queue, reruns) = (&self.queue, &self.reruns);
        self.appointed = self.appointed.filter(|&ticket| queue.contains(ticket) || reruns.contains(ticket));
    }

    /// The request has looked, or is gone.
    pub(crate) fn end_appointment(&mut self, ticket: Ticket) {
        if self.appointed == Some(ticket) {
            self.appointed = None;
        }
    }
}

impl InstanceSlot {
    pub(crate) fn is_free(&self) -> bool {
        self.executor.is_some() && self.in_flight < self.capacity
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        self.moment(Instant::now())
    }

    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        Moment::from_origin(instant.saturating_duration_since(self.origin))
    }

    /// What `inputs` must share with others to run with them.
    pub(crate) fn shape_key(&self, inputs: &[Tensor]) -> ShapeKey {
        if self.batches == Batches::Nothing {
            return ShapeKey::default();
        }
        if let Some(padding) = &self.padding {
            return ShapeKey::new(&padding.key(inputs));
        }
        let mut free = Vec::new();
        for (spec, input) in self.signature.inputs.iter().zip(inputs) {
            let dimensions = spec.shape.iter().zip(input.shape()).skip(1);
            free.extend(dimensions.filter(|(want, _)| **want < 0).map(|(_, got)| *got));
        }
        ShapeKey::new(&free)
    }

    /// Tells somebody if a batch is ready and an instance free. Call it after every change of the state, and wake what
    /// it returns once the lock is released.
    #[must_use]
    pub(crate) fn dispatch(&self, state: &mut State, now: Moment) -> Option<Waker> {
        if state.is_stopping && state.is_quiet() {
            self.bells.iter().for_each(Condvar::notify_one);
            self.drained.notify_all();
            return None;
        }
        if state.decide(now) != Decision::Run {
            return None;
        }
        match state.pace.mode() {
            Mode::Inline => state.appoint(),
            Mode::Worker => {
                if let Some(index) = state.call_worker() {
                    self.bells[index].notify_one();
                }
                None
            }
        }
    }

    /// Changes the state, dispatches, and once the lock is released wakes who is to be.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let now = self.now();
        let (changed, waker) = {
            let mut state = self.lock();
            let changed = change(&mut state);
            (changed, self.dispatch(&mut state, now))
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        changed
    }

    /// Postpones what has timed out, and answers what has expired.
    pub(crate) fn postpone(&self) {
        let now = self.now();
        let expired = self.change(|state| state.expire(now));
        Turn::expiring(expired, None).finish(&*self.observer);
    }

    /// Takes the next batch for the free instance `index` and dispatches what is left.
    pub(crate) fn take(self: &Arc<Self>, state: &mut State, index: usize, now: Moment) -> Turn {
        let Batch { requests, rows, expired } = state.reruns.pop().unwrap_or_else(|| state.queue.take(now));
        state.check_appointment();
        let slot = &mut state.slots[index];
        let work = match slot.executor.take() {
            Some(executor) if !requests.is_empty() => {
                slot.in_flight += 1;
                state.in_flight += 1;
                state.leased += 1;
                let flight = Flight::new(Arc::clone(self), index, Batch { requests, rows, expired: Vec::new() }, now);
                Some(Work { lease: Lease::new(Arc::clone(self), index, executor), flight })
            }
            executor => {
                slot.executor = executor;
                None
            }
        };
        Turn { work, expired, waker: self.dispatch(state, now) }
    }
}

impl Turn {
    /// A turn of someone who found nothing to take.
    pub(crate) fn waking(waker: Option<Waker>) -> Self {
        Self { waker, ..Self::default() }
    }

    /// A turn of someone who found requests expired.
    pub(crate) fn expiring(expired: Vec<Waiting>, waker: Option<Waker>) -> Self {
        Self { work: None, expired, waker }
    }

    /// Whether nothing is to be done.
    pub(crate) fn is_idle(&self) -> bool {
        self.work.is_none() && self.expired.is_empty() && self.waker.is_none()
    }

    /// Wakes and answers who is to be; returns the batch to run. Call it without the lock.
    pub(crate) fn finish(self, observer: &dyn BatchObserver) -> Option<Work> {
        if let Some(waker) = self.waker {
            waker.wake();
        }
        for waiting in self.expired {
            observer.request_dropped(DropReason::Expired);
            waiting.reply.refuse(BatchError::Expired);
        }
        self.work
    }
}
