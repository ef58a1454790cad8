//! Jobs waiting for a load thread. Bounded by nature: the reconciler has at most one job per model out at a time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use super::assemble::Job;

/// First in, first out.
#[derive(Default)]
pub(super) struct JobQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl JobQueue {
    /// Adds a job.
    pub(super) fn add(&self, job: Job) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        self.changed.notify_one();
    }

    /// Waits for a job; `None` once the queue is closed. Jobs not taken by then are dropped: nothing will publish them.
    pub(super) fn take(&self) -> Option<Job> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends every waiting and coming [`JobQueue::take`].
    pub(super) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_all();
    }
}
