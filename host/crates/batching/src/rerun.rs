//! Requests of batches that failed, in halves that run again: what one request's values do to the engine must cost that
//! request and nobody else. A half that fails is halved in turn, until whoever fails has failed alone. With one such
//! request among `n`, that is at most `2 log2(n)` more runs, of three times the batch's rows in all.
//!
//! They waited their turn once, so they go before the queue, and are no part of it: no policy looks at them again. They
//! still expire, and leave when their caller does.

use std::collections::VecDeque;

use crate::queue::{Batch, Taken, Ticket};
use crate::state::Waiting;

/// See the module. No half is empty.
#[derive(Default)]
pub(crate) struct Reruns {
    halves: VecDeque<Vec<Taken<Waiting>>>,
}

impl Reruns {
    /// Takes in the requests of a batch that failed.
    pub(crate) fn add(&mut self, mut requests: Vec<Taken<Waiting>>) {
        let second = requests.split_off(requests.len() / 2);
        self.halves.extend([requests, second].into_iter().filter(|half| !half.is_empty()));
    }

    /// The next half to run.
    pub(crate) fn pop(&mut self) -> Option<Batch<Waiting>> {
        let requests = self.halves.pop_front()?;
        let rows = requests.iter().map(|request| request.rows).sum();
        Some(Batch { requests, rows, expired: Vec::new() })
    }

    /// Takes a request out that nobody waits for any more, with all its pieces, and returns the first of them.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let mut removed = Vec::new();
        for half in &mut self.halves {
            removed.extend(half.extract_if(.., |request| request.ticket == ticket));
        }
        if removed.is_empty() {
            return None;
        }
        self.halves.retain(|half| !half.is_empty());
        removed.into_iter().next().map(|request| request.item)
    }

    /// The first request of the half that runs next.
    pub(crate) fn first(&self) -> Option<(Ticket, &Waiting)> {
        let request = self.halves.front()?.first()?;
        Some((request.ticket, &request.item))
    }

    pub(crate) fn contains(&self, ticket: Ticket) -> bool {
        self.halves.iter().flatten().any(|request| request.ticket == ticket)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.halves.is_empty()
    }

    /// Halves that wait.
    pub(crate) fn len(&self) -> usize {
        self.halves.len()
    }
}
