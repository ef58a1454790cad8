//! The warm instances of one generation, in one shard per serving thread: a thread takes from its own shard first, then
//! from another's. What is taken belongs to the taker; what comes back is put on top, so the least used instances sink
//! and grow old.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Instance;
use crate::runtime::Capacity;

/// Why an instance was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// It served as many calls as it may.
    Calls,
    /// Its memory had grown past what is kept.
    Memory,
    /// It was idle for too long.
    Idle,
    /// Another call needed its place.
    Evicted,
    /// Its generation was retired.
    Retired,
    /// Instances of its plugin serve one call each.
    Fresh,
    /// It trapped or broke the ABI.
    Crashed,
    /// Its time was over.
    TimedOut,
    /// Its caller left.
    Cancelled,
}

impl DropReason {
    /// Every reason, once.
    pub const ALL: [Self; 9] = [
        Self::Calls,
        Self::Memory,
        Self::Idle,
        Self::Evicted,
        Self::Retired,
        Self::Fresh,
        Self::Crashed,
        Self::TimedOut,
        Self::Cancelled,
    ];

    /// The stable name, as in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Memory => "memory",
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::Retired => "retired",
            Self::Fresh => "fresh",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Warm instances of one generation.
pub(crate) struct Pool {
    number: u64,
    shards: Box<[Mutex<VecDeque<Idle>>]>,
    capacity: Arc<Capacity<Instance>>,
    retired: AtomicBool,
    created: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
    in_use: AtomicUsize,
}

struct Idle {
    instance: Instance,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(number: u64, shards: usize, capacity: Arc<Capacity<Instance>>) -> Arc<Self> {
        Arc::new(Self {
            number,
            shards: (0..shards.max(1)).map(|_| Mutex::default()).collect(),
            capacity,
            retired: AtomicBool::new(false),
            created: AtomicU64::new(0),
            dropped: Default::default(),
            in_use: AtomicUsize::new(0),
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A warm instance: of this thread's shard, else of another's.
    pub(crate) fn take(&self) -> Option<Instance> {
        let own = self.own_shard();
        let order = (own..self.shards.len()).chain(0..own);
        order.into_iter().find_map(|shard| self.lock(shard).pop_back()).map(|idle| idle.instance)
    }

    /// Gives an instance back. The first in line gets it, or its room, where someone waits.
    pub(crate) fn put(&self, instance: Instance) {
        if self.retired.load(Ordering::SeqCst) {
            self.discard(instance, DropReason::Retired);
            return;
        }
        let Some(instance) = self.offer(instance) else { return };
        let shard = self.own_shard();
        self.lock(shard).push_back(Idle { instance, since: Instant::now() });
        // Whoever got in line, or retired the pool, before the instance lay there did not find it.
        if self.capacity.is_contended()
            && let Some(instance) = self.take().and_then(|instance| self.offer(instance))
        {
            self.lock(shard).push_back(Idle { instance, since: Instant::now() });
        }
        if self.retired.load(Ordering::SeqCst) {
            self.retire();
        }
    }

    fn offer(&self, instance: Instance) -> Option<Instance> {
        if !self.capacity.is_contended() {
            return Some(instance);
        }
        self.capacity.offer(self.number, instance, |instance| self.discard(instance, DropReason::Evicted))
    }

    pub(crate) fn discard(&self, instance: Instance, reason: DropReason) {
        drop(instance);
        self.count_drop(reason);
    }

    pub(crate) fn count_drop(&self, reason: DropReason) {
        self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_created(&self) {
        self.created.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_in_use(&self) -> InUse<'_> {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        InUse(&self.in_use)
    }

    /// When the instance that is idle for longest became so.
    pub(crate) fn oldest_idle(&self) -> Option<Instant> {
        (0..self.shards.len()).filter_map(|shard| self.lock(shard).front().map(|idle| idle.since)).min()
    }

    /// Drops the instance that is idle for longest; false where none is.
    pub(crate) fn evict_oldest(&self) -> bool {
        let oldest = (0..self.shards.len())
            .filter_map(|shard| self.lock(shard).front().map(|idle| (idle.since, shard)))
            .min_by_key(|&(since, _)| since);
        let Some(idle) = oldest.and_then(|(_, shard)| self.lock(shard).pop_front()) else { return false };
        self.discard(idle.instance, DropReason::Evicted);
        true
    }

    /// Drops what has been idle for `idle_max` at `now`.
    pub(crate) fn sweep(&self, now: Instant, idle_max: Duration) {
        for shard in 0..self.shards.len() {
            loop {
                let is_old = |idle: &mut Idle| now.saturating_duration_since(idle.since) >= idle_max;
                let Some(idle) = self.lock(shard).pop_front_if(is_old) else { break };
                self.discard(idle.instance, DropReason::Idle);
            }
        }
    }

    /// Drops all warm instances, and from now on each one that comes back.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
        for shard in 0..self.shards.len() {
            let idle = std::mem::take(&mut *self.lock(shard));
            for idle in idle {
                self.discard(idle.instance, DropReason::Retired);
            }
        }
    }

    /// Warm instances, instances in use, and instances created so far.
    pub(crate) fn counts(&self) -> (usize, usize, u64) {
        let warm = (0..self.shards.len()).map(|shard| self.lock(shard).len()).sum();
        (warm, self.in_use.load(Ordering::Relaxed), self.created.load(Ordering::Relaxed))
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Ordering::Relaxed)
    }

    fn own_shard(&self) -> usize {
        thread_number() % self.shards.len()
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, VecDeque<Idle>> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An instance is in use.
pub(crate) struct InUse<'a>(&'a AtomicUsize);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Numbers threads in the order in which they first ask, so that serving threads get shards of their own.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            own.set(Some(number));
            number
        })
    })
}
