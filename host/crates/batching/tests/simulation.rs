//! A seeded simulation of the pure queue: arrivals of mixed shapes and sizes, cancellations, deadlines and slow
//! instances, a clock that only the simulation moves. What must always hold is asserted after every step.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use batching::{Arrival, Batch, BatchQueue, BatchRules, Decision, QueueIsFull, ShapeKey, Ticket};
use model::{BatchingConfig, Moment, QueuePolicy};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const SEEDS: u64 = 400;
const STEPS: u64 = 300;

/// A request as the simulation remembers it.
#[derive(Clone, Copy, Debug)]
struct Known {
    ticket: Ticket,
    shape: u64,
    rows: u64,
    enqueued: Moment,
    deadline: Option<Moment>,
}

struct Simulation {
    random: SmallRng,
    queue: BatchQueue<u64>,
    max_rows: u64,
    max_requests: usize,
    delay: Duration,
    now: Moment,
    /// Waiting requests by number, which is arrival order.
    waiting: BTreeMap<u64, Known>,
    next: u64,
    answered: u64,
    refused: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let max_batch_size = random.random_range(0..=16_u32);
        let delay = Duration::from_micros(if random.random_bool(0.5) { 0 } else { random.random_range(1..500) });
        let max_requests = random.random_range(1..40);
        let mut preferred: Vec<u32> = (0..random.random_range(0..3)).map(|_| random.random_range(1..=16)).collect();
        preferred.retain(|&size| size <= max_batch_size);
        preferred.sort_unstable();
        preferred.dedup();
        let config = BatchingConfig {
            is_dynamic: true,
            preferred_batch_sizes: preferred,
            max_queue_delay: delay,
            queue: QueuePolicy {
                max_queue_size: NonZeroUsize::new(max_requests).expect("at least 1"),
                default_timeout: None,
            },
        };
        Self {
            random,
            queue: BatchQueue::new(BatchRules::new(max_batch_size, &config)),
            max_rows: u64::from(max_batch_size),
            max_requests,
            delay,
            now: Moment::ORIGIN,
            waiting: BTreeMap::new(),
            next: 0,
            answered: 0,
            refused: 0,
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0..=4 => self.arrive(),
            5 => self.cancel(),
            6..=7 => self.now = self.now.after(Duration::from_micros(self.random.random_range(0..300))),
            8 => self.expire(),
            _ => self.run(),
        }
        self.assert_bounds();
    }

    fn arrive(&mut self) {
        let number = self.next;
        self.next += 1;
        let shape = self.random.random_range(0..4);
        let rows = self.random.random_range(1..=self.max_rows.max(1));
        let patience = Duration::from_micros(self.random.random_range(0..2_000));
        let deadline = self.random.random_bool(0.4).then(|| self.now.after(patience));
        let arrival = Arrival { key: ShapeKey::new(&[shape]), rows, deadline, item: number };
        match self.queue.push(self.now, arrival) {
            Ok(ticket) => {
                let known = Known { ticket, shape, rows, enqueued: self.now, deadline };
                self.waiting.insert(number, known);
            }
            Err(QueueIsFull(back)) => {
                assert_eq!(back, number, "the refused request comes back");
                assert_eq!(self.waiting.len(), self.max_requests, "refused exactly at the bound");
                self.refused += 1;
            }
        }
    }

    fn cancel(&mut self) {
        let count = self.waiting.len();
        if count == 0 {
            return;
        }
        let position = self.random.random_range(0..count);
        let (&number, &known) = self.waiting.iter().nth(position).expect("in range");
        assert_eq!(self.queue.remove(known.ticket), Some(number));
        assert_eq!(self.queue.remove(known.ticket), None, "removed once");
        self.waiting.remove(&number);
        self.answered += 1;
    }

    fn expire(&mut self) {
        let expired = self.queue.expire(self.now);
        self.check_expired(&expired);
    }

    fn run(&mut self) {
        let decision = self.queue.decide(self.now);
        let batch = self.queue.take(self.now);
        self.check_expired(&batch.expired);
        if batch.requests.is_empty() {
            let is_idle = decision != Decision::Run || !batch.expired.is_empty();
            assert!(is_idle, "a batch was promised and none came");
            assert!(self.waiting.is_empty() || self.queue.decide(self.now) != Decision::Run);
            return;
        }
        self.check_batch(&batch);
    }

    fn check_expired(&mut self, expired: &[u64]) {
        for number in expired {
            let known = self.waiting.remove(number).expect("expired once, while it waited");
            assert!(known.deadline.is_some_and(|deadline| deadline <= self.now), "not before its deadline");
            self.answered += 1;
        }
        let is_late = |known: &Known| known.deadline.is_some_and(|deadline| deadline <= self.now);
        assert!(!self.waiting.values().any(is_late), "everything late was handed back");
    }

    fn check_batch(&mut self, batch: &Batch<u64>) {
        let numbers: Vec<u64> = batch.requests.iter().map(|taken| taken.item).collect();
        let members: Vec<Known> = numbers.iter().map(|number| self.waiting[number]).collect();
        let shape = members[0].shape;
        assert!(members.iter().all(|known| known.shape == shape), "one shape a batch");
        assert_eq!(batch.rows, members.iter().map(|known| known.rows).sum::<u64>());
        assert!(batch.rows <= self.max_rows.max(1), "within max_batch_size");
        assert!(self.max_rows > 0 || members.len() == 1, "a model that does not batch runs one by one");
        let lane = self.waiting.iter().filter(|(_, known)| known.shape == shape).map(|(&number, _)| number);
        let head: Vec<u64> = lane.take(numbers.len()).collect();
        assert_eq!(numbers, head, "in arrival order, without a gap");
        self.check_overtaking(numbers[0]);
        self.waiting.retain(|number, _| !numbers.contains(number));
        self.answered += numbers.len() as u64;
    }

    /// Nobody overtakes the oldest request, except that a full batch may while the oldest one's own delay runs.
    fn check_overtaking(&self, first: u64) {
        let (&oldest, known) = self.waiting.first_key_value().expect("the batch is among them");
        let is_waiting_by_choice = !self.delay.is_zero() && self.now < known.enqueued.after(self.delay);
        assert!(first == oldest || is_waiting_by_choice, "{first} overtook {oldest}, whose delay is over");
    }

    fn assert_bounds(&self) {
        assert_eq!(self.queue.len(), self.waiting.len());
        assert!(self.queue.len() <= self.max_requests);
        assert_eq!(self.queue.rows(), self.waiting.values().map(|known| known.rows).sum::<u64>());
        assert!(self.queue.lanes() <= self.queue.len(), "no lane without a request");
        assert_eq!(self.queue.next_deadline(), self.waiting.values().filter_map(|known| known.deadline).min());
        match self.queue.decide(self.now) {
            Decision::Empty => assert!(self.waiting.is_empty()),
            Decision::Run => assert!(!self.waiting.is_empty()),
            Decision::WaitUntil(due) => {
                let oldest = self.waiting.values().next().expect("somebody waits");
                assert_eq!(due, oldest.enqueued.after(self.delay));
                assert!(due > self.now);
            }
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
        assert_eq!(self.answered + self.refused, self.next, "every request ended once");
    }
}

#[test]
fn every_request_ends_once_and_no_rule_is_broken_on_the_way() {
    for seed in 0..SEEDS {
        let mut simulation = Simulation::new(seed);
        for _ in 0..STEPS {
            simulation.step();
        }
        simulation.drain();
    }
}

#[test]
fn a_flood_of_another_shape_does_not_starve_the_oldest() {
    let config = BatchingConfig { max_queue_delay: Duration::from_micros(100), ..BatchingConfig::default() };
    let mut queue = BatchQueue::new(BatchRules::new(4, &config));
    let push = |queue: &mut BatchQueue<u64>, now: Moment, shape: u64, item: u64| {
        queue.push(now, Arrival { key: ShapeKey::new(&[shape]), rows: 1, deadline: None, item }).expect("room")
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
