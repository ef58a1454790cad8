//! Running one batch: rows go into the instance's slot once, the instance runs, the outcome is cut and handed out. There
//! is no await in here, and what a batch owns answers by itself if anything goes wrong: a lease returns its instance, a
//! flight counts itself out, a reply answers.
//!
//! A completion that comes before `submit` returns is finished by the runner once the instance is back in its place, so
//! that the next batch need not wait for this one's answers; a later one is finished where it comes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{BatchOutput, EngineError, Moment, Tensor};
use tokio::time::Instant;

use crate::cell::{Reply, lost};
use crate::outputs::{Batches, split, write_layout};
use crate::queue::{Batch, Ticket};
use crate::report::{BatchReport, Inferred};
use crate::state::{Executor, Shared, State, Waiting};

/// A batch and the instance to run it on.
pub(crate) struct Work {
    pub(crate) lease: Lease,
    pub(crate) flight: Flight,
}

impl Work {
    /// Runs the batch. When this returns the instance is back in its place; its requests are answered, unless the
    /// instance completes later.
    pub(crate) fn run(self) {
        let Self { mut lease, flight } = self;
        let landing = Arc::new(Landing::default());
        let attempt = catch_unwind(AssertUnwindSafe(|| lease.start(flight, &landing)));
        if let Err(panic) = attempt {
            tracing::error!(
                model = %lease.shared.name,
                panic = panic_text(panic.as_ref()),
                "the engine panicked while running a batch; its requests are answered with an error"
            );
        }
        let landed = landing.close();
        match landed {
            Some(mut landed) => {
                lease.give_back(Some(&mut landed));
                landed.finish();
            }
            None => lease.give_back(None),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

/// An instance out of its place; dropping it brings it back.
pub(crate) struct Lease {
    shared: Arc<Shared>,
    index: usize,
    executor: Option<Executor>,
}

impl Lease {
    pub(crate) fn new(shared: Arc<Shared>, index: usize, executor: Executor) -> Self {
        Self { shared, index, executor: Some(executor) }
    }

    /// Writes the rows and submits; the outcome goes to `landing`.
    fn start(&mut self, mut flight: Flight, landing: &Arc<Landing>) {
        let Some(Executor { instance, layout }) = &mut self.executor else { return };
        let rows = (self.shared.batches == Batches::Rows).then_some(flight.rows);
        let first = flight.passengers.first().map_or(&[][..], |passenger| &passenger.inputs);
        write_layout(layout, first, rows);
        match instance.prepare(layout) {
            Err(error) => return landing.arrive(Landed::new(flight, Err(error))),
            Ok(slot) => {
                for input in 0..layout.shapes.len() {
                    for passenger in &flight.passengers {
                        slot.append(input, passenger.inputs[input].data());
                    }
                }
            }
        }
        // The rows are written; a device may take long, and needs none of this meanwhile.
        flight.passengers.iter_mut().for_each(|passenger| drop(std::mem::take(&mut passenger.inputs)));
        let landing = Arc::clone(landing);
        instance.submit(Box::new(move |outcome| landing.arrive(Landed::new(flight, outcome))));
    }

    /// Brings the instance back, counts its batch out if it has landed, and dispatches.
    fn give_back(mut self, landed: Option<&mut Landed>) {
        self.restore(landed);
    }

    fn restore(&mut self, landed: Option<&mut Landed>) {
        let Some(executor) = self.executor.take() else { return };
        self.shared.change(|state| {
            state.slots[self.index].executor = Some(executor);
            state.leased -= 1;
            if let Some(landed) = landed {
                landed.count_out(state);
            }
        });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.restore(None);
    }
}

/// A batch between the queue and its outcome; dropping it counts it out and fails its requests.
pub(crate) struct Flight {
    shared: Arc<Shared>,
    index: usize,
    passengers: Vec<Passenger>,
    rows: u64,
    queue_of_oldest: Duration,
    started: Instant,
    is_counted: bool,
    /// What has left the queue with a batch that failed; kept until no lock is held.
    withdrawn: Vec<Waiting>,
}

/// A request of a flight, or a piece of one.
struct Passenger {
    ticket: Ticket,
    reply: Reply,
    inputs: Vec<Tensor>,
    rows: u64,
    queue: Duration,
}

impl Flight {
    pub(crate) fn new(shared: Arc<Shared>, index: usize, batch: Batch<Waiting>, now: Moment) -> Self {
        let passengers: Vec<Passenger> = batch
            .requests
            .into_iter()
            .map(|taken| Passenger {
                ticket: taken.ticket,
                reply: taken.item.reply,
                inputs: taken.item.inputs,
                rows: taken.rows,
                queue: now.since(taken.enqueued),
            })
            .collect();
        let queue_of_oldest = passengers.iter().map(|passenger| passenger.queue).max().unwrap_or_default();
        let started = shared.origin + now.since_origin();
        let (rows, withdrawn) = (batch.rows, Vec::new());
        Self { shared, index, passengers, rows, queue_of_oldest, started, is_counted: true, withdrawn }
    }

    /// The batch has failed: takes the other pieces of its requests out of the queue, before somebody runs them.
    fn withdraw_rest(&mut self, state: &mut State) {
        let pieces = self.passengers.iter().filter(|passenger| passenger.reply.is_piece());
        self.withdrawn.extend(pieces.filter_map(|piece| state.withdraw(piece.ticket)));
    }

    fn count_out(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_counted) {
            state.in_flight -= 1;
            state.slots[self.index].in_flight -= 1;
        }
    }

    /// What the observer hears if the batch succeeded.
    fn report(&self, compute: Duration) -> BatchReport {
        BatchReport {
            rows: self.rows,
            requests: self.passengers.len(),
            queue: self.queue_of_oldest,
            compute,
            failed: false,
        }
    }

    /// Answers everyone with `error`.
    fn fail(&mut self, error: &EngineError) {
        self.passengers.drain(..).for_each(|passenger| passenger.reply.send(Err(error.clone().into())));
    }

    /// Counts out a batch that never landed.
    fn crash(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.change(|state| {
            self.withdraw_rest(state);
            self.count_out(state);
        });
        let compute = Instant::now().saturating_duration_since(self.started);
        shared.observer.batch_finished(&BatchReport { failed: true, ..self.report(compute) });
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.is_counted {
            self.crash();
        }
        if !self.passengers.is_empty() {
            self.fail(&lost());
        }
    }
}

/// A flight with its outcome.
struct Landed {
    flight: Flight,
    outcome: Result<BatchOutput, EngineError>,
    compute: Duration,
}

impl Landed {
    fn new(flight: Flight, outcome: Result<BatchOutput, EngineError>) -> Self {
        let compute = Instant::now().saturating_duration_since(flight.started);
        Self { flight, outcome, compute }
    }

    fn count_out(&mut self, state: &mut State) {
        match self.outcome {
            Ok(_) => state.pace.record(self.compute),
            Err(_) => self.flight.withdraw_rest(state),
        }
        self.flight.count_out(state);
    }

    /// Counts the batch out, then finishes it: for a completion that came after its runner had left.
    fn finish_late(mut self) {
        let shared = Arc::clone(&self.flight.shared);
        shared.change(|state| self.count_out(state));
        self.finish();
    }

    /// Tells the observer and hands out the rows, or the error.
    fn finish(self) {
        let Self { mut flight, outcome, compute } = self;
        let rows: Vec<u64> = flight.passengers.iter().map(|passenger| passenger.rows).collect();
        let shared = Arc::clone(&flight.shared);
        let outcome = outcome.and_then(|output| split(output, &shared.signature, &rows, shared.batches));
        shared.observer.batch_finished(&BatchReport { failed: outcome.is_err(), ..flight.report(compute) });
        let batch_rows = flight.rows;
        match outcome {
            Ok(pieces) => {
                for (passenger, outputs) in flight.passengers.drain(..).zip(pieces) {
                    let queue = passenger.queue;
                    passenger.reply.send(Ok(Inferred { outputs, queue, compute, batch_rows }));
                }
            }
            Err(error) => {
                // Outputs that do not fit their batch are found only now, after it was counted out.
                if flight.passengers.iter().any(|passenger| passenger.reply.is_piece()) {
                    shared.change(|state| flight.withdraw_rest(state));
                }
                flight.fail(&error);
            }
        }
    }
}

/// Where a completion and the runner meet.
#[derive(Default)]
struct Landing {
    state: Mutex<LandingState>,
}

#[derive(Default)]
struct LandingState {
    is_closed: bool,
    landed: Option<Landed>,
}

impl Landing {
    /// The outcome is here: leaves it to the runner if that still waits for it.
    fn arrive(&self, landed: Landed) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !state.is_closed {
                state.landed = Some(landed);
                return;
            }
        }
        landed.finish_late();
    }

    /// The runner leaves: what has landed is its to finish.
    fn close(&self) -> Option<Landed> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        state.landed.take()
    }
}
