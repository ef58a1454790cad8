//! The waiting requests of one model version. The queue owns them from push to take; time comes in as `now`, nothing
//! blocks and no clock is read. Requests of one shape form a lane, in arrival order; the lane of the oldest request goes
//! first, so nobody starves. A lane lives only while it has requests, so memory is bounded by `max_queue_size`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use model::Moment;

use crate::decision::{BatchRules, Decision, Delay};

/// What two requests must share to run in one batch: every dimension but the batch's that the signature leaves free.
/// Types, ranks and fixed dimensions are equal anyway for requests that passed the signature's check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShapeKey(Option<Arc<[u64]>>);

impl ShapeKey {
    /// The key of these dimensions, in a fixed order. No dimension: no allocation.
    #[must_use]
    pub fn new(dimensions: &[u64]) -> Self {
        Self((!dimensions.is_empty()).then(|| dimensions.into()))
    }
}

/// Names a waiting request. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// A request on its way into the queue.
#[derive(Clone, Debug)]
pub struct Arrival<T> {
    /// What it must share with others to run with them.
    pub key: ShapeKey,
    /// Its rows, from 1 to the model's `max_batch_size` (1 where the model does not batch).
    pub rows: u64,
    /// When it is no longer worth running.
    pub deadline: Option<Moment>,
    /// The request.
    pub item: T,
}

/// `max_queue_size` requests wait already; the request comes back.
#[derive(Debug)]
pub struct QueueIsFull<T>(pub T);

/// Requests that left the queue together.
#[derive(Debug)]
pub struct Batch<T> {
    /// The batch in arrival order; empty when none is ready.
    pub requests: Vec<Taken<T>>,
    /// Rows of all of them.
    pub rows: u64,
    /// Requests whose deadline passed, to be answered so; they are not part of the batch.
    pub expired: Vec<T>,
}

/// A request of a [`Batch`].
#[derive(Debug)]
pub struct Taken<T> {
    /// The request.
    pub item: T,
    /// Its rows.
    pub rows: u64,
    /// When it came.
    pub enqueued: Moment,
}

struct Entry<T> {
    key: ShapeKey,
    rows: u64,
    enqueued: Moment,
    deadline: Option<Moment>,
    item: T,
}

#[derive(Default)]
struct Lane {
    /// Ticket and rows of each request.
    waiting: VecDeque<(Ticket, u64)>,
    /// The head under which the lane stands in `BatchQueue::full`.
    full_head: Option<Ticket>,
}

/// See the module.
pub struct BatchQueue<T> {
    rules: BatchRules,
    entries: BTreeMap<Ticket, Entry<T>>,
    lanes: HashMap<ShapeKey, Lane>,
    /// Lanes that are ready before their delay is over, by head. Kept only where a delay is configured.
    full: BTreeMap<Ticket, ShapeKey>,
    deadlines: BTreeSet<(Moment, Ticket)>,
    rows: u64,
    next_ticket: u64,
    latest: Moment,
}

impl<T> BatchQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(rules: BatchRules) -> Self {
        Self {
            rules,
            entries: BTreeMap::new(),
            lanes: HashMap::new(),
            full: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            rows: 0,
            next_ticket: 0,
            latest: Moment::ORIGIN,
        }
    }

    /// Appends a request. A `now` before an earlier call's counts as that one: threads read their clocks before they
    /// come here.
    ///
    /// # Errors
    /// [`QueueIsFull`] with the request when `max_queue_size` requests wait.
    pub fn push(&mut self, now: Moment, arrival: Arrival<T>) -> Result<Ticket, QueueIsFull<T>> {
        if self.is_full() {
            return Err(QueueIsFull(arrival.item));
        }
        let Arrival { key, rows, deadline, item } = arrival;
        self.latest = self.latest.max(now);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.rows += rows;
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, ticket));
        }
        self.lanes.entry(key.clone()).or_default().waiting.push_back((ticket, rows));
        self.refresh(&key);
        self.entries.insert(ticket, Entry { key, rows, enqueued: self.latest, deadline, item });
        Ok(ticket)
    }

    /// What to do now. Deadlines are not looked at: [`take`](Self::take) hands back what has expired.
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
        let lane = self.lanes.get_mut(&key).expect("an entry's lane exists while the entry waits");
        let mut waiting = std::mem::take(&mut lane.waiting);
        let count = self.rules.survey(waiting.iter().map(|&(_, rows)| rows)).requests(delay);
        batch.requests.reserve_exact(count);
        for (ticket, _) in waiting.drain(..count) {
            let entry = self.forget(ticket).expect("a lane holds only waiting tickets");
            batch.rows += entry.rows;
            batch.requests.push(Taken { item: entry.item, rows: entry.rows, enqueued: entry.enqueued });
        }
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.waiting = waiting;
        }
        self.refresh(&key);
        batch
    }

    /// Removes a request that nobody waits for any more; `None` when it has left already.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let entry = self.forget(ticket)?;
        if let Some(lane) = self.lanes.get_mut(&entry.key)
            && let Ok(position) = lane.waiting.binary_search_by_key(&ticket, |&(ticket, _)| ticket)
        {
            lane.waiting.remove(position);
        }
        self.refresh(&entry.key);
        Some(entry.item)
    }

    /// Removes and returns the requests whose deadline is `now` or earlier, earliest first.
    pub fn expire(&mut self, now: Moment) -> Vec<T> {
        let mut expired = Vec::new();
        while let Some(&(deadline, ticket)) = self.deadlines.first()
            && deadline <= now
        {
            expired.extend(self.remove(ticket));
        }
        expired
    }

    /// The earliest deadline of a waiting request: when to call [`expire`](Self::expire) next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The request that has waited longest.
    #[must_use]
    pub fn oldest(&self) -> Option<(Ticket, &T)> {
        self.entries.first_key_value().map(|(&ticket, entry)| (ticket, &entry.item))
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

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the next push is refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.rules.max_requests().get()
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

    /// The lane to serve: the oldest request's once its delay is over, else the full lane with the oldest head.
    fn ready_lane(&self, now: Moment) -> Option<(ShapeKey, Delay)> {
        let oldest = self.entries.values().next()?;
        if !self.waits() {
            return Some((oldest.key.clone(), Delay::Running));
        }
        if oldest.enqueued.after(self.rules.max_delay()) <= now {
            return Some((oldest.key.clone(), Delay::Over));
        }
        self.full.values().next().map(|key| (key.clone(), Delay::Running))
    }

    /// Takes a request out of everything but its lane.
    fn forget(&mut self, ticket: Ticket) -> Option<Entry<T>> {
        let entry = self.entries.remove(&ticket)?;
        self.rows -= entry.rows;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        Some(entry)
    }

    /// Brings what is known of a lane up to date after it changed; drops it when it is empty.
    fn refresh(&mut self, key: &ShapeKey) {
        let waits = self.waits();
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if let Some(head) = lane.full_head.take() {
            self.full.remove(&head);
        }
        let Some(&(head, _)) = lane.waiting.front() else {
            self.lanes.remove(key);
            return;
        };
        if waits && self.rules.survey(lane.waiting.iter().map(|&(_, rows)| rows)).is_full() {
            lane.full_head = Some(head);
            self.full.insert(head, key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use model::{BatchingConfig, QueuePolicy};

    use super::*;

    fn at(micros: u64) -> Moment {
        Moment::from_origin(Duration::from_micros(micros))
    }

    fn queue(max_batch_size: u32, delay_us: u64, preferred: &[u32]) -> BatchQueue<u32> {
        let config = BatchingConfig {
            is_dynamic: true,
            preferred_batch_sizes: preferred.to_vec(),
            max_queue_delay: Duration::from_micros(delay_us),
            queue: QueuePolicy { max_queue_size: NonZeroUsize::new(16).expect("16"), default_timeout: None },
        };
        BatchQueue::new(BatchRules::new(max_batch_size, &config))
    }

    fn arrival(shape: u64, rows: u64, item: u32) -> Arrival<u32> {
        Arrival { key: ShapeKey::new(&[shape]), rows, deadline: None, item }
    }

    fn items(batch: Batch<u32>) -> Vec<u32> {
        batch.requests.into_iter().map(|taken| taken.item).collect()
    }

    #[test]
    fn the_lane_of_the_oldest_request_goes_first_and_shapes_never_mix() {
        let mut queue = queue(8, 0, &[]);
        for (shape, item) in [(1, 10), (2, 20), (1, 11), (3, 30), (2, 21)] {
            queue.push(at(0), arrival(shape, 1, item)).expect("room");
        }
        assert_eq!(queue.lanes(), 3);
        assert_eq!(items(queue.take(at(0))), [10, 11]);
        assert_eq!(items(queue.take(at(0))), [20, 21]);
        assert_eq!(items(queue.take(at(0))), [30]);
        assert_eq!((queue.decide(at(0)), queue.lanes(), queue.rows()), (Decision::Empty, 0, 0));
    }

    #[test]
    fn a_delay_holds_a_batch_until_it_is_over_or_the_batch_is_full() {
        let mut queue = queue(4, 100, &[]);
        queue.push(at(10), arrival(1, 1, 1)).expect("room");
        queue.push(at(60), arrival(1, 1, 2)).expect("room");
        assert_eq!(queue.decide(at(109)), Decision::WaitUntil(at(110)));
        assert!(queue.take(at(109)).requests.is_empty(), "not ready");
        assert_eq!(items(queue.take(at(110))), [1, 2]);

        queue.push(at(200), arrival(1, 3, 3)).expect("room");
        queue.push(at(201), arrival(2, 4, 4)).expect("room");
        assert_eq!(queue.decide(at(201)), Decision::Run, "the second lane is full");
        assert_eq!(items(queue.take(at(201))), [4]);
        assert_eq!(queue.decide(at(201)), Decision::WaitUntil(at(300)));
        queue.push(at(202), arrival(1, 2, 5)).expect("room");
        assert_eq!(items(queue.take(at(202))), [3], "the next one does not fit, so waiting is pointless");
        assert_eq!(queue.decide(at(202)), Decision::WaitUntil(at(302)));
    }

    #[test]
    fn removing_a_request_can_make_the_rest_ready() {
        let mut queue = queue(8, 100, &[4]);
        let first = queue.push(at(0), arrival(1, 3, 1)).expect("room");
        queue.push(at(0), arrival(1, 4, 2)).expect("room");
        assert_eq!(queue.decide(at(0)), Decision::Run, "7 rows are past the largest preferred size");
        queue.push(at(0), arrival(2, 1, 3)).expect("room");
        assert_eq!(queue.remove(first), Some(1));
        assert_eq!(queue.remove(first), None);
        assert_eq!(items(queue.take(at(0))), [2]);
        assert_eq!(queue.decide(at(0)), Decision::WaitUntil(at(100)));
    }

    #[test]
    fn a_model_that_does_not_batch_runs_requests_one_by_one_without_delay() {
        let mut queue = queue(0, 100, &[]);
        queue.push(at(0), arrival(1, 1, 1)).expect("room");
        queue.push(at(0), arrival(1, 1, 2)).expect("room");
        assert_eq!(queue.decide(at(0)), Decision::Run);
        assert_eq!(items(queue.take(at(0))), [1]);
        assert_eq!(items(queue.take(at(0))), [2]);
    }

    #[test]
    fn the_bound_is_exact_and_refuses_with_the_request() {
        let mut queue = queue(1, 0, &[]);
        for item in 0..16 {
            queue.push(at(0), arrival(u64::from(item), 1, item)).expect("room for 16");
        }
        let QueueIsFull(refused) = queue.push(at(0), arrival(1, 1, 99)).expect_err("the 17th");
        assert_eq!((refused, queue.len(), queue.lanes()), (99, 16, 16));
        assert_eq!(items(queue.take(at(0))), [0]);
        queue.push(at(0), arrival(1, 1, 99)).expect("room again");
    }

    #[test]
    fn expired_requests_are_handed_back_and_never_run() {
        let mut queue = queue(8, 0, &[]);
        for (item, deadline) in [(1, 50), (2, 20), (3, 90)] {
            let arrival = Arrival { deadline: Some(at(deadline)), ..arrival(1, 1, item) };
            queue.push(at(0), arrival).expect("room");
        }
        assert_eq!(queue.next_deadline(), Some(at(20)));
        assert!(queue.expire(at(19)).is_empty());
        let batch = queue.take(at(50));
        assert_eq!(batch.expired, [2, 1], "earliest first");
        assert_eq!(items(batch), [3]);
        assert_eq!(queue.next_deadline(), None);
    }

    #[test]
    fn a_clock_read_too_early_does_not_turn_time_back() {
        let mut queue = queue(8, 100, &[]);
        queue.push(at(50), arrival(1, 1, 1)).expect("room");
        queue.push(at(40), arrival(1, 1, 2)).expect("room");
        let batch = queue.take(at(150));
        assert!(batch.requests.iter().all(|taken| taken.enqueued == at(50)));
        assert_eq!(items(batch), [1, 2]);
    }

    #[test]
    fn nobody_waits_for_others_once_told_to_stop_waiting() {
        let mut queue = queue(8, 100, &[]);
        queue.push(at(0), arrival(1, 1, 1)).expect("room");
        assert_eq!(queue.decide(at(0)), Decision::WaitUntil(at(100)));
        queue.stop_waiting();
        assert_eq!(queue.decide(at(0)), Decision::Run);
        assert_eq!(items(queue.take(at(0))), [1]);
    }
}
