//! Answers in the order of arrival over two devices that finish in any order: who waits for whom, and who for nobody.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use batching::{BatchError, BatchHandle, DropReason, InferenceRequest};
use common::{Bench, Picky, Setup, assert_answers, expiring, request, spawn, until};
use model::ModelInstance;
use model::testing::{FakeControl, FakeMode};
use tokio::task::JoinHandle;

/// Two devices, a batch of one row at a time each.
fn ordered() -> Setup {
    Setup { mode: FakeMode::Held, instances: 2, max_batch_size: 1, preserve_ordering: true, ..Setup::default() }
}

/// Notes down who is answered, in order.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<Vec<(u8, bool)>>>);

impl Answers {
    /// Submits; the note says whether the answer was a result.
    fn spawn(&self, handle: &BatchHandle, value: u8, request: InferenceRequest) -> JoinHandle<()> {
        let (notes, handle) = (self.clone(), handle.clone());
        tokio::spawn(async move {
            let outcome = handle.submit(request).await;
            notes.lock().push((value, outcome.is_ok()));
            if let Ok(inferred) = outcome {
                assert_answers(&inferred, 1, 2, value);
            }
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u8, bool)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted(&self) -> Vec<(u8, bool)> {
        self.lock().clone()
    }
}

/// Submits requests one after another, each once the one before is running and can be released.
async fn start_running(bench: &Bench, answers: &Answers, values: std::ops::Range<u8>) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for value in values {
        tasks.push(answers.spawn(&bench.handle, value, request(1, 2, value)));
        until(|| bench.control.held() == tasks.len()).await;
    }
    tasks
}

/// Lets every batch complete, the newest first, until everybody is answered.
async fn release_all(bench: &Bench, tasks: &[JoinHandle<()>]) {
    until(|| {
        let _ = bench.control.release_newest();
        tasks.iter().all(JoinHandle::is_finished)
    })
    .await;
}

async fn finish(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.expect("no panic");
    }
}

#[tokio::test]
async fn batches_that_finish_in_reverse_are_answered_in_order() {
    let bench = ordered().start();
    let answers = Answers::default();
    let tasks = start_running(&bench, &answers, 0..4).await;
    for left in (0..4).rev() {
        until(|| bench.control.release_newest()).await;
        until(|| bench.handle.snapshot().batches_in_flight == left).await;
        until(|| bench.recorder.batches().len() == 4 - left).await;
    }
    finish(tasks).await;
    assert_eq!(answers.noted(), [(0, true), (1, true), (2, true), (3, true)]);
}

#[tokio::test]
async fn without_preserve_ordering_they_are_answered_as_they_finish() {
    let bench = Setup { preserve_ordering: false, ..ordered() }.start();
    let answers = Answers::default();
    let tasks = start_running(&bench, &answers, 0..4).await;
    for answered in 1..=4 {
        until(|| bench.control.release_newest()).await;
        until(|| answers.noted().len() == answered).await;
    }
    finish(tasks).await;
    assert_eq!(answers.noted(), [(3, true), (2, true), (1, true), (0, true)]);
}

#[tokio::test]
async fn a_caller_that_leaves_a_running_batch_holds_nobody_up() {
    let bench = ordered().start();
    let answers = Answers::default();
    let leaver = spawn(&bench.handle, request(1, 2, 9));
    until(|| bench.control.held() == 1).await;
    let second = answers.spawn(&bench.handle, 1, request(1, 2, 1));
    until(|| bench.control.held() == 2).await;
    until(|| bench.control.release_newest()).await;
    until(|| bench.recorder.batches().len() == 1).await;
    assert!(answers.noted().is_empty(), "the first is still running");
    leaver.abort();
    second.await.expect("no panic");
    assert_eq!(answers.noted(), [(1, true)], "though the first batch has not finished");
    until(|| bench.control.release()).await;
    until(|| bench.handle.snapshot().batches_in_flight == 0).await;
}

#[tokio::test]
async fn a_caller_that_leaves_the_queue_holds_nobody_up() {
    let bench = ordered().start();
    let answers = Answers::default();
    let mut tasks = start_running(&bench, &answers, 0..4).await;
    let leaver = spawn(&bench.handle, request(1, 2, 9));
    until(|| bench.handle.snapshot().queued_requests == 1).await;
    tasks.push(answers.spawn(&bench.handle, 4, request(1, 2, 4)));
    until(|| bench.handle.snapshot().queued_requests == 2).await;
    leaver.abort();
    until(|| bench.handle.snapshot().queued_requests == 1).await;
    release_all(&bench, &tasks).await;
    finish(tasks).await;
    assert_eq!(answers.noted(), (0..5).map(|value| (value, true)).collect::<Vec<_>>());
    assert_eq!(bench.recorder.dropped(), [DropReason::Abandoned]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_expires_is_answered_on_time_and_holds_nobody_up() {
    let bench = ordered().start();
    let answers = Answers::default();
    let mut tasks = start_running(&bench, &answers, 0..4).await;
    let started = tokio::time::Instant::now();
    let late = spawn(&bench.handle, expiring(request(1, 2, 9), Duration::from_millis(30)));
    until(|| bench.handle.snapshot().queued_requests == 1).await;
    tasks.push(answers.spawn(&bench.handle, 4, request(1, 2, 4)));
    until(|| bench.handle.snapshot().queued_requests == 2).await;
    let answer = tokio::time::timeout(Duration::from_secs(1), late).await.expect("answered, whoever is running");
    assert_eq!(answer.expect("no panic").expect_err("expires"), BatchError::Expired);
    assert_eq!(started.elapsed().as_millis(), 30, "before anybody else is answered");
    assert!(answers.noted().is_empty());
    release_all(&bench, &tasks).await;
    finish(tasks).await;
    assert_eq!(answers.noted(), (0..5).map(|value| (value, true)).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_others_find_expired_is_answered_at_once() {
    let bench = Setup { max_queue_size: 1, ..ordered() }.start();
    let answers = Answers::default();
    let mut tasks = start_running(&bench, &answers, 0..4).await;
    let mut late = pin!(bench.handle.submit(expiring(request(1, 2, 9), Duration::from_millis(30))));
    let mut context = Context::from_waker(Waker::noop());
    assert!(late.as_mut().poll(&mut context).is_pending(), "it waits");
    tokio::time::advance(Duration::from_millis(40)).await;

    // The queue is full: the newcomer makes room.
    tasks.push(answers.spawn(&bench.handle, 4, request(1, 2, 4)));
    until(|| bench.recorder.dropped() == [DropReason::Expired]).await;
    let outcome = late.as_mut().poll(&mut context);
    assert!(matches!(outcome, Poll::Ready(Err(BatchError::Expired))), "though those before it are running");
    release_all(&bench, &tasks).await;
    finish(tasks).await;
    assert_eq!(answers.noted(), (0..5).map(|value| (value, true)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_request_that_is_refused_holds_nobody_up() {
    let bench = Setup { max_queue_size: 1, ..ordered() }.start();
    let answers = Answers::default();
    let mut tasks = start_running(&bench, &answers, 0..4).await;
    tasks.push(answers.spawn(&bench.handle, 4, request(1, 2, 4)));
    until(|| bench.handle.snapshot().queued_requests == 1).await;
    let error = bench.handle.submit(request(1, 2, 9)).await.expect_err("full");
    assert_eq!(error, BatchError::QueueFull { max: 1 });
    until(|| bench.control.release()).await;
    until(|| bench.handle.snapshot().queued_requests == 0).await;
    tasks.push(answers.spawn(&bench.handle, 5, request(1, 2, 5)));
    release_all(&bench, &tasks).await;
    finish(tasks).await;
    assert_eq!(answers.noted(), (0..6).map(|value| (value, true)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_request_that_fails_is_answered_in_its_turn_and_holds_nobody_up() {
    let control = FakeControl::default();
    let picky = |_| Box::new(Picky::new(FakeMode::Held, control.clone())) as Box<dyn ModelInstance>;
    let bench = ordered().start_with((0..2).map(picky).collect(), control.clone());
    let answers = Answers::default();
    let tasks = start_running(&bench, &answers, 8..11).await;
    release_all(&bench, &tasks).await;
    finish(tasks).await;
    assert_eq!(answers.noted(), [(8, true), (9, false), (10, true)]);
}
