//! The state of one batcher: its queue, its instances, who was asked to lead, behind one mutex that is held for a few
//! lines and never across an await or an engine call.
//!
//! Always true between two holders of the lock: if an instance is free and a batch is ready, then somebody has been told
//! (a waiting request was appointed, or a worker called), or a request that found the instance free has yielded and
//! will look. Whoever changes the state calls [`Shared::dispatch`] before letting go, which keeps this so.

use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use model::{Assembly, BatchLayout, BatchingConfig, ModelInstance, Moment, Signature, Tensor};
use tokio::time::Instant;

use crate::cell::Reply;
use crate::decision::Decision;
use crate::flight::Flight;
use crate::mode::{Mode, Pace};
use crate::order::Order;
use crate::outputs::Batches;
use crate::queue::{Batch, BatchQueue, ShapeKey, Ticket};
use crate::rate_limit::{Gate, Leftover, Permit};
use crate::report::{BatchError, BatchObserver, DropReason};
use crate::rerun::Reruns;
use crate::runner::{Lease, Work};

/// What every request, worker and batch in flight of one batcher shares.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) signature: Arc<Signature>,
    pub(crate) batches: Batches,
    /// `None` where a batch is the requests' rows, one behind the other.
    pub(crate) assembly: Option<Assembly>,
    pub(crate) config: BatchingConfig,
    /// Most rows of a piece; `None` where requests are never cut.
    pub(crate) piece_rows: Option<NonZeroU64>,
    /// `None` where answers go out as they come.
    pub(crate) order: Option<Arc<Order>>,
    pub(crate) observer: Arc<dyn BatchObserver>,
    pub(crate) origin: Instant,
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
    /// Instances that are retired and idle; dropped once no lock is held.
    pub(crate) freed: Vec<Executor>,
    pub(crate) pace: Pace,
    /// The request that was asked to lead and has not looked yet.
    pub(crate) appointed: Option<Ticket>,
    /// Batches taken whose outcome is not known yet.
    pub(crate) in_flight: usize,
    /// Instances that somebody holds.
    pub(crate) leased: usize,
    /// Whether an instance has a gate.
    pub(crate) is_limited: bool,
    pub(crate) is_stopping: bool,
    /// Nothing runs before so many requests wait; 0 once they have.
    pub(crate) held_until: usize,
}

/// A request in the queue, or a piece of one.
pub(crate) struct Waiting {
    pub(crate) reply: Reply,
    pub(crate) inputs: Vec<Tensor>,
}

/// An instance's place.
pub(crate) struct InstanceSlot {
    /// `None` while leased, after a stop, and once retired.
    pub(crate) executor: Option<Executor>,
    /// Whether it starts nothing any more and is freed as soon as it is idle.
    pub(crate) is_retired: bool,
    /// Rings its worker.
    pub(crate) bell: Arc<Condvar>,
    pub(crate) in_flight: usize,
    pub(crate) capacity: usize,
    pub(crate) worker: WorkerState,
    /// `None` where it needs nothing but itself in order to run.
    pub(crate) gate: Option<Gate>,
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
    /// Gone, with its instance.
    Ended,
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
    echo: Echo,
}

/// What [`Shared::dispatch`] leaves to be done once the lock is released.
#[derive(Default)]
#[must_use]
pub(crate) struct Echo {
    waker: Option<Waker>,
    /// What the gates have no use for. It goes to other models, whose locks are taken for that.
    unused: Option<Box<[Leftover]>>,
}

impl Echo {
    fn waking(waker: Option<Waker>) -> Self {
        Self { waker, unused: None }
    }

    fn is_silent(&self) -> bool {
        self.waker.is_none() && self.unused.is_none()
    }

    /// Wakes who is to be and gives the permits back. Call it without the lock.
    pub(crate) fn finish(self) {
        if let Some(waker) = self.waker {
            waker.wake();
        }
        drop(self.unused);
    }
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
        if self.is_held() {
            return Decision::Empty;
        }
        if self.reruns.is_empty() { self.queue.decide(now) } else { Decision::Run }
    }

    /// Whether too few requests have come so far for any to run.
    pub(crate) fn is_held(&self) -> bool {
        self.held_until > 0 && !self.is_stopping
    }

    /// A request has come: enough may have by now.
    pub(crate) fn release_when_enough(&mut self) {
        if self.queue.len() >= self.held_until {
            self.held_until = 0;
        }
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

    /// If a batch is ready and no instance free, asks for what an idle one needs. Call it before looking for a free one.
    pub(crate) fn open_gate(&mut self, now: Moment) {
        if self.is_limited && self.free_instance().is_none() && self.decide(now) == Decision::Run {
            let _ = self.slots.iter_mut().any(InstanceSlot::open);
        }
    }

    /// Nothing is to run: nobody asks any more, and what is held goes back.
    fn close_gates(&mut self) -> Echo {
        let gates = self.slots.iter_mut().filter_map(|slot| slot.gate.as_mut());
        let unused: Box<[Leftover]> = gates.filter_map(Gate::close).collect();
        Echo { waker: None, unused: Some(unused).filter(|unused| !unused.is_empty()) }
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

    /// Frees the instance of slot `index` if it is retired and idle now.
    pub(crate) fn free_if_retired(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.is_retired && slot.in_flight == 0 {
            self.freed.extend(slot.executor.take());
            slot.bell.notify_one();
        }
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
    /// Whether it may start a batch now.
    pub(crate) fn is_free(&self) -> bool {
        self.has_room() && self.gate.as_ref().is_none_or(Gate::is_open)
    }

    fn has_room(&self) -> bool {
        self.executor.is_some() && self.in_flight < self.capacity && !self.is_retired
    }

    /// Whether it is retired and nothing of it is left.
    pub(crate) fn is_vacant(&self) -> bool {
        self.is_retired && self.executor.is_none() && self.in_flight == 0
    }

    /// Asks for what it needs, if it could start a batch with it; whether it may start one now.
    fn open(&mut self) -> bool {
        self.has_room() && self.gate.as_mut().is_none_or(Gate::open)
    }
}

impl Shared {
    /// What a batch of `rows` rows has of them: `None` where the model does not batch.
    pub(crate) fn rows(&self, rows: u64) -> Option<u64> {
        (self.batches == Batches::Rows).then_some(rows)
    }

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
        if let Some(assembly) = &self.assembly {
            return ShapeKey::new(&assembly.key(inputs));
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
    pub(crate) fn dispatch(&self, state: &mut State, now: Moment) -> Echo {
        if state.is_stopping && state.is_quiet() {
            state.slots.iter().for_each(|slot| slot.bell.notify_one());
            self.drained.notify_all();
        }
        if state.decide(now) != Decision::Run {
            return if state.is_limited { state.close_gates() } else { Echo::default() };
        }
        state.open_gate(now);
        match state.pace.mode() {
            Mode::Inline => Echo::waking(state.appoint()),
            Mode::Worker => {
                if let Some(index) = state.call_worker() {
                    state.slots[index].bell.notify_one();
                }
                Echo::default()
            }
        }
    }

    /// Takes in a permit that instance `index` has asked for.
    pub(crate) fn receive(&self, index: usize, permit: Permit) {
        let unused = self.change(|state| match state.slots.get_mut(index) {
            Some(InstanceSlot { gate: Some(gate), .. }) => gate.receive(permit),
            _ => Some(permit),
        });
        drop(unused);
    }

    /// Changes the state, dispatches, and once the lock is released wakes who is to be.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let now = self.now();
        let (changed, echo, freed) = {
            let mut state = self.lock();
            let changed = change(&mut state);
            let echo = self.dispatch(&mut state, now);
            (changed, echo, std::mem::take(&mut state.freed))
        };
        echo.finish();
        drop(freed);
        changed
    }

    /// Postpones what has timed out, and answers what has expired.
    pub(crate) fn postpone(&self) {
        let now = self.now();
        let expired = self.change(|state| state.expire(now));
        Turn::expiring(expired, Echo::default()).finish(&*self.observer);
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
                let permit = slot.gate.as_mut().and_then(Gate::pass);
                let batch = Batch { requests, rows, expired: Vec::new() };
                let flight = Flight::new((Arc::clone(self), index), batch, permit, now);
                Some(Work { lease: Lease::new(Arc::clone(self), index, executor), flight })
            }
            executor => {
                slot.executor = executor;
                None
            }
        };
        Turn { work, expired, echo: self.dispatch(state, now) }
    }
}

impl Turn {
    /// A turn of someone who found nothing to take.
    pub(crate) fn passing(echo: Echo) -> Self {
        Self { echo, ..Self::default() }
    }

    /// A turn of someone who found requests expired.
    pub(crate) fn expiring(expired: Vec<Waiting>, echo: Echo) -> Self {
        Self { work: None, expired, echo }
    }

    /// Whether nothing is to be done.
    pub(crate) fn is_idle(&self) -> bool {
        self.work.is_none() && self.expired.is_empty() && self.echo.is_silent()
    }

    /// Wakes and answers who is to be; returns the batch to run. Call it without the lock.
    pub(crate) fn finish(self, observer: &dyn BatchObserver) -> Option<Work> {
        self.echo.finish();
        for waiting in self.expired {
            observer.request_dropped(DropReason::Expired);
            waiting.reply.refuse(BatchError::Expired);
        }
        self.work
    }
}
