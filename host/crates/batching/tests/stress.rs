//! Tens of thousands of requests over real threads, many of them abandoned at random: each that stays gets its own rows,
//! and in the end nothing is left.

mod common;

use std::time::Duration;

use batching::{BatchError, BatchHandle};
use common::{Bench, Setup, assert_answers, expiring, levels, request, urgent};
use model::{Execution, TimeoutAction};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CLIENTS: u64 = 64;
const REQUESTS: u64 = 500;

/// One client's requests of up to `most_rows`, one after another; returns how many were answered, expired and abandoned.
async fn client(handle: BatchHandle, seed: u64, most_rows: u64) -> [usize; 3] {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut ends = [0; 3];
    for _ in 0..REQUESTS {
        let (rows, width, value) = (random.random_range(1..=most_rows), random.random_range(1..=3), random.random());
        let mut request = urgent(request(rows, width, value), random.random_range(0..4));
        if random.random_bool(0.1) {
            request = expiring(request, Duration::from_micros(random.random_range(0..50)));
        }
        let polls = if random.random_bool(0.2) { random.random_range(1..4) } else { u32::MAX };
        match abandon_after(polls, handle.submit(request)).await {
            Some(Ok(inferred)) => {
                assert_answers(&inferred, rows, width, value);
                assert!(inferred.batch_rows >= rows.min(8) && inferred.batch_rows <= 8);
                ends[0] += 1;
            }
            Some(Err(error)) => {
                assert_eq!(error, BatchError::Expired);
                ends[1] += 1;
            }
            None => ends[2] += 1,
        }
    }
    ends
}

/// Drops the future when it is still pending after so many polls.
async fn abandon_after<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        left -= 1;
        match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
            std::task::Poll::Pending => std::task::Poll::Pending,
        }
    })
    .await
}

/// Requests that fit a batch: each runs once or is dropped.
async fn storm(setup: Setup) {
    let [ran, dropped] = storm_of(setup, 3).await;
    assert_eq!((ran + dropped) as u64, CLIENTS * REQUESTS, "each ran or was dropped, once");
}

/// Returns how many requests and pieces ran, and how many requests were dropped.
async fn storm_of(setup: Setup, most_rows: u64) -> [usize; 2] {
    let bench = setup.start();
    let client = |seed| tokio::spawn(client(bench.handle.clone(), seed, most_rows));
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let mut ends = [0; 3];
    for client in clients {
        let one = client.await.expect("every answer is right");
        ends.iter_mut().zip(one).for_each(|(sum, count)| *sum += count);
    }
    assert_eq!(ends.iter().sum::<usize>() as u64, CLIENTS * REQUESTS, "each ended once");
    assert!(ends[0] > 0);
    assert_quiet(bench, ends).await
}

async fn assert_quiet(bench: Bench, [answered, expired, _]: [usize; 3]) -> [usize; 2] {
    let handle = bench.handle.clone();
    tokio::task::spawn_blocking(move || handle.stop()).await.expect("stops");
    let snapshot = bench.handle.snapshot();
    assert_eq!((snapshot.queued_requests, snapshot.queued_rows, snapshot.batches_in_flight), (0, 0, 0));
    let ran: usize = bench.recorder.batches().iter().map(|report| report.requests).sum();
    let dropped = bench.recorder.dropped().len();
    assert!(ran >= answered && dropped >= expired);
    assert_eq!(bench.control.batches().len(), bench.recorder.batches().len());
    [ran, dropped]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn inline_on_one_instance() {
    storm(Setup::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn inline_on_two_instances_with_a_delay() {
    storm(Setup { instances: 2, delay: Duration::from_micros(200), ..Setup::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_workers() {
    storm(Setup { instances: 2, execution: Execution::Worker, ..Setup::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_auto_puts_it() {
    storm(Setup { execution: Execution::Auto, ..Setup::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_by_one() {
    storm(Setup { max_batch_size: 0, ..Setup::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn by_level_with_timeouts_that_delay() {
    let (default_timeout, timeout_action) = (Some(Duration::from_micros(20)), TimeoutAction::Delay);
    storm(Setup { priorities: levels(3), default_timeout, timeout_action, ..Setup::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answered_in_order_from_two_workers() {
    storm(Setup { instances: 2, execution: Execution::Worker, preserve_ordering: true, ..Setup::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_pieces_inline() {
    let [ran, dropped] = storm_of(Setup { split_large_requests: true, ..Setup::default() }, 30).await;
    assert!((ran + dropped) as u64 > CLIENTS * REQUESTS, "some ran in pieces");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_pieces_in_order_on_two_workers() {
    let setup = Setup { instances: 2, execution: Execution::Worker, preserve_ordering: true, ..Setup::default() };
    let [ran, dropped] = storm_of(Setup { split_large_requests: true, ..setup }, 30).await;
    assert!((ran + dropped) as u64 > CLIENTS * REQUESTS, "some ran in pieces");
}
