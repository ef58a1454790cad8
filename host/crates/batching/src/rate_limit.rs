//! Resources that the instances of all models share (Triton's rate limiter, `--rate-limit=execution_count`): an instance
//! runs a batch only while it holds what its group names, and where resources are scarce, instances take turns by their
//! priorities. The [`Table`] decides and knows neither threads nor models; the [`RateLimiter`] around it hands out
//! [`Permit`]s.
//!
//! Nobody blocks: who does not get a permit at once is handed one later, on the thread that made it possible (it gave
//! resources back, stopped asking, left, or came and raised a total), and may give it back unused. The limiter's lock is a
//! leaf: nothing is called while it is held, and permits are given back and handed out while no batcher's lock is.

mod gate;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{RateLimit, RateScope};

pub(crate) use gate::{Gate, Leftover};
use table::{MemberId, Table};

/// The resources of the process and who holds them. Clones share them.
#[derive(Clone, Default)]
pub struct RateLimiter {
    shared: Arc<Mutex<Limiter>>,
}

#[derive(Default)]
struct Limiter {
    table: Table,
    /// How to hand a permit to whom it was not given at once.
    deliveries: BTreeMap<MemberId, Delivery>,
    /// Who is to be handed one, in order.
    granted: VecDeque<MemberId>,
    /// Whether a thread is at it. It hands out what comes meanwhile too, so that no delivery begins inside another.
    is_delivering: bool,
}

/// Takes a permit. Called without any lock, on the thread of whoever gave the resources back.
pub(crate) type Delivery = Arc<dyn Fn(Permit) + Send + Sync>;

/// An instance needs more of a resource than there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "resource '{name}' is limited to {total} and an instance needs {need}; raise it with --rate-limit-resource, or lower \
     the count in rate_limiter"
)]
pub struct RateLimitError {
    /// The resource.
    pub name: Arc<str>,
    /// How much of it there is.
    pub total: u32,
    /// How much of it the instance needs.
    pub need: u32,
}

impl RateLimiter {
    /// With totals for some resources, by name; they hold for each scope. A resource without one has as much as its
    /// neediest instance needs.
    #[must_use]
    pub fn new(totals: BTreeMap<Arc<str>, NonZeroU32>) -> Self {
        let table = Table::new(totals.into_iter().map(|(name, total)| (name, total.get())).collect());
        Self { shared: Arc::new(Mutex::new(Limiter { table, ..Limiter::default() })) }
    }

    /// Every resource: name, scope, how much of it there is and how much is held.
    #[must_use]
    pub fn resources(&self) -> Vec<(Arc<str>, RateScope, u32, u32)> {
        self.lock().table.resources()
    }

    /// Takes an instance in.
    ///
    /// # Errors
    /// [`RateLimitError`] when it could never run.
    pub(crate) fn join(&self, limit: &RateLimit, delivery: Delivery) -> Result<Member, RateLimitError> {
        let (id, handout) = {
            let mut limiter = self.lock();
            let id = limiter.table.join(limit)?;
            limiter.deliveries.insert(id, delivery);
            (id, self.grant(&mut limiter))
        };
        // It may need more of a resource than anybody before, so that there is more of it now.
        drop(handout);
        Ok(Member { limiter: self.clone(), id })
    }

    /// Gives a member's resources back, then hands out the permits that this has made possible.
    fn give_back(&self, id: MemberId) {
        let handout = {
            let mut limiter = self.lock();
            limiter.table.give_back(id);
            self.grant(&mut limiter)
        };
        drop(handout);
    }

    /// Sets aside what waiting members can have now. To be called after whatever can make that more.
    fn grant(&self, limiter: &mut Limiter) -> Option<Handout> {
        let granted = limiter.table.grant();
        limiter.granted.extend(granted);
        (!limiter.granted.is_empty()).then(|| Handout { limiter: self.clone() })
    }

    /// Delivers what has been granted, unless a thread is at it.
    fn hand_out(&self) {
        let is_delivering = std::mem::replace(&mut self.lock().is_delivering, true);
        while !is_delivering && let Some((id, delivery)) = self.next_delivery() {
            let permit = Permit { limiter: self.clone(), id };
            match delivery {
                Some(deliver) => deliver(permit),
                // The member has left since.
                None => drop(permit),
            }
        }
    }

    fn next_delivery(&self) -> Option<(MemberId, Option<Delivery>)> {
        let mut limiter = self.lock();
        let next = limiter.granted.pop_front();
        limiter.is_delivering = next.is_some();
        next.map(|id| (id, limiter.deliveries.get(&id).cloned()))
    }

    fn lock(&self) -> MutexGuard<'_, Limiter> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An instance among those that share resources; dropping it takes it out. What it holds it gives back by its permits.
/// Drop it while no batcher's lock is held.
pub(crate) struct Member {
    limiter: RateLimiter,
    id: MemberId,
}

impl Member {
    /// Asks for a permit: now, or delivered later. To ask again before it comes changes nothing.
    pub(crate) fn ask(&self) -> Option<Permit> {
        let is_granted = self.limiter.lock().table.ask(self.id);
        is_granted.then(|| Permit { limiter: self.limiter.clone(), id: self.id })
    }

    /// Asks no more; what was set aside for it is others' now.
    pub(crate) fn withdraw(&self) -> Option<Handout> {
        let mut limiter = self.limiter.lock();
        limiter.table.withdraw(self.id);
        self.limiter.grant(&mut limiter)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut limiter = self.limiter.lock();
        limiter.table.leave(self.id);
        let delivery = limiter.deliveries.remove(&self.id);
        let handout = self.limiter.grant(&mut limiter);
        drop(limiter);
        drop((delivery, handout));
    }
}

/// Permits that have been granted and are to be delivered, which dropping it does; drop it while no batcher's lock is held.
#[must_use]
pub(crate) struct Handout {
    limiter: RateLimiter,
}

impl Drop for Handout {
    fn drop(&mut self) {
        self.limiter.hand_out();
    }
}

/// The right to run one batch. Dropping it gives the resources back; drop it while no batcher's lock is held.
pub(crate) struct Permit {
    limiter: RateLimiter,
    id: MemberId,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.give_back(self.id);
    }
}

#[cfg(test)]
mod tests;
