//! The waiting requests of one model version. The queue owns them from push to take; time comes in as `now`, nothing
//! blocks and no clock is read. A request that is larger than a batch waits in pieces and counts as one.
//!
//! Requests of one shape form a lane, and a batch is the head of one lane: of the lane whose first request goes before
//! all others. That is the one that came first; with levels, the first of the most urgent level; and where timeouts
//! delay, in a level one that has not timed out, while there is any. A batch with room left takes from its lane what
//! comes next, of less urgent levels too.
//!
//! Where a delay is configured, batches wait for the oldest request's to be over, whatever its level, or for a lane that
//! is full. A full lane goes before the foremost request only where both are of one level and delay state.
//!
//! So nobody starves inside a level. A level starves while more urgent ones keep every instance busy, and a request that
//! a timeout has delayed while others of its level that have not timed out do: that is what levels and such timeouts are
//! asked for. A lane lives only while it has requests, so memory is bounded by `max_queue_size`, level by level.

mod arrival;
mod lane;
mod ranking;

use std::collections::btree_map;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use model::Moment;

pub use arrival::{Arrival, Batch, Piece, QueueIsFull, ShapeKey, Taken, Ticket};
use lane::Lane;
use ranking::{Place, Rank, Ranking};

use crate::decision::{BatchRules, Decision, Delay};

struct Entry<T> {
    key: ShapeKey,
    rank: Rank,
    enqueued: Moment,
    deadline: Option<Moment>,
    piece: Piece<T>,
    /// What few requests have: entries are moved about, so they are kept small.
    extras: Option<Box<Extras<T>>>,
}

struct Extras<T> {
    postpone: Option<Moment>,
    rest: VecDeque<Piece<T>>,
}

impl<T> Entry<T> {
    fn place(&self, ticket: Ticket) -> Place {
        Place { rank: self.rank, ticket }
    }

    fn postpone(&self) -> Option<Moment> {
        self.extras.as_ref().and_then(|extras| extras.postpone)
    }

    /// Rows of each piece that still waits.
    fn rows(&self) -> impl Iterator<Item = u64> {
        let rest = self.extras.iter().flat_map(|extras| &extras.rest);
        std::iter::once(self.piece.rows).chain(rest.map(|piece| piece.rows))
    }

    fn total_rows(&self) -> u64 {
        let rest = self.extras.as_ref().map(|extras| extras.rest.iter().map(|piece| piece.rows).sum::<u64>());
        self.piece.rows + rest.unwrap_or(0)
    }

    /// The next piece, unless it is the last.
    fn pop(&mut self) -> Option<Piece<T>> {
        let next = self.extras.as_mut()?.rest.pop_front()?;
        Some(std::mem::replace(&mut self.piece, next))
    }
}

/// See the module.
pub struct BatchQueue<T> {
    rules: BatchRules,
    entries: BTreeMap<Ticket, Entry<T>>,
    lanes: HashMap<ShapeKey, Lane>,
    /// Lanes that are ready before their delay is over, by head. Kept only where a delay is configured.
    full: BTreeMap<Place, ShapeKey>,
    deadlines: BTreeSet<(Moment, Ticket)>,
    /// `None` where requests go in the order of their arrival.
    ranking: Option<Ranking>,
    rows: u64,
    next_ticket: u64,
    latest: Moment,
}

impl<T> BatchQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(rules: BatchRules) -> Self {
        Self {
            entries: BTreeMap::new(),
            lanes: HashMap::new(),
            full: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ranking: rules.ranks().then(Ranking::default),
            rules,
            rows: 0,
            next_ticket: 0,
            latest: Moment::ORIGIN,
        }
    }

    /// Appends a request to those of its level. A `now` before an earlier call's counts as that one: threads read their
    /// clocks before they come here.
    ///
    /// # Errors
    /// [`QueueIsFull`] with the request when as many requests of its level wait as its `max_queue_size` allows.
    pub fn push(&mut self, now: Moment, arrival: Arrival<T>) -> Result<Ticket, QueueIsFull<T>> {
        let Arrival { key, level, rows, deadline, postpone, item, rest } = arrival;
        if self.is_full(level) {
            return Err(QueueIsFull(item));
        }
        self.latest = self.latest.max(now);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let (rank, postpone) = match self.ranking {
            Some(_) => (Rank { level, is_postponed: false }, postpone),
            None => (Rank::default(), None),
        };
        let has_extras = postpone.is_some() || !rest.is_empty();
        let extras = has_extras.then(|| Box::new(Extras { postpone, rest: rest.into() }));
        let entry = Entry { key, rank, enqueued: self.latest, deadline, piece: Piece { rows, item }, extras };
        self.list(ticket, &entry);
        self.entries.insert(ticket, entry);
        Ok(ticket)
    }

    /// What to do now. Deadlines and postponements are not looked at: [`take`](Self::take) hands back what has expired
    /// and moves what is to be postponed.
    #[must_use]
    pub fn decide(&self, now: Moment) -> Decision {
        let Some(oldest) = self.entries.values().next() else { return Decision::Empty };
        let due = oldest.enqueued.after(self.rules.max_delay());
        if due <= now || !self.waits() || !self.full.is_empty() { Decision::Run } else { Decision::WaitUntil(due) }
    }

    /// Removes what has expired and, where [`decide`](Self::decide) says so of the rest, the next batch.
    pub fn take(&mut self, now: Moment) -> Batch<T> {
        let expired = self.expire(now);
        let mut batch = Batch { requests: Vec::new(), rows: 0, expired };
        let Some((key, delay)) = self.ready_lane(now) else { return batch };
        let mut lane = self.lanes.remove(&key).expect("an entry's lane exists while the entry waits");
        let count = lane.survey(&self.rules).requests(delay);
        batch.requests.reserve_exact(count);
        for _ in 0..count {
            let ticket = lane.pop().expect("the survey counted no more than there are");
            let taken = self.take_piece(ticket).expect("a lane holds only waiting tickets");
            batch.rows += taken.rows;
            batch.requests.push(taken);
        }
        mark_full(&mut self.full, &self.rules, &key, &mut lane);
        if lane.head().is_some() {
            self.lanes.insert(key, lane);
        }
        batch
    }

    /// Removes a request that nobody waits for any more and returns it, or the first of its pieces that still wait;
    /// `None` when it has left already.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let entry = self.entries.remove(&ticket)?;
        self.unlist(ticket, &entry);
        if let Some(lane) = self.lanes.get_mut(&entry.key) {
            lane.remove(entry.place(ticket));
        }
        self.refresh(&entry.key);
        Some(entry.piece.item)
    }

    /// Removes the requests whose deadline is `now` or earlier and returns each as [`remove`](Self::remove) does,
    /// earliest first; moves back those that are to be postponed by now.
    pub fn expire(&mut self, now: Moment) -> Vec<T> {
        let mut expired = Vec::new();
        while let Some(&(deadline, ticket)) = self.deadlines.first()
            && deadline <= now
        {
            expired.extend(self.remove(ticket));
        }
        while let Some(ticket) = self.ranking.as_mut().and_then(|ranking| ranking.pop_postponement(now)) {
            self.postpone(ticket);
        }
        expired
    }

    /// The earliest deadline or postponement of a waiting request: when to call [`expire`](Self::expire) next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let postponement = self.ranking.as_ref().and_then(Ranking::next_postponement);
        self.deadlines.first().map(|&(deadline, _)| deadline).into_iter().chain(postponement).min()
    }

    /// The request that has waited longest.
    #[must_use]
    pub fn oldest(&self) -> Option<(Ticket, &T)> {
        self.entries.first_key_value().map(|(&ticket, entry)| (ticket, &entry.piece.item))
    }

    /// Whether the request still waits.
    #[must_use]
    pub fn contains(&self, ticket: Ticket) -> bool {
        self.entries.contains_key(&ticket)
    }

    /// From now on nobody waits for others to come.
    pub fn stop_waiting(&mut self) {
        self.rules.stop_waiting();
        self.full.clear();
        self.lanes.values_mut().for_each(|lane| lane.full_head = None);
    }

    /// Waiting requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Waiting requests of each level in which some wait; empty where the model has no levels.
    #[must_use]
    pub fn len_by_level(&self) -> BTreeMap<u32, usize> {
        let ranking = self.ranking.as_ref().filter(|_| self.rules.has_levels());
        ranking.map(|ranking| ranking.waiting().clone()).unwrap_or_default()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the next push to this level is refused.
    #[must_use]
    pub fn is_full(&self, level: u32) -> bool {
        let waiting = self.ranking.as_ref().map_or(self.entries.len(), |ranking| ranking.count(level));
        waiting >= self.rules.max_requests(level).get()
    }

    /// Rows of the waiting requests.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Different shapes waiting.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &BatchRules {
        &self.rules
    }

    fn waits(&self) -> bool {
        !self.rules.max_delay().is_zero()
    }

    /// The request that goes before all others.
    fn front(&self) -> Option<&Entry<T>> {
        match &self.ranking {
            None => self.entries.values().next(),
            Some(ranking) => self.entries.get(&ranking.front()?.ticket),
        }
    }

    /// The lane to serve: the front's once the oldest request's delay is over, else the full lane with the foremost
    /// head, unless that one is of another rank than the front: then the front goes before it at once.
    fn ready_lane(&self, now: Moment) -> Option<(ShapeKey, Delay)> {
        let front = self.front()?;
        if !self.waits() {
            return Some((front.key.clone(), Delay::Running));
        }
        if matches!(self.entries.values().next(), Some(oldest) if oldest.enqueued.after(self.rules.max_delay()) <= now)
        {
            return Some((front.key.clone(), Delay::Over));
        }
        let (head, key) = self.full.first_key_value()?;
        let key = if head.rank == front.rank { key } else { &front.key };
        Some((key.clone(), Delay::Running))
    }

    /// Takes the next piece of a request that has left its lane.
    fn take_piece(&mut self, ticket: Ticket) -> Option<Taken<T>> {
        let btree_map::Entry::Occupied(mut occupied) = self.entries.entry(ticket) else { return None };
        let enqueued = occupied.get().enqueued;
        let Piece { rows, item } = match occupied.get_mut().pop() {
            Some(piece) => {
                self.rows -= piece.rows;
                piece
            }
            None => {
                let entry = occupied.remove();
                self.unlist(ticket, &entry);
                entry.piece
            }
        };
        Some(Taken { ticket, item, rows, enqueued })
    }

    /// Enters a request everywhere but among the entries.
    fn list(&mut self, ticket: Ticket, entry: &Entry<T>) {
        self.rows += entry.total_rows();
        if let Some(deadline) = entry.deadline {
            self.deadlines.insert((deadline, ticket));
        }
        let mut empty_lane: fn() -> Lane = Lane::in_order_of_arrival;
        if let Some(ranking) = &mut self.ranking {
            ranking.enter(entry.place(ticket), entry.postpone());
            empty_lane = Lane::ranked;
        }
        let lane = self.lanes.entry(entry.key.clone()).or_insert_with(empty_lane);
        lane.push(entry.place(ticket), entry.rows());
        mark_full(&mut self.full, &self.rules, &entry.key, lane);
    }

    /// Takes a request that is no entry any more out of everything but its lane.
    fn unlist(&mut self, ticket: Ticket, entry: &Entry<T>) {
        self.rows -= entry.total_rows();
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        if let Some(ranking) = &mut self.ranking {
            ranking.leave(entry.place(ticket), entry.postpone());
        }
    }

    /// Moves a request behind those of its level that have not been moved so.
    fn postpone(&mut self, ticket: Ticket) {
        let (Some(entry), Some(ranking)) = (self.entries.get_mut(&ticket), &mut self.ranking) else { return };
        let from = entry.place(ticket);
        if let Some(extras) = &mut entry.extras {
            extras.postpone = None;
        }
        entry.rank.is_postponed = true;
        let to = entry.place(ticket);
        ranking.leave(from, None);
        ranking.enter(to, None);
        if let Some(lane) = self.lanes.get_mut(&entry.key) {
            lane.remove(from);
            lane.push(to, entry.rows());
        }
        let key = entry.key.clone();
        self.refresh(&key);
    }

    /// Brings what is known of a lane up to date after it changed; drops it when it is empty.
    fn refresh(&mut self, key: &ShapeKey) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        mark_full(&mut self.full, &self.rules, key, lane);
        if lane.head().is_none() {
            self.lanes.remove(key);
        }
    }
}

/// Enters a lane among the full ones, or takes it out, as it is now.
fn mark_full(full: &mut BTreeMap<Place, ShapeKey>, rules: &BatchRules, key: &ShapeKey, lane: &mut Lane) {
    if let Some(head) = lane.full_head.take() {
        full.remove(&head);
    }
    let is_full = !rules.max_delay().is_zero() && lane.survey(rules).is_full();
    lane.full_head = lane.head().filter(|_| is_full);
    full.extend(lane.full_head.map(|head| (head, key.clone())));
}

#[cfg(test)]
mod tests;
