//! Answers in the order of arrival, for models that ask for it (`preserve_ordering`). Each request has a position from
//! arrival to answer; an answer that is there before its turn is held until everybody before has theirs, or has left.
//! Requests that are refused or expire are answered at once, out of line, as in Triton.
//!
//! One thread at a time hands out, without the lock, so that answers go out one after another whoever brings them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cell::{Outcome, RequestCell};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Order {
    state: Mutex<OrderState>,
}

#[derive(Debug, Default)]
struct OrderState {
    next: u64,
    /// Requests that have not been answered and have not left, with their answers where these are held.
    positions: BTreeMap<u64, Option<Held>>,
    is_handing_out: bool,
}

/// An answer and whose it is.
type Held = (Arc<RequestCell>, Outcome);

/// A request's place in the order.
#[derive(Debug)]
pub(crate) struct Position {
    order: Arc<Order>,
    number: u64,
}

impl Order {
    /// The position behind all others.
    pub(crate) fn enter(self: &Arc<Self>) -> Position {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.positions.insert(number, None);
        Position { order: Arc::clone(self), number }
    }

    fn hand_out(&self) {
        let mut state = self.lock();
        if state.is_handing_out {
            return;
        }
        state.is_handing_out = true;
        while let Some((cell, outcome)) = state.pop() {
            drop(state);
            cell.answer(outcome);
            state = self.lock();
        }
        state.is_handing_out = false;
    }

    fn lock(&self) -> MutexGuard<'_, OrderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrderState {
    /// The first request's answer, if it is there; its position is free then.
    fn pop(&mut self) -> Option<Held> {
        let first = self.positions.first_entry()?;
        if first.get().is_some() { first.remove() } else { None }
    }
}

impl Position {
    /// Answers `cell` once it is its turn; not at all when the position has been left.
    pub(crate) fn answer(&self, cell: Arc<RequestCell>, outcome: Outcome) {
        // What is not held is dropped without the lock.
        let mut held = Some((cell, outcome));
        if let Some(position) = self.order.lock().positions.get_mut(&self.number) {
            std::mem::swap(position, &mut held);
        }
        drop(held);
        self.order.hand_out();
    }

    /// Frees the position; nobody waits for its answer any more.
    pub(crate) fn leave(&self) {
        let left = self.order.lock().positions.remove(&self.number);
        if left.is_some() {
            self.order.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Reply, Signal};
    use crate::report::BatchError;

    fn requests<const N: usize>() -> [(Arc<RequestCell>, Reply); N] {
        let order = Arc::new(Order::default());
        std::array::from_fn(|_| {
            let cell = Arc::new(RequestCell::new(Some(order.enter())));
            (Arc::clone(&cell), Reply::new(cell))
        })
    }

    fn answered<const N: usize>(cells: [&Arc<RequestCell>; N]) -> [bool; N] {
        cells.map(|cell| cell.is_answered())
    }

    #[tokio::test]
    async fn an_early_answer_waits_for_those_before_it() {
        let [(first, one), (second, two), (third, three)] = requests();
        three.send(Err(BatchError::Stopped));
        two.send(Err(BatchError::Stopped));
        assert_eq!(answered([&first, &second, &third]), [false; 3]);
        one.send(Err(BatchError::Stopped));
        assert_eq!(answered([&first, &second, &third]), [true; 3]);
        assert!(matches!(third.signal().await, Signal::Done(Err(BatchError::Stopped))));
    }

    #[test]
    fn who_is_refused_leaves_or_is_lost_holds_nobody_up() {
        let [(first, one), (second, two), (third, three), (fourth, four), (fifth, five)] = requests();
        five.send(Err(BatchError::Stopped));
        two.refuse(BatchError::Expired);
        assert_eq!(answered([&first, &second, &fifth]), [false, true, false], "a refusal does not wait");
        one.discard();
        three.send(Err(BatchError::Stopped));
        assert_eq!(answered([&third, &fifth]), [true, false]);
        drop(four);
        assert_eq!(answered([&fourth, &fifth]), [true, true], "a lost answer is one");
    }

    #[test]
    fn an_answer_for_who_has_left_is_dropped() {
        let [(first, one), (second, two)] = requests();
        two.send(Err(BatchError::Stopped));
        first.leave();
        first.leave();
        assert_eq!(answered([&first, &second]), [false, true]);
        one.send(Err(BatchError::Stopped));
        assert_eq!(answered([&first]), [false]);
    }
}
