//! The thread of one instance: parked on its bell while there is nothing for it, else it leases its instance, starts the
//! next batch and comes back. It ends when the batcher stops and nothing is left, or with its instance; a panic of the engine ends a batch,
//! never the thread.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::Handle;

use crate::decision::Decision;
use crate::mode::Mode;
use crate::state::{Shared, State, Turn, WorkerState};

/// Starts the worker of instance `index`. `runtime` is whose clock it reads.
pub(crate) fn spawn(shared: Arc<Shared>, index: usize, runtime: Option<Handle>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("batch-{}-{index}", shared.name)).spawn(move || {
        let _clock = runtime.as_ref().map(Handle::enter);
        while let Some(turn) = next_turn(&shared, index) {
            if let Some(work) = turn.finish(&*shared.observer) {
                work.run();
            }
        }
    })
}

/// Waits until there is something to do; `None` at the end.
fn next_turn(shared: &Arc<Shared>, index: usize) -> Option<Turn> {
    let mut state = shared.lock();
    loop {
        if state.slots[index].is_vacant() {
            state.slots[index].worker = WorkerState::Ended;
            return None;
        }
        state.slots[index].worker = WorkerState::Away;
        let turn = look(shared, &mut state, index);
        if !turn.is_idle() {
            return Some(turn);
        }
        if state.is_stopping && state.is_quiet() {
            return None;
        }
        state.slots[index].worker = WorkerState::Parked;
        let bell = Arc::clone(&state.slots[index].bell);
        state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Takes a batch if one is ready for this worker; else sees to it that somebody else is told.
fn look(shared: &Arc<Shared>, state: &mut State, index: usize) -> Turn {
    let now = shared.now();
    state.open_gate(now);
    let is_mine = state.pace.mode() == Mode::Worker && state.slots[index].is_free();
    if is_mine && state.decide(now) == Decision::Run {
        return shared.take(state, index, now);
    }
    Turn::passing(shared.dispatch(state, now))
}
