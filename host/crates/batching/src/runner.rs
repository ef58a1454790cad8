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

use crate::cell::lost;
use crate::outputs::{Batches, check, split, write_layout};
use crate::queue::{Batch, Taken};
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
        let first = flight.passengers.first().map_or(&[][..], |passenger| &passenger.item.inputs);
        write_layout(layout, first, rows);
        match instance.prepare(layout) {
            Err(error) => return landing.arrive(Landed::new(flight, Err(error))),
            Ok(slot) => {
                for input in 0..layout.shapes.len() {
                    for passenger in &flight.passengers {
                        slot.append(input, passenger.item.inputs[input].data());
                    }
                }
            }
        }
        // The rows are written; a device may take long. Only requests that may have to run again keep theirs.
        if let [alone] = &mut flight.passengers[..] {
            alone.item.inputs = Vec::new();
        }
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
    /// Requests, and pieces of requests.
    passengers: Vec<Taken<Waiting>>,
    rows: u64,
    taken: Moment,
    is_counted: bool,
    /// What has left the queue with a batch that failed; kept until no lock is held.
    withdrawn: Vec<Waiting>,
}

impl Flight {
    pub(crate) fn new(shared: Arc<Shared>, index: usize, batch: Batch<Waiting>, now: Moment) -> Self {
        let Batch { requests: passengers, rows, .. } = batch;
        Self { shared, index, passengers, rows, taken: now, is_counted: true, withdrawn: Vec::new() }
    }

    /// The batch has failed: who was alone in it has failed, and so have the other pieces of that request, which are not
    /// to run any more; several run again, unless nobody waits for them any more.
    fn fall_apart(&mut self, state: &mut State) {
        match &self.passengers[..] {
            [alone] if alone.item.reply.is_piece() => self.withdrawn.extend(state.withdraw(alone.ticket)),
            [] | [_] => {}
            _ => {
                let (awaited, left): (Vec<_>, Vec<_>) =
                    self.passengers.drain(..).partition(|passenger| passenger.item.reply.is_awaited());
                self.withdrawn.extend(left.into_iter().map(|passenger| passenger.item));
                state.reruns.add(awaited);
            }
        }
    }

    /// The batch is lost, and with it whatever else waits of its requests.
    fn withdraw_rest(&mut self, state: &mut State) {
        let pieces = self.passengers.iter().filter(|passenger| passenger.item.reply.is_piece());
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
        let queue = self.passengers.iter().map(|passenger| self.taken.since(passenger.enqueued)).max();
        BatchReport {
            rows: self.rows,
            requests: self.passengers.len(),
            queue: queue.unwrap_or_default(),
            compute,
            failed: false,
        }
    }

    /// Time from leaving the queue to now.
    fn compute(&self) -> Duration {
        self.shared.now().since(self.taken)
    }

    /// Answers everyone with `error`.
    fn fail(&mut self, error: &EngineError) {
        self.passengers.drain(..).for_each(|passenger| passenger.item.reply.send(Err(error.clone().into())));
    }

    /// Counts out a batch that never landed.
    fn crash(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.change(|state| {
            self.withdraw_rest(state);
            self.count_out(state);
        });
        shared.observer.batch_finished(&BatchReport { failed: true, ..self.report(self.compute()) });
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

/// A flight with its outcome, which is checked against the signature.
struct Landed {
    flight: Flight,
    outcome: Result<Vec<Tensor>, EngineError>,
    report: BatchReport,
}

impl Landed {
    fn new(flight: Flight, outcome: Result<BatchOutput, EngineError>) -> Self {
        let Shared { signature, batches, .. } = &*flight.shared;
        let outcome = outcome.and_then(|output| check(output, signature, flight.rows, *batches));
        let report = BatchReport { failed: outcome.is_err(), ..flight.report(flight.compute()) };
        Self { flight, outcome, report }
    }

    fn count_out(&mut self, state: &mut State) {
        match self.outcome {
            Ok(_) => state.pace.record(self.report.compute),
            Err(_) => self.flight.fall_apart(state),
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
        let Self { mut flight, outcome, report } = self;
        flight.shared.observer.batch_finished(&report);
        match outcome {
            Ok(outputs) => {
                let rows: Vec<u64> = flight.passengers.iter().map(|passenger| passenger.rows).collect();
                for (passenger, outputs) in flight.passengers.drain(..).zip(split(outputs, &rows)) {
                    let queue = flight.taken.since(passenger.enqueued);
                    let BatchReport { compute, rows: batch_rows, .. } = report;
                    passenger.item.reply.send(Ok(Inferred { outputs, queue, compute, batch_rows }));
                }
            }
            Err(error) => flight.fail(&error),
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
