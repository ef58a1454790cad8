//! Prints what a request costs in the pure queue, from push to take, by how requests come. Figures are medians of
//! rounds. Run it with `cargo run --release -p batching --example queue_cost`.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use batching::{Arrival, BatchQueue, BatchRules, ShapeKey};
use model::{BatchingConfig, Moment, Priorities};
use tokio::time::Instant;

const ROUNDS: usize = 41;
const REQUESTS: u64 = 64 * 200;
const MAX_BATCH_SIZE: u32 = 8;

/// As large as what the driver queues.
type Item = [u64; 6];

/// How requests come.
struct Case {
    name: &'static str,
    /// Waiting when the first batch is taken.
    depth: u64,
    shapes: u64,
    levels: u32,
    expire: bool,
    delay: Duration,
}

fn main() {
    let lone = Case { name: "one by one", depth: 1, shapes: 1, levels: 0, expire: false, delay: Duration::ZERO };
    let deep = Case { name: "64 waiting", depth: 64, ..lone };
    let cases = [
        Case { name: "64 waiting, 4 shapes", shapes: 4, ..deep },
        Case { name: "64 waiting, deadlines", expire: true, ..deep },
        Case { name: "64 waiting, a delay", delay: Duration::from_secs(1), ..deep },
        Case { name: "one by one, 3 levels", levels: 3, ..lone },
        Case { name: "64 waiting, 3 levels", levels: 3, ..deep },
        lone,
        deep,
    ];
    let mut figures: Vec<Vec<Duration>> = cases.iter().map(|_| Vec::with_capacity(ROUNDS)).collect();
    for _ in 0..ROUNDS {
        for (case, figures) in cases.iter().zip(&mut figures) {
            figures.push(round(case));
        }
    }
    for (case, mut figures) in cases.iter().zip(figures) {
        figures.sort_unstable();
        println!("{:>22}: {:.0?} a request", case.name, figures[ROUNDS / 2]);
    }
}

/// Time of a request in one round.
fn round(case: &Case) -> Duration {
    let mut queue = BatchQueue::new(BatchRules::new(MAX_BATCH_SIZE, &config(case)));
    let keys: Vec<ShapeKey> = (0..case.shapes).map(|shape| ShapeKey::new(&[shape])).collect();
    let start = Instant::now();
    for turn in 0..REQUESTS / case.depth {
        let now = Moment::from_origin(Duration::from_micros(turn));
        for (number, key) in (0..case.depth).zip(keys.iter().cycle()) {
            let level = u32::try_from((turn + number) % 3).unwrap_or(0) + 1;
            let deadline = case.expire.then(|| now.after(Duration::from_secs(1)));
            let arrival = Arrival { level, deadline, ..Arrival::new(key.clone(), 1, Item::default()) };
            queue.push(now, arrival).expect("room");
        }
        while !queue.is_empty() {
            black_box(queue.take(now));
        }
    }
    start.elapsed() / u32::try_from(REQUESTS).unwrap_or(u32::MAX)
}

fn config(case: &Case) -> BatchingConfig {
    let levels = NonZeroU32::new(case.levels);
    let priorities = levels.map(|levels| Priorities { levels, default_level: 1, policies: Default::default() });
    BatchingConfig { max_queue_delay: case.delay, priorities, ..BatchingConfig::default() }
}
