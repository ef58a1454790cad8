//! The driver on a paused clock, inline and on one thread: what runs with what, when, and who is told.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use batching::{BatchError, BatchHandle, BatcherSpec, DropReason, Mode};
use common::{Recorder, Setup, assert_answers, expiring, request, spawn};
use model::testing::{FakeControl, FakeMode, fake_signature};
use model::{BatchLayout, BatchingConfig, Completion, EngineError, Execution, ModelInstance, Slot};
use tokio::time::Instant;

const DELAY: Duration = Duration::from_millis(5);

#[tokio::test(start_paused = true)]
async fn a_lone_request_runs_at_once() {
    let bench = Setup::default().start();
    let started = Instant::now();
    let inferred = bench.handle.submit(request(2, 3, 7)).await.expect("runs");
    assert_answers(&inferred, 2, 3, 7);
    assert_eq!(inferred.batch_rows, 2);
    assert_eq!(started.elapsed(), Duration::ZERO, "no timer on the way");
    let [report] = bench.recorder.batches()[..] else { panic!("one batch") };
    assert_eq!((report.rows, report.requests, report.failed), (2, 1, false));
    assert!(bench.recorder.dropped().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_ready_requests_of_a_thread_run_as_one_batch() {
    let bench = Setup::default().start();
    let tasks: Vec<_> = (0..5).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    for (value, task) in (0..).zip(tasks) {
        let inferred = task.await.expect("no panic").expect("runs");
        assert_answers(&inferred, 1, 2, value);
        assert_eq!(inferred.batch_rows, 5);
    }
    assert_eq!(bench.control.batches(), [[5, 2]]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_one_batch_is_handed_on() {
    let bench = Setup::default().start();
    let tasks: Vec<_> = (0..20).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    for (value, task) in (0..).zip(tasks) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
    assert_eq!(bench.control.batches(), [[8, 2], [8, 2], [4, 2]]);
}

#[tokio::test(start_paused = true)]
async fn shapes_never_mix() {
    let bench = Setup::default().start();
    let widths = [3, 4, 3, 5, 4, 3];
    let tasks: Vec<_> = widths.map(|width| spawn(&bench.handle, request(1, width, 1))).into_iter().collect();
    for (width, task) in widths.into_iter().zip(tasks) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, width, 1);
    }
    assert_eq!(bench.control.batches(), [[3, 3], [2, 4], [1, 5]]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_batch_runs_requests_alone() {
    let bench = Setup { max_batch_size: 0, ..Setup::default() }.start();
    let tasks: Vec<_> = (0..3).map(|value| spawn(&bench.handle, request(4, 2, value))).collect();
    for (value, task) in (0..).zip(tasks) {
        let inferred = task.await.expect("no panic").expect("runs");
        assert_answers(&inferred, 4, 2, value);
        assert_eq!(inferred.batch_rows, 4);
    }
    assert_eq!(bench.control.batches(), [[4, 2], [4, 2], [4, 2]]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_gathers_requests_until_it_is_over() {
    let bench = Setup { delay: DELAY, ..Setup::default() }.start();
    let started = Instant::now();
    let first = spawn(&bench.handle, request(1, 2, 1));
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert!(bench.control.batches().is_empty(), "it waits for others");
    let second = spawn(&bench.handle, request(2, 2, 2));
    let inferred = first.await.expect("no panic").expect("runs");
    assert_eq!(started.elapsed().as_millis(), DELAY.as_millis(), "the oldest one's delay, not the second's");
    assert_eq!((inferred.queue.as_millis(), inferred.batch_rows), (DELAY.as_millis(), 3));
    second.await.expect("no panic").expect("runs");
    assert_eq!(bench.control.batches(), [[3, 2]]);
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_does_not_wait_for_its_delay() {
    let bench = Setup { delay: DELAY, ..Setup::default() }.start();
    let started = Instant::now();
    let first = spawn(&bench.handle, request(3, 2, 1));
    let second = spawn(&bench.handle, request(5, 2, 2));
    first.await.expect("no panic").expect("runs");
    second.await.expect("no panic").expect("runs");
    assert_eq!((started.elapsed(), bench.control.batches()), (Duration::ZERO, vec![vec![8, 2]]));
}

#[tokio::test(start_paused = true)]
async fn the_delay_of_who_stays_counts_when_the_oldest_leaves() {
    let bench = Setup { delay: DELAY, ..Setup::default() }.start();
    let started = Instant::now();
    let leaver = spawn(&bench.handle, request(1, 2, 1));
    tokio::time::sleep(Duration::from_millis(3)).await;
    let stayer = spawn(&bench.handle, request(1, 2, 2));
    tokio::task::yield_now().await;
    leaver.abort();
    assert_answers(&stayer.await.expect("no panic").expect("runs"), 1, 2, 2);
    assert_eq!(started.elapsed().as_millis(), 8);
    assert_eq!(bench.recorder.dropped(), [DropReason::Abandoned]);
}

#[tokio::test(start_paused = true)]
async fn a_request_past_its_deadline_costs_no_engine_time() {
    let bench = Setup::default().start();
    let error = bench.handle.submit(expiring(request(1, 2, 1), Duration::ZERO)).await.expect_err("late already");
    assert_eq!((error.to_string().as_str(), error), ("Request timeout expired", BatchError::Expired));
    assert!(bench.control.batches().is_empty());
    assert_eq!(bench.recorder.dropped(), [DropReason::Expired]);
    bench.handle.submit(request(1, 2, 1)).await.expect("the batcher goes on");
}

#[tokio::test(start_paused = true)]
async fn the_queues_timeout_and_the_requests_deadline_count_whichever_is_first() {
    let timeout = Duration::from_millis(20);
    let delay = Duration::from_secs(1);
    let bench = Setup { delay, default_timeout: Some(timeout), ..Setup::default() }.start();
    for (deadline, expected_ms) in [(50, 20), (10, 10)] {
        let started = Instant::now();
        let late = expiring(request(1, 2, 1), Duration::from_millis(deadline));
        assert_eq!(bench.handle.submit(late).await.expect_err("expires"), BatchError::Expired);
        assert_eq!(started.elapsed().as_millis(), expected_ms);
    }
    assert_eq!(bench.recorder.dropped(), [DropReason::Expired, DropReason::Expired]);
    assert_eq!(bench.handle.snapshot().queued_requests, 0);
}

#[tokio::test(start_paused = true)]
async fn the_queue_bound_is_exact_and_an_expired_request_makes_room() {
    let delay = Duration::from_secs(1);
    let bench = Setup { delay, max_queue_size: 2, ..Setup::default() }.start();
    let mut first = pin!(bench.handle.submit(expiring(request(1, 2, 1), Duration::from_millis(10))));
    assert!(poll_once(first.as_mut()).is_pending());
    let second = spawn(&bench.handle, request(1, 2, 2));
    tokio::task::yield_now().await;
    let error = bench.handle.submit(request(1, 2, 3)).await.expect_err("the third");
    assert_eq!((error.to_string().as_str(), error), ("Exceeds maximum queue size", BatchError::QueueFull { max: 2 }));
    assert_eq!(bench.recorder.dropped(), [DropReason::QueueFull]);

    tokio::time::advance(Duration::from_millis(20)).await;
    let third = spawn(&bench.handle, request(1, 2, 3));
    assert_answers(&second.await.expect("no panic").expect("runs"), 1, 2, 2);
    assert_answers(&third.await.expect("no panic").expect("runs"), 1, 2, 3);
    assert_eq!(first.await.expect_err("expired unpolled"), BatchError::Expired);
    assert_eq!(bench.recorder.dropped(), [DropReason::QueueFull, DropReason::Expired]);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_request_costs_no_engine_time() {
    let bench = Setup::default().start();
    {
        let mut abandoned = pin!(bench.handle.submit(request(1, 2, 1)));
        assert!(poll_once(abandoned.as_mut()).is_pending(), "it yields first");
        assert_eq!(bench.handle.snapshot().queued_requests, 1);
    }
    assert_eq!(bench.handle.snapshot().queued_requests, 0);
    assert_eq!(bench.recorder.dropped(), [DropReason::Abandoned]);
    bench.handle.submit(request(1, 2, 2)).await.expect("runs");
    assert_eq!(bench.control.batches(), [[1, 2]]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_engine_reaches_every_request_of_the_batch_once() {
    let bench = Setup { mode: FakeMode::Failing, ..Setup::default() }.start();
    let tasks: Vec<_> = (0..3).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    for task in tasks {
        let error = task.await.expect("no panic").expect_err("fails");
        assert_eq!(error.to_string(), "running the model failed: the fake was told to fail");
    }
    let batches: Vec<_> = bench.recorder.batches().iter().map(|report| (report.requests, report.failed)).collect();
    assert_eq!(batches, [(3, true), (1, true), (2, true), (1, true), (1, true)], "until each has failed alone");
    assert_eq!(bench.handle.snapshot().run_time_ewma, None, "a failure proves nothing about run times");
}

/// Panics where it is told to.
struct Panicking {
    in_prepare: bool,
}

impl ModelInstance for Panicking {
    fn prepare(&mut self, _: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        assert!(!self.in_prepare, "prepare was told to panic");
        Ok(self)
    }

    fn submit(&mut self, _: Completion) {
        panic!("submit was told to panic");
    }
}

impl Slot for Panicking {
    fn append(&mut self, _: usize, _: &[u8]) {}
}

#[tokio::test(start_paused = true)]
async fn a_panicking_engine_answers_everyone_and_the_batcher_goes_on() {
    for (in_prepare, execution) in
        [(true, Execution::Inline), (false, Execution::Inline), (true, Execution::Worker), (false, Execution::Worker)]
    {
        let setup = Setup { execution, ..Setup::default() };
        let bench = setup.start_with(vec![Box::new(Panicking { in_prepare })], FakeControl::default());
        for _ in 0..2 {
            let tasks: Vec<_> = (0..3).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
            for task in tasks {
                let error = task.await.expect("the request's task does not panic").expect_err("fails");
                assert!(matches!(error, BatchError::Engine(EngineError::Run(_))), "{error}");
            }
        }
        let handle = bench.handle.clone();
        tokio::task::spawn_blocking(move || handle.stop()).await.expect("stops");
        let snapshot = bench.handle.snapshot();
        assert_eq!((snapshot.queued_requests, snapshot.batches_in_flight), (0, 0));
        assert!(bench.recorder.batches().iter().all(|report| report.failed));
    }
}

/// Refuses every batch for want of memory.
struct Exhausted;

impl ModelInstance for Exhausted {
    fn prepare(&mut self, _: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        Err(EngineError::Memory { bytes: 12 })
    }

    fn submit(&mut self, _: Completion) {
        unreachable!("nothing was prepared");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_gets_no_memory_fails_with_the_engines_words() {
    let bench = Setup::default().start_with(vec![Box::new(Exhausted)], FakeControl::default());
    let error = bench.handle.submit(request(1, 2, 1)).await.expect_err("no memory");
    assert_eq!(error, BatchError::Engine(EngineError::Memory { bytes: 12 }));
}

#[tokio::test(start_paused = true)]
async fn a_delay_and_a_timeout_past_the_end_of_the_clock_do_not_panic() {
    let endless = Duration::MAX;
    let bench = Setup { delay: endless, default_timeout: Some(endless), ..Setup::default() }.start();
    let first = spawn(&bench.handle, request(4, 2, 1));
    let second = spawn(&bench.handle, request(4, 2, 2));
    assert_answers(&first.await.expect("no panic").expect("runs once full"), 4, 2, 1);
    assert_answers(&second.await.expect("no panic").expect("runs once full"), 4, 2, 2);
}

#[tokio::test(start_paused = true)]
async fn a_batcher_without_an_instance_does_not_start() {
    let error = BatchHandle::start(BatcherSpec {
        name: "fake/1".to_owned(),
        signature: Arc::new(fake_signature()),
        assembly: None,
        max_batch_size: 8,
        config: BatchingConfig::default(),
        execution: Execution::Inline,
        instances: Vec::new(),
        rate_limits: None,
        observer: Arc::new(Recorder::default()),
        held_until: 0,
    })
    .err()
    .expect("no instance");
    assert_eq!(error.to_string(), "model 'fake/1' has no instance to run batches on");
}

#[tokio::test(start_paused = true)]
async fn auto_starts_on_a_worker_and_moves_inline_once_a_run_was_short() {
    let bench = Setup { execution: Execution::Auto, ..Setup::default() }.start();
    assert_eq!(bench.handle.snapshot().mode, Mode::Worker);
    bench.handle.submit(request(1, 2, 1)).await.expect("runs");
    let snapshot = bench.handle.snapshot();
    assert_eq!((snapshot.mode, snapshot.run_time_ewma), (Mode::Inline, Some(Duration::ZERO)));
    bench.handle.submit(request(1, 2, 1)).await.expect("runs inline");
    assert_eq!(bench.control.batches().len(), 2);
}

/// Nobody to wake.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Nobody))))
}
