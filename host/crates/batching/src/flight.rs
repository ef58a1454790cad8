//! A batch on its way: from the requests it was made of, through its outcome, to their answers. It runs on the threads
//! that [`runner`](crate::runner) says.

use std::sync::Arc;
use std::time::Duration;

use model::{AssembledBatch, BatchLayout, BatchOutput, EngineError, Moment, Request, Slot, Tensor, split_outputs};

use crate::cell::lost;
use crate::outputs::{check, write_layout};
use crate::queue::{Batch, Taken};
use crate::rate_limit::Permit;
use crate::report::{BatchReport, BatchTimes, Inferred};
use crate::state::{Shared, State, Waiting};

/// A batch between the queue and its outcome; dropping it counts it out and fails its requests.
pub(crate) struct Flight {
    shared: Arc<Shared>,
    index: usize,
    /// Requests, and pieces of requests.
    passengers: Vec<Taken<Waiting>>,
    rows: u64,
    /// `None` where a batch is the requests' rows, one behind the other. A flight is moved about, so what few have is
    /// boxed.
    assembled: Option<Box<AssembledBatch>>,
    /// What its instance needs in order to run; goes back with no lock held.
    permit: Option<Permit>,
    taken: Moment,
    /// When the inputs had been written.
    written: Moment,
    is_counted: bool,
    /// What has left the queue with a batch that failed; kept until no lock is held.
    withdrawn: Vec<Waiting>,
}

impl Flight {
    pub(crate) fn new(
        (shared, index): (Arc<Shared>, usize),
        batch: Batch<Waiting>,
        permit: Option<Permit>,
        taken: Moment,
    ) -> Self {
        let Batch { requests: passengers, rows, .. } = batch;
        let (written, withdrawn) = (taken, Vec::new());
        Self { shared, index, passengers, rows, assembled: None, permit, taken, written, is_counted: true, withdrawn }
    }

    /// Writes the shapes of the batch's inputs.
    pub(crate) fn write_layout(&mut self, layout: &mut BatchLayout) {
        let assembly = self.shared.assembly.as_ref();
        self.assembled = assembly.map(|assembly| Box::new(assembly.batch(self.requests())));
        match &self.assembled {
            None => {
                let first = self.passengers.first().map_or(&[][..], |passenger| &passenger.item.inputs);
                write_layout(layout, first, self.shared.rows(self.rows));
            }
            Some(assembled) => assembled.write_layout(layout, &self.requests(), self.rows),
        }
    }

    /// Writes the inputs themselves. A device may take long then: only requests that may have to run again keep theirs.
    pub(crate) fn write(&mut self, slot: &mut dyn Slot) {
        match &self.assembled {
            None => self.write_rows(slot),
            Some(assembled) => assembled.write(slot, &self.requests()),
        }
        if let [alone] = &mut self.passengers[..] {
            alone.item.inputs = Vec::new();
        }
        self.written = self.shared.now();
    }

    fn write_rows(&self, slot: &mut dyn Slot) {
        let inputs = self.passengers.first().map_or(0, |passenger| passenger.item.inputs.len());
        for input in 0..inputs {
            for passenger in &self.passengers {
                slot.append(input, passenger.item.inputs[input].data());
            }
        }
    }

    fn requests(&self) -> impl Iterator<Item = Request<'_>> + Clone {
        self.passengers.iter().map(|passenger| (&passenger.item.inputs[..], passenger.rows))
    }

    /// Each request's outputs, as it would have them alone.
    fn split(&self, outputs: Vec<Tensor>) -> Vec<Vec<Tensor>> {
        let rows: Vec<u64> = self.passengers.iter().map(|passenger| passenger.rows).collect();
        match &self.assembled {
            None => split_outputs(outputs, &rows),
            Some(assembled) => assembled.split(outputs, &rows),
        }
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
            state.free_if_retired(self.index);
        }
    }

    /// What the observer hears if the batch succeeded.
    fn report(&self, compute: Duration) -> BatchReport {
        let queue = self.passengers.iter().map(|passenger| self.taken.since(passenger.enqueued)).max();
        BatchReport {
            rows: self.rows,
            requests: self.passengers.len(),
            queue: queue.unwrap_or_default(),
            times: BatchTimes { compute, input: self.written.since(self.taken), output: Duration::ZERO },
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
pub(crate) struct Landed {
    flight: Flight,
    outcome: Result<Vec<Tensor>, EngineError>,
    report: BatchReport,
}

impl Landed {
    pub(crate) fn new(flight: Flight, outcome: Result<BatchOutput, EngineError>) -> Self {
        let shared = &flight.shared;
        let outcome = outcome
            .and_then(|output| check(output, &shared.signature, shared.rows(flight.rows), flight.assembled.as_deref()));
        let report = BatchReport { failed: outcome.is_err(), ..flight.report(flight.compute()) };
        Self { flight, outcome, report }
    }

    /// Counts the batch out, under the lock of its batcher.
    pub(crate) fn count_out(&mut self, state: &mut State) {
        match self.outcome {
            Ok(_) => state.pace.record(self.report.times.compute),
            Err(_) => self.flight.fall_apart(state),
        }
        self.flight.count_out(state);
    }

    /// Counts the batch out, then finishes it: for a completion that came after its runner had left.
    pub(crate) fn finish_late(mut self) {
        let shared = Arc::clone(&self.flight.shared);
        shared.change(|state| self.count_out(state));
        self.finish();
    }

    /// Tells the observer and hands out the rows, or the error.
    pub(crate) fn finish(self) {
        let Self { mut flight, outcome, mut report } = self;
        drop(flight.permit.take());
        match outcome.map(|outputs| flight.split(outputs)) {
            Ok(answers) => {
                report.times.output = flight.compute().saturating_sub(report.times.compute);
                flight.shared.observer.batch_finished(&report);
                let BatchReport { times, rows: batch_rows, .. } = report;
                for (passenger, outputs) in flight.passengers.drain(..).zip(answers) {
                    let queue = flight.taken.since(passenger.enqueued);
                    passenger.item.reply.send(Ok(Inferred { outputs, queue, times, batch_rows }));
                }
            }
            Err(error) => {
                flight.shared.observer.batch_finished(&report);
                flight.fail(&error);
            }
        }
    }
}
