//! Instances on threads of their own: overlap up to the capacity, answers from the completion, stop and end.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use batching::{BatchError, DropReason, Mode};
use common::{Bench, Setup, assert_answers, expiring, request, spawn, until};
use model::testing::{FakeControl, FakeInstance, FakeMode};
use model::{BatchLayout, Completion, EngineError, Execution, ModelInstance, Slot};

fn worker() -> Setup {
    Setup { execution: Execution::Worker, ..Setup::default() }
}

fn held() -> Setup {
    Setup { mode: FakeMode::Held, max_batch_size: 2, ..Setup::default() }
}

/// Lets so many batches complete; a batch is counted as run a little before it can be released.
async fn release(bench: &Bench, batches: usize) {
    for _ in 0..batches {
        until(|| bench.control.release()).await;
    }
}

/// Lets the oldest batch complete if one is held, and gives others a turn.
async fn release_any(bench: &Bench) {
    let _ = bench.control.release();
    tokio::task::yield_now().await;
}

#[tokio::test]
async fn a_worker_runs_what_is_submitted() {
    let bench = worker().start();
    assert_eq!(bench.handle.snapshot().mode, Mode::Worker);
    for value in 0..50 {
        let inferred = bench.handle.submit(request(1, 2, value)).await.expect("runs");
        assert_answers(&inferred, 1, 2, value);
    }
    assert_eq!(bench.recorder.batches().len(), 50);
}

#[tokio::test]
async fn a_device_gets_batches_up_to_its_capacity_and_the_rest_gathers() {
    let bench = held().start();
    assert_eq!(bench.handle.snapshot().mode, Mode::Worker, "whatever the configuration says");
    let tasks: Vec<_> = (0..7).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    until(|| bench.control.batches().len() == 2).await;
    until(|| bench.handle.snapshot().batches_in_flight == 2).await;
    let waiting = bench.handle.snapshot().queued_requests;
    assert!(waiting >= 3, "two batches of at most two rows are in flight, {waiting} wait");
    assert_eq!(bench.recorder.batches().len(), 0);
    while bench.recorder.batches().iter().map(|report| report.rows).sum::<u64>() < 7 {
        assert!(bench.handle.snapshot().batches_in_flight <= 2, "never more than the capacity");
        release_any(&bench).await;
    }
    for (value, task) in (0..).zip(tasks) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
    let snapshot = bench.handle.snapshot();
    assert_eq!((snapshot.queued_requests, snapshot.queued_rows, snapshot.batches_in_flight), (0, 0, 0));
}

#[tokio::test]
async fn a_client_that_leaves_a_running_batch_takes_nobody_with_it() {
    let bench = held().start();
    let leaver = spawn(&bench.handle, request(1, 2, 1));
    until(|| bench.control.batches().len() == 1).await;
    leaver.abort();
    leaver.await.expect_err("cancelled");
    let stayer = spawn(&bench.handle, request(1, 2, 2));
    until(|| bench.control.batches().len() == 2).await;
    release(&bench, 2).await;
    assert_answers(&stayer.await.expect("no panic").expect("runs"), 1, 2, 2);
    until(|| bench.recorder.batches().len() == 2).await;
    assert!(bench.recorder.dropped().is_empty(), "it was running, so nothing was dropped");
}

#[tokio::test]
async fn the_queue_is_bounded_while_the_device_is_busy() {
    let bench = Setup { max_queue_size: 3, ..held() }.start();
    let mut tasks = Vec::new();
    for value in 0..2 {
        tasks.push(spawn(&bench.handle, request(2, 2, value)));
        until(|| bench.control.batches().len() == usize::from(value) + 1).await;
    }
    tasks.extend((2..5).map(|value| spawn(&bench.handle, request(2, 2, value))));
    until(|| bench.handle.snapshot().queued_requests == 3).await;
    assert_eq!(bench.handle.submit(request(1, 2, 9)).await.expect_err("full"), BatchError::QueueFull { max: 3 });
    tasks.pop().expect("the last").abort();
    until(|| bench.handle.snapshot().queued_requests == 2).await;
    tasks.push(spawn(&bench.handle, request(2, 2, 4)));
    until(|| tasks.iter().all(|task| bench.control.release() || task.is_finished())).await;
    for (value, task) in (0..).zip(tasks) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 2, 2, value);
    }
    assert_eq!(bench.recorder.dropped(), [DropReason::QueueFull, DropReason::Abandoned]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_fires_while_the_device_is_busy() {
    let bench = held().start();
    let running: Vec<_> = (0..2).map(|value| spawn(&bench.handle, request(2, 2, value))).collect();
    until(|| bench.control.batches().len() == 2).await;
    let started = tokio::time::Instant::now();
    let late = expiring(request(1, 2, 1), Duration::from_millis(30));
    assert_eq!(bench.handle.submit(late).await.expect_err("expires"), BatchError::Expired);
    assert_eq!(started.elapsed().as_millis(), 30);
    release(&bench, 2).await;
    for (value, task) in (0..).zip(running) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 2, 2, value);
    }
    assert_eq!(bench.control.batches().len(), 2, "the late one cost nothing");
}

#[tokio::test(start_paused = true)]
async fn a_worker_honours_the_delay() {
    let bench = Setup { delay: Duration::from_millis(5), ..worker() }.start();
    // Many rounds, so that the delay ends with the worker parked, about to park and busy.
    for round in 1..=100 {
        let started = tokio::time::Instant::now();
        let tasks: Vec<_> = (0..3).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
        for (value, task) in (0..).zip(tasks) {
            assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
        }
        assert_eq!(started.elapsed().as_millis(), 5);
        assert_eq!(bench.control.batches(), vec![[3, 2]; round]);
    }
}

#[tokio::test]
async fn stop_lets_waiting_requests_run_and_refuses_new_ones() {
    let bench = Setup { delay: Duration::from_secs(3600), ..held() }.start();
    let tasks: Vec<_> = [1, 2, 3].map(|width| spawn(&bench.handle, request(1, width, 1))).into_iter().collect();
    until(|| bench.handle.snapshot().queued_requests == 3).await;
    let handle = bench.handle.clone();
    let stopping = tokio::task::spawn_blocking(move || handle.stop());
    until(|| bench.control.batches().len() == 2).await;
    let error = bench.handle.submit(request(1, 2, 1)).await.expect_err("stopping");
    assert_eq!(error, BatchError::Stopped);
    assert_eq!(
        error.to_string(),
        "Server is stopping, scheduler for model has stopped accepting new inference requests"
    );
    assert!(!stopping.is_finished(), "two batches are in flight");
    while !stopping.is_finished() {
        release_any(&bench).await;
    }
    stopping.await.expect("no panic");
    for (width, task) in (1..).zip(tasks) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, width, 1);
    }
    assert_eq!(bench.recorder.dropped(), [DropReason::Stopped]);
    let snapshot = bench.handle.snapshot();
    assert_eq!((snapshot.queued_requests, snapshot.batches_in_flight, snapshot.instances_idle), (0, 0, 0));
    let again = bench.handle.clone();
    tokio::task::spawn_blocking(move || again.stop()).await.expect("a second stop returns");
}

#[tokio::test]
async fn stop_lets_inline_requests_run() {
    let bench = Setup { delay: Duration::from_secs(3600), ..Setup::default() }.start();
    let task = spawn(&bench.handle, request(1, 2, 1));
    until(|| bench.handle.snapshot().queued_requests == 1).await;
    let handle = bench.handle.clone();
    tokio::task::spawn_blocking(move || handle.stop()).await.expect("no panic");
    assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, 1);
}

/// Counts the live ones, and tells when one goes.
struct Counted {
    fake: FakeInstance,
    live: Arc<AtomicUsize>,
    gone: Sender<()>,
}

impl ModelInstance for Counted {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.fake.prepare(layout)
    }

    fn submit(&mut self, done: Completion) {
        self.fake.submit(done);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
        // The test may have ended.
        let _ = self.gone.send(());
    }
}

#[tokio::test]
async fn instances_are_freed_by_stop_and_by_the_last_handle() {
    for stops in [true, false] {
        let control = FakeControl::default();
        let live = Arc::new(AtomicUsize::new(2));
        let (gone, are_gone) = channel();
        let counted = || {
            let fake = FakeInstance::new(FakeMode::Inline, control.clone());
            Box::new(Counted { fake, live: Arc::clone(&live), gone: gone.clone() }) as Box<dyn ModelInstance>
        };
        let bench = worker().start_with(vec![counted(), counted()], control.clone());
        bench.handle.submit(request(1, 2, 1)).await.expect("runs");
        assert_eq!(live.load(Ordering::SeqCst), 2);
        if stops {
            let handle = bench.handle.clone();
            tokio::task::spawn_blocking(move || handle.stop()).await.expect("no panic");
            assert_eq!(live.load(Ordering::SeqCst), 0, "freed when stop returns");
        } else {
            // Threads hold the batcher's state; that it goes shows that they ended.
            drop(bench.handle);
            are_gone.recv().expect("one goes");
            are_gone.recv().expect("the other goes");
        }
    }
}

/// A device that loses batches: it drops the completion, at once or on another thread.
struct Losing {
    fake: FakeInstance,
}

impl ModelInstance for Losing {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.fake.prepare(layout)
    }

    fn submit(&mut self, done: Completion) {
        std::thread::spawn(move || drop(done));
    }

    fn completes_inline(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_lost_batch_answers_everyone_and_frees_its_place() {
    let fake = FakeInstance::new(FakeMode::Inline, FakeControl::default());
    let bench = worker().start_with(vec![Box::new(Losing { fake })], FakeControl::default());
    for _ in 0..3 {
        let error = bench.handle.submit(request(1, 2, 1)).await.expect_err("lost");
        assert_eq!(error.to_string(), "running the model failed: the engine dropped the batch without an outcome");
    }
    assert_eq!(bench.recorder.batches().iter().filter(|report| report.failed).count(), 3);
}
