//! Requests that are larger than a batch: cut into pieces, run with others, answered once and whole.

mod common;

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use batching::{BatchError, DropReason};
use common::{Bench, Picky, Setup, assert_answers, assert_answers_numbered, expiring, numbered, request, spawn, until};
use model::testing::{FakeControl, FakeInstance, FakeMode};
use model::{BatchLayout, BatchOutput, Completion, EngineError, Execution, ModelInstance, Slot, Tensor};
use tokio::time::Instant;

fn splitting() -> Setup {
    Setup { split_large_requests: true, ..Setup::default() }
}

/// Pieces of two rows, on a device that is released by hand.
fn held() -> Setup {
    Setup { mode: FakeMode::Held, max_batch_size: 2, ..splitting() }
}

async fn picky(setup: Setup) -> Bench {
    let control = FakeControl::default();
    let mode = setup.mode;
    setup.start_with(vec![Box::new(Picky::new(mode, control.clone()))], control)
}

fn assert_nothing_is_left(bench: &Bench) {
    let snapshot = bench.handle.snapshot();
    assert_eq!((snapshot.queued_requests, snapshot.queued_rows, snapshot.batches_in_flight), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_large_request_runs_in_pieces_and_is_answered_whole() {
    for execution in [Execution::Inline, Execution::Worker] {
        for (rows, batches) in [(8, &[8][..]), (9, &[8, 1]), (16, &[8, 8]), (20, &[8, 8, 4])] {
            let bench = Setup { execution, ..splitting() }.start();
            let inferred = bench.handle.submit(numbered(rows, 3)).await.expect("runs");
            assert_answers_numbered(&inferred, rows, 3);
            assert_eq!(inferred.batch_rows, 8, "the largest");
            let shapes: Vec<_> = batches.iter().map(|&rows| vec![rows, 3]).collect();
            assert_eq!(bench.control.batches(), shapes);
            assert_nothing_is_left(&bench);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_pieces_of_an_answer_are_copied_once_and_a_single_one_is_not() {
    let bench = splitting().start();
    let [whole, half] = [numbered(8, 3), numbered(4, 3)].map(|request| spawn(&bench.handle, request));
    let [whole, half] = [whole.await, half.await].map(|outcome| outcome.expect("no panic").expect("runs"));
    assert_eq!(bench.control.batches(), [[8, 3], [4, 3]]);
    assert_answers_numbered(&whole, 8, 3);
    assert_answers_numbered(&half, 4, 3);
    assert!(whole.outputs[0].data().is_unique(), "the whole batch's memory, no copy beside it");
}

#[tokio::test(start_paused = true)]
async fn pieces_share_batches_with_others() {
    let bench = splitting().start();
    let large = spawn(&bench.handle, numbered(20, 3));
    let others: Vec<_> = (1..=3).map(|value| spawn(&bench.handle, request(2, 3, value))).collect();
    assert_answers_numbered(&large.await.expect("no panic").expect("runs"), 20, 3);
    for (value, other) in (1..).zip(others) {
        assert_answers(&other.await.expect("no panic").expect("runs"), 2, 3, value);
    }
    assert_eq!(bench.control.batches(), [[8, 3], [8, 3], [8, 3], [2, 3]]);
    let requests: Vec<_> = bench.recorder.batches().iter().map(|report| report.requests).collect();
    assert_eq!(requests, [1, 1, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_large_request_runs_in_one_batch_where_nothing_says_to_split_it() {
    let bench = Setup::default().start();
    let inferred = bench.handle.submit(numbered(20, 3)).await.expect("runs");
    assert_answers_numbered(&inferred, 20, 3);
    assert_eq!(bench.control.batches(), [[20, 3]]);

    let bench = Setup { max_batch_size: 0, ..splitting() }.start();
    let inferred = bench.handle.submit(request(20, 3, 7)).await.expect("runs");
    assert_answers(&inferred, 20, 3, 7);
    assert_eq!(bench.control.batches(), [[20, 3]], "a model that does not batch has nothing to cut along");
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_an_answer_in_pieces_is_the_longest_one() {
    let bench = held().start();
    let task = spawn(&bench.handle, numbered(5, 3));
    until(|| bench.control.batches().len() == 2).await;
    tokio::time::advance(Duration::from_millis(10)).await;
    until(|| bench.control.release()).await;
    until(|| bench.control.batches().len() == 3).await;
    until(|| bench.control.release()).await;
    until(|| bench.control.release()).await;
    let inferred = task.await.expect("no panic").expect("runs");
    assert_answers_numbered(&inferred, 5, 3);
    assert_eq!(inferred.queue.as_millis(), 10, "the third piece's");
}

#[tokio::test(start_paused = true)]
async fn one_failing_piece_fails_the_request_once_and_the_rest_leaves() {
    let bench = picky(splitting()).await;
    // Rows 8 to 15 are the second piece.
    let large = spawn(&bench.handle, numbered(40, 3));
    let other = spawn(&bench.handle, request(2, 3, 1));
    let error = large.await.expect("no panic").expect_err("fails");
    assert_eq!(error.to_string(), "running the model failed: a nine");
    assert_answers(&other.await.expect("no panic").expect("runs"), 2, 3, 1);
    assert_eq!(bench.control.batches(), [[8, 3], [8, 3], [2, 3]], "three pieces cost no engine time");
    assert!(bench.recorder.dropped().is_empty(), "it ran");
    assert_nothing_is_left(&bench);
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_fails_while_others_run_is_answered_at_once() {
    let bench = picky(held()).await;
    // Rows 8 and 9 are the fifth piece.
    let task = spawn(&bench.handle, numbered(16, 3));
    for done in 1..=4 {
        until(|| bench.control.batches().len() == done + 1).await;
        until(|| bench.control.release()).await;
    }
    until(|| bench.control.batches().len() == 6).await;
    until(|| bench.control.release()).await;
    let error = task.await.expect("no panic").expect_err("fails");
    assert_eq!(error.to_string(), "running the model failed: a nine");
    assert_eq!((bench.control.batches().len(), bench.handle.snapshot().queued_requests), (6, 0));
    until(|| bench.control.release()).await;
    until(|| bench.handle.snapshot().batches_in_flight == 0).await;
    assert_nothing_is_left(&bench);
}

#[tokio::test(start_paused = true)]
async fn a_request_in_pieces_counts_as_one() {
    let bench = Setup { max_queue_size: 2, ..held() }.start();
    let running: Vec<_> = (0..2).map(|value| spawn(&bench.handle, request(2, 2, value))).collect();
    until(|| bench.control.batches().len() == 2).await;
    let large: Vec<_> = (0..2).map(|_| spawn(&bench.handle, numbered(9, 3))).collect();
    until(|| bench.handle.snapshot().queued_requests == 2).await;
    assert_eq!(bench.handle.snapshot().queued_rows, 18);
    let error = bench.handle.submit(numbered(9, 3)).await.expect_err("full");
    assert_eq!((error.to_string().as_str(), error), ("Exceeds maximum queue size", BatchError::QueueFull { max: 2 }));
    assert_eq!(bench.recorder.dropped(), [DropReason::QueueFull], "refused once, with all its pieces");
    let is_done = || {
        let _ = bench.control.release();
        large.iter().all(tokio::task::JoinHandle::is_finished)
    };
    until(is_done).await;
    for task in large {
        assert_answers_numbered(&task.await.expect("no panic").expect("runs"), 9, 3);
    }
    for (value, task) in (0..).zip(running) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 2, 2, value);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_expires_between_its_pieces_is_answered_on_time_and_the_rest_leaves() {
    let bench = held().start();
    let started = Instant::now();
    let task = spawn(&bench.handle, expiring(numbered(9, 3), Duration::from_millis(30)));
    until(|| bench.control.batches().len() == 2).await;
    let error = task.await.expect("no panic").expect_err("expires");
    assert_eq!((error.to_string().as_str(), error), ("Request timeout expired", BatchError::Expired));
    assert_eq!(started.elapsed().as_millis(), 30);
    assert_eq!(bench.recorder.dropped(), [DropReason::Expired], "once");
    assert_eq!(bench.handle.snapshot().queued_requests, 0);
    until(|| bench.control.release()).await;
    until(|| bench.control.release()).await;
    until(|| bench.handle.snapshot().batches_in_flight == 0).await;
    assert_eq!(bench.control.batches(), [[2, 3], [2, 3]], "only what was running ran");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_between_pieces_takes_the_rest_with_it() {
    let bench = splitting().start();
    {
        let mut large = pin!(bench.handle.submit(numbered(40, 3)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(large.as_mut().poll(&mut context).is_pending(), "it yields first");
        assert!(matches!(large.as_mut().poll(&mut context), Poll::Pending), "it runs its pieces");
        let snapshot = bench.handle.snapshot();
        assert_eq!((bench.control.batches().len(), snapshot.queued_requests), (1, 1), "one piece a turn");
    }
    assert_nothing_is_left(&bench);
    assert_eq!(bench.recorder.dropped(), [DropReason::Abandoned], "once");
    assert_answers(&bench.handle.submit(request(1, 3, 1)).await.expect("the batcher goes on"), 1, 3, 1);
    assert_eq!(bench.control.batches(), [[8, 3], [1, 3]]);
}

/// A device that drops its first batch, at once and on another thread, and panics over the second.
struct Losing {
    fake: FakeInstance,
    panics: bool,
}

impl ModelInstance for Losing {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.fake.prepare(layout)
    }

    fn submit(&mut self, done: Completion) {
        assert!(!self.panics, "submit was told to panic");
        std::thread::spawn(move || drop(done));
    }

    fn capacity(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    fn completes_inline(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_piece_answers_the_request_once_and_the_rest_leaves() {
    for panics in [false, true] {
        let fake = FakeInstance::new(FakeMode::Inline, FakeControl::default());
        let bench = splitting().start_with(vec![Box::new(Losing { fake, panics })], FakeControl::default());
        for round in 1..=2 {
            let error = bench.handle.submit(numbered(40, 3)).await.expect_err("lost");
            let text = "running the model failed: the engine dropped the batch without an outcome";
            assert_eq!(error.to_string(), text);
            assert_eq!(bench.handle.snapshot().queued_requests, 0);
            assert_eq!(bench.recorder.batches().len(), round, "one piece of five ran");
        }
    }
}

/// Returns a row less than it was given.
struct Short {
    fake: FakeInstance,
}

impl ModelInstance for Short {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.fake.prepare(layout)
    }

    fn submit(&mut self, done: Completion) {
        let less = |tensor: &Tensor| tensor.split_rows(&[tensor.shape()[0] - 1, 1]).swap_remove(0);
        self.fake.submit(Box::new(move |outcome| {
            done(outcome.map(|output| BatchOutput { tensors: output.tensors.iter().map(less).collect() }));
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_piece_whose_outputs_do_not_fit_fails_the_request_once_and_the_rest_leaves() {
    let control = FakeControl::default();
    let fake = FakeInstance::new(FakeMode::Inline, control.clone());
    let bench = splitting().start_with(vec![Box::new(Short { fake })], control);
    let large = spawn(&bench.handle, numbered(40, 3));
    let other = spawn(&bench.handle, request(2, 3, 1));
    for (task, rows) in [(large, 8), (other, 2)] {
        let error = task.await.expect("no panic").expect_err("a row less");
        let got = rows - 1;
        assert_eq!(
            error.to_string(),
            format!(
                "output 'y' of the model is [{got},3], but its signature says one row per input row, {rows} in this batch"
            )
        );
    }
    assert_eq!(bench.control.batches(), [[8, 3], [2, 3]]);
    assert_nothing_is_left(&bench);
}

#[tokio::test(start_paused = true)]
async fn stop_lets_all_pieces_run() {
    let bench = Setup { delay: Duration::from_secs(3600), ..splitting() }.start();
    let task = spawn(&bench.handle, numbered(5, 3));
    let large = spawn(&bench.handle, numbered(20, 4));
    until(|| bench.control.batches().len() == 2).await;
    assert_eq!(bench.handle.snapshot().queued_requests, 2, "one waits, and one with its last piece");
    let handle = bench.handle.clone();
    tokio::task::spawn_blocking(move || handle.stop()).await.expect("no panic");
    assert_answers_numbered(&task.await.expect("no panic").expect("runs"), 5, 3);
    assert_answers_numbered(&large.await.expect("no panic").expect("runs"), 20, 4);
    assert_nothing_is_left(&bench);
}
