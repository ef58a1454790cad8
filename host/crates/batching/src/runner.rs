//! Running one batch: rows go into the instance's slot once, the instance runs, the outcome is handed out. There is no
//! await in here, and what a batch owns answers by itself if anything goes wrong: a lease returns its instance, a
//! [flight](Flight) counts itself out, a reply answers.
//!
//! A completion that comes before `submit` returns is finished by the runner once the instance is back in its place, so
//! that the next batch need not wait for this one's answers; a later one is finished where it comes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::flight::{Flight, Landed};
use crate::state::{Executor, Shared};

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
        flight.write_layout(layout);
        match instance.prepare(layout) {
            Err(error) => return landing.arrive(Landed::new(flight, Err(error))),
            Ok(slot) => flight.write(slot),
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
            state.free_if_retired(self.index);
        });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.restore(None);
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
