//! How many instances may live, over all plugins. Each live instance holds one permit. Where none is left, calls wait in
//! one line, first come first served whatever their plugin, so that a busy plugin cannot keep another one out: the
//! instance that comes free goes to the first in line as it is, where it is of the same plugin, and makes room for a new
//! one otherwise.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The permits of all instances. `T` is an instance; it holds its permit.
pub(crate) struct Capacity<T> {
    line: Mutex<Line<T>>,
    waiting: AtomicUsize,
    total: usize,
    waiting_max: usize,
}

struct Line<T> {
    free: usize,
    waiting: VecDeque<Waiter<T>>,
}

struct Waiter<T> {
    pool: u64,
    grant: oneshot::Sender<Grant<T>>,
}

/// What a call in line gets.
pub(crate) enum Grant<T> {
    /// Room for a new instance.
    Permit(Permit<T>),
    /// An instance of its own plugin.
    Instance(T),
}

/// The right to have one instance. Dropping it lets the next in line have it.
pub(crate) struct Permit<T> {
    capacity: Arc<Capacity<T>>,
}

impl<T> Drop for Permit<T> {
    fn drop(&mut self) {
        self.capacity.give_back();
    }
}

/// The line is as long as it may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineFull;

impl<T> Capacity<T> {
    pub(crate) fn new(total: usize, waiting_max: usize) -> Arc<Self> {
        let line = Mutex::new(Line { free: total, waiting: VecDeque::new() });
        Arc::new(Self { line, waiting: AtomicUsize::new(0), total, waiting_max })
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn waiting_max(&self) -> usize {
        self.waiting_max
    }

    /// Permits in use and calls in line.
    pub(crate) fn in_use_and_waiting(&self) -> (usize, usize) {
        let line = self.lock();
        (self.total - line.free, line.waiting.iter().filter(|waiter| !waiter.grant.is_closed()).count())
    }

    pub(crate) fn try_permit(self: &Arc<Self>) -> Option<Permit<T>> {
        let mut line = self.lock();
        line.free = line.free.checked_sub(1)?;
        Some(Permit { capacity: Arc::clone(self) })
    }

    /// Gets in line for `pool`.
    pub(crate) fn wait(self: &Arc<Self>, pool: u64) -> Result<oneshot::Receiver<Grant<T>>, LineFull> {
        let (grant, granted) = oneshot::channel();
        let mut line = self.lock();
        if let Some(free) = line.free.checked_sub(1) {
            line.free = free;
            // The receiver is alive, so nothing comes back.
            let _ = grant.send(Grant::Permit(Permit { capacity: Arc::clone(self) }));
            return Ok(granted);
        }
        if line.waiting.len() >= self.waiting_max {
            line.waiting.retain(|waiter| !waiter.grant.is_closed());
        }
        let full = line.waiting.len() >= self.waiting_max;
        if !full {
            line.waiting.push_back(Waiter { pool, grant });
        }
        self.waiting.store(line.waiting.len(), Ordering::SeqCst);
        if full { Err(LineFull) } else { Ok(granted) }
    }

    /// Whether someone may be in line; cheap.
    pub(crate) fn is_contended(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Offers an instance of `pool` that came free to the first in line. Returns it where nobody waits. `drop_instance`
    /// frees an instance that the first in line cannot use; its permit then goes down the line by itself.
    pub(crate) fn offer(&self, pool: u64, mut instance: T, drop_instance: impl FnOnce(T)) -> Option<T> {
        loop {
            let Some(waiter) = self.next_in_line(|waiter| waiter.pool == pool) else {
                return Some(instance);
            };
            match waiter {
                Next::Other => {
                    drop_instance(instance);
                    return None;
                }
                Next::Own(waiter) => match waiter.grant.send(Grant::Instance(instance)) {
                    Ok(()) => return None,
                    Err(Grant::Instance(back)) => instance = back,
                    Err(Grant::Permit(_)) => return None,
                },
            }
        }
    }

    /// The first in line, taken out where `own` holds for it.
    fn next_in_line(&self, own: impl Fn(&Waiter<T>) -> bool) -> Option<Next<T>> {
        let mut line = self.lock();
        while line.waiting.front().is_some_and(|waiter| waiter.grant.is_closed()) {
            line.waiting.pop_front();
        }
        let is_own = line.waiting.front().map(own);
        let next = match is_own {
            None => None,
            Some(false) => Some(Next::Other),
            Some(true) => line.waiting.pop_front().map(Next::Own),
        };
        self.waiting.store(line.waiting.len(), Ordering::SeqCst);
        next
    }

    fn give_back(self: &Arc<Self>) {
        let waiter = {
            let mut line = self.lock();
            let waiter = loop {
                match line.waiting.pop_front() {
                    Some(waiter) if waiter.grant.is_closed() => {}
                    other => break other,
                }
            };
            self.waiting.store(line.waiting.len(), Ordering::SeqCst);
            if waiter.is_none() {
                line.free += 1;
            }
            waiter
        };
        if let Some(waiter) = waiter {
            // A waiter that left in this moment drops the permit, which comes back here.
            let _ = waiter.grant.send(Grant::Permit(Permit { capacity: Arc::clone(self) }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Next<T> {
    Own(Waiter<T>),
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Instance {
        number: u32,
        _permit: Permit<Self>,
    }

    fn capacity(total: usize) -> Arc<Capacity<Instance>> {
        Capacity::new(total, 2)
    }

    fn instance(capacity: &Arc<Capacity<Instance>>, number: u32) -> Instance {
        Instance { number, _permit: capacity.try_permit().expect("a permit is free") }
    }

    #[test]
    fn an_instance_goes_to_the_first_in_line_of_its_own_pool() {
        let capacity = capacity(1);
        let used = instance(&capacity, 7);
        let mut granted = capacity.wait(1).expect("room in line");
        assert!(capacity.is_contended());
        assert!(capacity.offer(1, used, drop).is_none());
        assert!(matches!(granted.try_recv(), Ok(Grant::Instance(Instance { number: 7, .. }))));
        assert_eq!(capacity.in_use_and_waiting(), (0, 0), "a grant nobody kept is given back");
    }

    #[test]
    fn an_instance_of_another_pool_makes_room() {
        let capacity = capacity(1);
        let used = instance(&capacity, 7);
        let mut granted = capacity.wait(2).expect("room in line");
        assert!(capacity.offer(1, used, drop).is_none());
        assert!(matches!(granted.try_recv(), Ok(Grant::Permit(_))));
    }

    #[test]
    fn who_left_the_line_gets_nothing() {
        let capacity = capacity(1);
        let used = instance(&capacity, 7);
        drop(capacity.wait(1).expect("room in line"));
        let mut second = capacity.wait(1).expect("room in line");
        drop(used);
        assert!(matches!(second.try_recv(), Ok(Grant::Permit(_))));
        drop(second);
        assert_eq!(capacity.in_use_and_waiting(), (0, 0));
        assert!(capacity.offer(1, instance(&capacity, 8), drop).is_some(), "nobody waits");
    }

    #[test]
    fn the_line_is_bounded() {
        let capacity = capacity(1);
        let _used = instance(&capacity, 7);
        let first = capacity.wait(1).expect("room in line");
        let _second = capacity.wait(1).expect("room in line");
        assert!(matches!(capacity.wait(1), Err(LineFull)));
        drop(first);
        assert!(capacity.wait(1).is_ok(), "who left makes room");
    }
}
