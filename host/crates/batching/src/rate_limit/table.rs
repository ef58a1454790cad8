//! Who holds what, who waits, and whose turn it is: start-time fair queueing (Goyal, Vin and Cheng, 1996), in which a
//! chance costs a member its priority. Of members that always want to run, one of priority `n` so gets one `n`th of the
//! chances of one of priority 1; one that comes back after a while saves up nothing.
//!
//! Turns are kept: what the first in line needs is set aside for it, so that one that needs much is not starved by many
//! that need little. Others may pass that need nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{RateLimit, RateScope};

use super::RateLimitError;

/// Names a member. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberId(u64);

type PoolKey = (Arc<str>, RateScope);

/// See the module.
#[derive(Default)]
pub(super) struct Table {
    /// Configured totals, by name.
    totals: BTreeMap<Arc<str>, u32>,
    pools: BTreeMap<PoolKey, Pool>,
    members: BTreeMap<MemberId, Entry>,
    /// Who waits, in the order of their turns.
    waiting: BTreeSet<(Turn, MemberId)>,
    /// Virtual time: that of the last turn.
    clock: u64,
    next_member: u64,
    next_ask: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    total: u32,
    held: u32,
}

/// Virtual time, then the order of asking.
type Turn = (u64, u64);

struct Entry {
    needs: Vec<(PoolKey, u32)>,
    priority: u32,
    /// When its next turn is due.
    due: u64,
    waits: Option<Turn>,
    /// Permits out.
    permits: u32,
    has_left: bool,
}

impl Table {
    pub(super) fn new(totals: BTreeMap<Arc<str>, u32>) -> Self {
        Self { totals, ..Self::default() }
    }

    /// Name, scope, total and what is held, of every resource.
    pub(super) fn resources(&self) -> Vec<(Arc<str>, RateScope, u32, u32)> {
        let pools = self.pools.iter();
        pools.map(|((name, scope), pool)| (Arc::clone(name), *scope, pool.total, pool.held)).collect()
    }

    pub(super) fn join(&mut self, limit: &RateLimit) -> Result<MemberId, RateLimitError> {
        for resource in &limit.resources {
            let (name, need) = (&resource.name, resource.count.get());
            if let Some(&total) = self.totals.get(name).filter(|total| **total < need) {
                return Err(RateLimitError { name: Arc::clone(name), total, need });
            }
        }
        let id = MemberId(self.next_member);
        self.next_member += 1;
        let need =
            |resource: &model::RateResource| ((Arc::clone(&resource.name), resource.scope), resource.count.get());
        let needs: Vec<_> = limit.resources.iter().map(need).collect();
        let priority = limit.priority.get();
        let entry = Entry { needs, priority, due: self.clock, waits: None, permits: 0, has_left: false };
        self.members.insert(id, entry);
        self.count_totals();
        Ok(id)
    }

    /// Takes a member out; what it holds stays held until it is given back.
    pub(super) fn leave(&mut self, id: MemberId) {
        self.withdraw(id);
        if let Some(entry) = self.members.get_mut(&id) {
            entry.has_left = true;
        }
        self.remove_if_gone(id);
    }

    /// The member wants to run: whether it may at once. If not, it waits for [`grant`](Self::grant) to name it.
    pub(super) fn ask(&mut self, id: MemberId) -> bool {
        let Some(entry) = self.members.get_mut(&id) else { return false };
        if entry.waits.is_none() {
            let turn = (entry.due.max(self.clock), self.next_ask);
            self.next_ask += 1;
            entry.waits = Some(turn);
            self.waiting.insert((turn, id));
        }
        let mut free = self.free();
        let ahead = self.waiting.iter().take_while(|(_, other)| *other != id);
        ahead.for_each(|(_, other)| self.set_aside(&mut free, *other));
        let is_granted = self.fits(&free, id);
        if is_granted {
            self.take(id);
        }
        is_granted
    }

    /// The member wants to run no more.
    pub(super) fn withdraw(&mut self, id: MemberId) {
        if let Some(turn) = self.members.get_mut(&id).and_then(|entry| entry.waits.take()) {
            self.waiting.remove(&(turn, id));
        }
    }

    /// Gives what waiting members can have to them, and names them. To be called after every [`join`](Self::join),
    /// [`leave`](Self::leave), [`withdraw`](Self::withdraw) and [`give_back`](Self::give_back): each can leave something
    /// free that a waiting member needs.
    pub(super) fn grant(&mut self) -> Vec<MemberId> {
        let mut free = self.free();
        let mut granted = Vec::new();
        for &(_, id) in &self.waiting {
            if self.fits(&free, id) {
                granted.push(id);
            }
            self.set_aside(&mut free, id);
        }
        granted.iter().for_each(|&id| self.take(id));
        granted
    }

    /// A permit of the member has come back.
    pub(super) fn give_back(&mut self, id: MemberId) {
        let Some(entry) = self.members.get_mut(&id) else { return };
        entry.permits -= 1;
        for (key, need) in &entry.needs {
            if let Some(pool) = self.pools.get_mut(key) {
                pool.held -= need;
            }
        }
        self.remove_if_gone(id);
    }

    /// The member, which waits, gets a permit.
    fn take(&mut self, id: MemberId) {
        let Some(entry) = self.members.get_mut(&id) else { return };
        let Some(turn) = entry.waits.take() else { return };
        self.waiting.remove(&(turn, id));
        self.clock = self.clock.max(turn.0);
        entry.due = turn.0.saturating_add(entry.priority.into());
        entry.permits += 1;
        for (key, need) in &entry.needs {
            self.pools.entry(key.clone()).or_default().held += need;
        }
    }

    fn free(&self) -> BTreeMap<&PoolKey, u32> {
        self.pools.iter().map(|(key, pool)| (key, pool.total.saturating_sub(pool.held))).collect()
    }

    fn fits(&self, free: &BTreeMap<&PoolKey, u32>, id: MemberId) -> bool {
        let needs = self.members.get(&id).map_or(&[][..], |entry| &entry.needs);
        needs.iter().all(|(key, need)| free.get(key).is_some_and(|free| free >= need))
    }

    /// Takes what a member needs out of what is free, as far as there is any.
    fn set_aside(&self, free: &mut BTreeMap<&PoolKey, u32>, id: MemberId) {
        let needs = self.members.get(&id).map_or(&[][..], |entry| &entry.needs);
        for (key, need) in needs {
            if let Some(free) = free.get_mut(key) {
                *free = free.saturating_sub(*need);
            }
        }
    }

    fn remove_if_gone(&mut self, id: MemberId) {
        if self.members.get(&id).is_some_and(|entry| entry.has_left && entry.permits == 0) {
            self.members.remove(&id);
            self.count_totals();
        }
    }

    /// Brings the totals up to who is there; a resource that nobody needs is none.
    fn count_totals(&mut self) {
        let mut needed: BTreeMap<&PoolKey, u32> = BTreeMap::new();
        for (key, need) in self.members.values().flat_map(|entry| &entry.needs) {
            let most = needed.entry(key).or_default();
            *most = (*need).max(*most);
        }
        let pool = |(key, most): (&PoolKey, u32)| {
            let total = self.totals.get(&key.0).copied().unwrap_or(most);
            (key.clone(), Pool { total, held: self.pools.get(key).map_or(0, |pool| pool.held) })
        };
        self.pools = needed.into_iter().map(pool).collect();
    }
}

#[cfg(test)]
mod tests;
