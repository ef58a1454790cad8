//! A seeded simulation of the pure queue: arrivals of mixed shapes or padded lengths, sizes and levels, in one piece and
//! in many, cancellations, deadlines, timeouts of both actions, failures and slow instances, a clock that only the simulation
//! moves. What must always hold is asserted after every step.

mod draw;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use batching::{Arrival, Batch, BatchQueue, BatchRules, Decision, Piece, QueueIsFull, ShapeKey, Ticket};
use draw::{config, input, padded};
use model::{BatchingConfig, Buckets, Moment, PadTo, Padding, Priorities, TimeoutAction};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const SEEDS: u64 = 400;
const STEPS: u64 = 300;

/// A request's number, which is arrival order, and a piece's.
type Item = (u64, usize);

/// What goes before what: level, whether postponed, number.
type Place = (u32, bool, u64);

/// A request as the simulation remembers it.
#[derive(Clone, Debug)]
struct Known {
    ticket: Ticket,
    length: u64,
    /// What it shares with the others of its lane: one of few shapes, or the boundary of its bucket.
    shape: u64,
    level: u32,
    /// Pieces that still wait: number and rows.
    pieces: VecDeque<(usize, u64)>,
    enqueued: Moment,
    deadline: Option<Moment>,
    postpone: Option<Moment>,
    is_postponed: bool,
}

struct Simulation {
    random: SmallRng,
    config: BatchingConfig,
    /// `None` where shapes are taken as they are.
    padded: Option<(Buckets, Padding)>,
    queue: BatchQueue<Item>,
    max_rows: u64,
    /// Whether somebody calls `expire` at every moment that the queue names.
    has_timers: bool,
    now: Moment,
    /// Waiting requests by number.
    waiting: BTreeMap<u64, Known>,
    next: u64,
    /// Requests that have ended, each once.
    ended: BTreeSet<u64>,
    /// What has happened at least once.
    seen: BTreeSet<&'static str>,
}

/// What must happen in some run, or the runs would show nothing of it.
const EVENTS: [&str; 11] = [
    "cancelled",
    "expired",
    "failed between pieces",
    "filled from a less urgent level",
    "led by a postponed request",
    "led by who is not the foremost",
    "padded to a boundary",
    "padded to the longest",
    "postponed",
    "ran the last of several pieces with others",
    "refused",
];

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let max_batch_size = random.random_range(0..=16_u32);
        let config = config(&mut random, max_batch_size);
        config.check().expect("fits together");
        Self {
            queue: BatchQueue::new(BatchRules::new(max_batch_size, &config)),
            max_rows: u64::from(max_batch_size),
            has_timers: random.random_bool(0.5),
            padded: random.random_bool(0.5).then(|| padded(&mut random)),
            random,
            config,
            now: Moment::ORIGIN,
            waiting: BTreeMap::new(),
            next: 0,
            ended: BTreeSet::new(),
            seen: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0..=4 => self.arrive(),
            5 => self.cancel(),
            6..=7 => self.pass_time(),
            8 => self.expire(),
            _ => self.run(),
        }
        self.assert_bounds();
    }

    /// Rows of each piece of a new request.
    fn sizes(&mut self) -> VecDeque<u64> {
        let most = self.max_rows.max(1);
        let splits = self.config.split_large_requests && self.max_rows > 0 && self.random.random_bool(0.3);
        let full = if splits { self.random.random_range(1..4) } else { 0 };
        std::iter::repeat_n(most, full).chain([self.random.random_range(1..=most)]).collect()
    }

    /// What a request of this length shares with others, and the key that says so.
    fn shape(&self, length: u64) -> (u64, ShapeKey) {
        match &self.padded {
            None => (length % 4, ShapeKey::new(&[length % 4])),
            Some((buckets, padding)) => (buckets.boundary(length), ShapeKey::new(&padding.key(&[input(length)]))),
        }
    }

    fn arrive(&mut self) {
        let (number, length) = (self.next, self.random.random_range(0..36));
        let (shape, key) = self.shape(length);
        self.next += 1;
        let pieces: VecDeque<(usize, u64)> = self.sizes().into_iter().enumerate().collect();
        let level = self.config.level(self.random.random_range(0..6));
        let (deadline, postpone) = self.timers(level);
        let piece = |&(piece, rows): &(usize, u64)| Piece { rows, item: (number, piece) };
        let rest = pieces.iter().skip(1).map(piece).collect();
        let arrival = Arrival { level, deadline, postpone, rest, ..Arrival::new(key, pieces[0].1, (number, 0)) };
        let bound = self.config.policy(level).max_queue_size.get();
        match self.queue.push(self.now, arrival) {
            Ok(ticket) => {
                let (enqueued, is_postponed) = (self.now, false);
                let known = Known { ticket, length, shape, level, pieces, enqueued, deadline, postpone, is_postponed };
                self.waiting.insert(number, known);
            }
            Err(QueueIsFull(back)) => {
                assert_eq!(back, (number, 0), "the refused request comes back");
                assert_eq!(self.count(level), bound, "refused exactly at its level's bound");
                self.seen.insert("refused");
                self.end(number);
            }
        }
    }

    /// A deadline, and what the level's policy makes of a timeout.
    fn timers(&mut self, level: u32) -> (Option<Moment>, Option<Moment>) {
        let mut patience = |chance: f64| {
            let patience = Duration::from_micros(self.random.random_range(0..2_000));
            self.random.random_bool(chance).then_some(patience)
        };
        let (deadline, requested) = (patience(0.3), patience(0.5));
        let policy = self.config.policy(level);
        let timeout = policy.timeout(requested).map(|timeout| self.now.after(timeout));
        let deadline = deadline.map(|patience| self.now.after(patience));
        match policy.timeout_action {
            TimeoutAction::Reject => (deadline.into_iter().chain(timeout).min(), None),
            TimeoutAction::Delay => (deadline, timeout),
        }
    }

    fn end(&mut self, number: u64) {
        assert!(self.ended.insert(number), "request {number} ended twice");
    }

    fn cancel(&mut self) {
        let count = self.waiting.len();
        if count > 0 {
            let position = self.random.random_range(0..count);
            let number = *self.waiting.keys().nth(position).expect("in range");
            self.withdraw(number);
            self.seen.insert("cancelled");
        }
    }

    fn withdraw(&mut self, number: u64) {
        let known = self.waiting.remove(&number).expect("it waits");
        assert_eq!(self.queue.remove(known.ticket), Some((number, known.pieces[0].0)));
        assert_eq!(self.queue.remove(known.ticket), None, "removed once, with all its pieces");
        self.end(number);
    }

    fn pass_time(&mut self) {
        let until = self.now.after(Duration::from_micros(self.random.random_range(0..300)));
        while self.has_timers
            && let Some(next) = self.queue.next_deadline().filter(|&next| next <= until)
        {
            self.now = self.now.max(next);
            let late = |known: &Known| known.deadline.is_some_and(|deadline| deadline < next);
            assert!(!self.waiting.values().any(late), "everybody is refused on time");
            self.expire();
            assert!(self.queue.next_deadline().is_none_or(|next| next > self.now), "what was due is done");
        }
        self.now = until;
    }

    fn expire(&mut self) {
        let expired = self.queue.expire(self.now);
        self.check_expired(&expired);
    }

    fn run(&mut self) {
        let decision = self.queue.decide(self.now);
        let batch = self.queue.take(self.now);
        let has_moved = self.check_expired(&batch.expired);
        if batch.requests.is_empty() {
            let is_idle = decision != Decision::Run || !batch.expired.is_empty() || has_moved;
            assert!(is_idle, "a batch was promised and none came");
            assert!(self.waiting.is_empty() || self.queue.decide(self.now) != Decision::Run);
            return;
        }
        self.check_batch(&batch);
    }

    /// Also brings what is remembered up to now; tells whether somebody was postponed.
    fn check_expired(&mut self, expired: &[Item]) -> bool {
        for &(number, piece) in expired {
            let known = self.waiting.remove(&number).expect("expired once, while it waited");
            assert_eq!(known.pieces[0].0, piece, "the first piece that still waits");
            assert!(known.deadline.is_some_and(|deadline| deadline <= self.now), "not before its deadline");
            self.end(number);
            self.seen.insert("expired");
        }
        let is_late = |known: &Known| known.deadline.is_some_and(|deadline| deadline <= self.now);
        assert!(!self.waiting.values().any(is_late), "everything late was handed back");
        let mut has_moved = false;
        for known in self.waiting.values_mut() {
            if known.postpone.take_if(|postpone| *postpone <= self.now).is_some() {
                known.is_postponed = true;
                has_moved = true;
                self.seen.insert("postponed");
            }
        }
        has_moved
    }

    fn check_batch(&mut self, batch: &Batch<Item>) {
        let items: Vec<Item> = batch.requests.iter().map(|taken| taken.item).collect();
        let shape = self.waiting[&items[0].0].shape;
        assert!(items.iter().all(|(number, _)| self.waiting[number].shape == shape), "one shape a batch");
        self.check_padding(&items);
        assert_eq!(batch.rows, batch.requests.iter().map(|taken| taken.rows).sum::<u64>());
        assert!(batch.rows <= self.max_rows.max(1), "within max_batch_size");
        assert!(self.max_rows > 0 || items.len() == 1, "a model that does not batch runs one by one");
        let lane = self.lane(shape);
        let head: Vec<Item> = lane.iter().take(items.len()).map(|&(_, item, _)| item).collect();
        assert_eq!(items, head, "level after level, the postponed ones last, in arrival order, without a gap");
        self.check_rest(batch.rows, lane.get(items.len()).map(|&(_, _, rows)| rows));
        self.check_overtaking(lane[0].0);
        self.note_batch(&lane[..items.len()]);
        for taken in &batch.requests {
            let known = self.waiting.get_mut(&taken.item.0).expect("it waits");
            assert_eq!((taken.ticket, taken.enqueued), (known.ticket, known.enqueued));
            assert_eq!(known.pieces.pop_front(), Some((taken.item.1, taken.rows)));
        }
        self.land(&items);
    }

    /// Whoever is padded grows no further than to the boundary of its own bucket.
    fn check_padding(&mut self, items: &[Item]) {
        let Some((buckets, _)) = &self.padded else { return };
        let lengths: Vec<u64> = items.iter().map(|(number, _)| self.waiting[number].length).collect();
        let padded = buckets.padded(lengths.iter().copied().max().expect("a batch has requests"));
        for &length in &lengths {
            assert!((length..=buckets.boundary(length)).contains(&padded), "{length} to {padded} in {buckets:?}");
        }
        if lengths.iter().any(|&length| length < padded) {
            let is_longest = buckets.pad_to == PadTo::Longest;
            self.seen.insert(if is_longest { "padded to the longest" } else { "padded to a boundary" });
        }
    }

    /// The pieces of a shape in the order in which they are to run, with their rows.
    fn lane(&self, shape: u64) -> Vec<(Place, Item, u64)> {
        let of_shape = self.waiting.iter().filter(|(_, known)| known.shape == shape);
        let mut lane: Vec<_> = of_shape
            .flat_map(|(&number, known)| {
                let place = place(number, known);
                known.pieces.iter().map(move |&(piece, rows)| (place, (number, piece), rows))
            })
            .collect();
        lane.sort_unstable();
        lane
    }

    fn note_batch(&mut self, batch: &[(Place, Item, u64)]) {
        let first = batch[0].0;
        let is_foremost = self.waiting.iter().all(|(&number, known)| first <= place(number, known));
        let ends_with_others = |&(_, (_, piece), _): &(Place, Item, u64)| piece > 0 && batch.len() > 1;
        let notes = [
            ("filled from a less urgent level", batch.iter().any(|(place, _, _)| place.0 > first.0)),
            ("led by a postponed request", first.1),
            ("led by who is not the foremost", !is_foremost),
            ("ran the last of several pieces with others", batch.iter().any(ends_with_others)),
        ];
        self.seen.extend(notes.iter().filter(|(_, holds)| *holds).map(|(event, _)| *event));
    }

    /// A batch is as large as it can be, unless it has a preferred size.
    fn check_rest(&self, rows: u64, next: Option<u64>) {
        let is_preferred = self.config.preferred_batch_sizes.iter().any(|&size| u64::from(size) == rows);
        let fits = next.is_some_and(|next| rows + next <= self.max_rows);
        assert!(!fits || is_preferred, "{rows} rows and the next {next:?} fit {}", self.max_rows);
    }

    /// Nobody overtakes the foremost request, except that a full batch may which is led by one of its level and delay
    /// state, while the oldest request's own delay runs. So inside a level nobody is overtaken whose delay is over.
    fn check_overtaking(&self, first: Place) {
        let places = self.waiting.iter().map(|(&number, known)| place(number, known));
        let foremost = places.min().expect("the batch is among them");
        let (_, oldest) = self.waiting.first_key_value().expect("the batch is among them");
        let is_waiting_by_choice = self.now < oldest.enqueued.after(self.config.max_queue_delay);
        let is_equal = (first.0, first.1) == (foremost.0, foremost.1);
        assert!(first == foremost || (is_waiting_by_choice && is_equal), "{first:?} overtook {foremost:?}");
        for (&number, known) in &self.waiting {
            let is_overtaken = (known.level, known.is_postponed) == (first.0, first.1) && number < first.2;
            let is_over = known.enqueued.after(self.config.max_queue_delay) <= self.now;
            assert!(!(is_overtaken && is_over), "{number} starves behind {}", first.2);
        }
    }

    /// The batch succeeds or fails. Requests end with their last piece, or with the first that fails.
    fn land(&mut self, items: &[Item]) {
        let has_failed = self.random.random_bool(0.2);
        for &(number, _) in items {
            if self.waiting[&number].pieces.is_empty() {
                self.waiting.remove(&number);
                self.end(number);
            } else if has_failed {
                self.withdraw(number);
                self.seen.insert("failed between pieces");
            }
        }
    }

    /// Requests of a level.
    fn count(&self, level: u32) -> usize {
        let ranks = self.config.priorities.is_some();
        self.waiting.values().filter(|known| !ranks || known.level == level).count()
    }

    fn assert_bounds(&self) {
        assert_eq!(self.queue.len(), self.waiting.len());
        self.assert_levels();
        let rows = self.waiting.values().flat_map(|known| known.pieces.iter().map(|&(_, rows)| rows));
        assert_eq!(self.queue.rows(), rows.sum::<u64>());
        assert!(self.queue.lanes() <= self.queue.len(), "no lane without a request");
        let timers = self.waiting.values().flat_map(|known| known.deadline.into_iter().chain(known.postpone));
        assert_eq!(self.queue.next_deadline(), timers.min());
        match self.queue.decide(self.now) {
            Decision::Empty => assert!(self.waiting.is_empty()),
            Decision::Run => assert!(!self.waiting.is_empty()),
            Decision::WaitUntil(due) => {
                let oldest = self.waiting.values().next().expect("somebody waits");
                assert_eq!(due, oldest.enqueued.after(self.config.max_queue_delay));
                assert!(due > self.now);
            }
        }
    }

    fn assert_levels(&self) {
        let levels = self.config.priorities.as_ref().map_or(1, |priorities| priorities.levels.get());
        for level in 1..=levels {
            let (count, bound) = (self.count(level), self.config.policy(level).max_queue_size.get());
            assert!(count <= bound, "level {level}");
            assert_eq!(self.queue.is_full(level), count == bound, "level {level}");
            let shown = self.queue.len_by_level().get(&level).copied().unwrap_or(0);
            assert_eq!(shown, if self.config.priorities.is_some() { count } else { 0 }, "level {level}");
        }
    }

    /// Lets instances run until nothing waits, moving the clock only as far as the queue asks.
    fn drain(&mut self) {
        loop {
            match self.queue.decide(self.now) {
                Decision::Empty => break,
                Decision::Run => self.run(),
                Decision::WaitUntil(due) => self.now = due,
            }
            self.assert_bounds();
        }
        assert_eq!((self.queue.len(), self.queue.lanes(), self.queue.rows()), (0, 0, 0));
        assert_eq!((self.queue.next_deadline(), self.queue.len_by_level()), (None, BTreeMap::new()));
        assert_eq!(self.ended.len() as u64, self.next, "every request ended once");
    }
}

fn place(number: u64, known: &Known) -> Place {
    (known.level, known.is_postponed, number)
}

#[test]
fn every_request_ends_once_and_no_rule_is_broken_on_the_way() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut simulation = Simulation::new(seed);
        for _ in 0..STEPS {
            simulation.step();
        }
        simulation.drain();
        seen.extend(simulation.seen);
    }
    assert_eq!(seen, BTreeSet::from(EVENTS));
}

#[test]
fn a_flood_of_another_shape_does_not_starve_the_oldest() {
    let config = BatchingConfig { max_queue_delay: Duration::from_micros(100), ..BatchingConfig::default() };
    let mut queue = BatchQueue::new(BatchRules::new(4, &config));
    let push = |queue: &mut BatchQueue<u64>, now: Moment, shape: u64, item: u64| {
        queue.push(now, Arrival::new(ShapeKey::new(&[shape]), 1, item)).expect("room")
    };
    push(&mut queue, Moment::ORIGIN, 1, 0);
    let mut overtaken = 0;
    for step in 0..1_000 {
        let now = Moment::from_origin(Duration::from_micros(step));
        for _ in 0..8 {
            push(&mut queue, now, 2, 1);
        }
        let batch = queue.take(now);
        if batch.requests.iter().any(|taken| taken.item == 0) {
            break;
        }
        overtaken += 1;
    }
    assert_eq!(overtaken, 100, "full batches go first until its delay is over, then it is next");
}

#[test]
fn a_flood_of_less_urgent_requests_never_goes_before_an_urgent_one() {
    let levels = NonZeroU32::new(2).expect("2");
    let priorities = Some(Priorities { levels, default_level: 2, policies: BTreeMap::new() });
    let config = BatchingConfig { priorities, ..BatchingConfig::default() };
    let mut queue = BatchQueue::new(BatchRules::new(4, &config));
    for step in 0..1_000 {
        let now = Moment::from_origin(Duration::from_micros(step));
        for (level, shape, item) in [(2, 1, 0), (2, 1, 0), (1, 2, step)] {
            let arrival = Arrival { level, ..Arrival::new(ShapeKey::new(&[shape]), 1, item) };
            queue.push(now, arrival).expect("room");
        }
        let batch = queue.take(now);
        assert_eq!(batch.requests.iter().map(|taken| taken.item).collect::<Vec<_>>(), [step]);
    }
    assert_eq!(queue.len_by_level(), BTreeMap::from([(2, 2_000)]), "who is less urgent gets what is left");
}
