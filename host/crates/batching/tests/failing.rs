//! What one request's values do to the engine costs that request and nobody else, wherever batches run; and what waits
//! to run again is in nobody's way, and nobody is left waiting for it.

mod common;

use std::time::Duration;

use batching::{BatchError, DropReason};
use common::{Bench, Picky, Setup, assert_answers, expiring, numbered, request, spawn, until};
use model::testing::{FakeControl, FakeMode};
use model::{Execution, ModelInstance};
use proptest::prelude::*;

/// A value that fails the batch it is in.
const POISON: u8 = 9;

fn picky(setup: &Setup) -> Bench {
    let control = FakeControl::default();
    let picky = |_| Box::new(Picky::new(setup.mode, control.clone())) as Box<dyn ModelInstance>;
    setup.start_with((0..setup.instances).map(picky).collect(), control.clone())
}

fn held() -> Setup {
    Setup { mode: FakeMode::Held, ..Setup::default() }
}

/// Everyone gets what he would get alone, and nothing is left behind. Batches that are held are let go.
async fn assert_each_is_answered_alone(bench: &Bench, values: &[u8]) {
    let tasks: Vec<_> = values.iter().map(|&value| spawn(&bench.handle, request(1, 2, value))).collect();
    until(|| {
        let _ = bench.control.release();
        tasks.iter().all(tokio::task::JoinHandle::is_finished)
    })
    .await;
    for (task, &value) in tasks.into_iter().zip(values) {
        match task.await.expect("no panic") {
            Ok(inferred) => assert_answers(&inferred, 1, 2, value),
            Err(error) => {
                assert_eq!((value, error.to_string().as_str()), (POISON, "running the model failed: a nine"));
            }
        }
    }
    until(|| bench.handle.snapshot().batches_in_flight == 0).await;
    assert_eq!(bench.handle.snapshot().queued_requests, 0);
    assert!(bench.recorder.dropped().is_empty(), "{:?}", bench.recorder.dropped());
    let handle = bench.handle.clone();
    tokio::task::spawn_blocking(move || handle.stop()).await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn one_bad_request_of_a_batch_fails_alone_at_few_more_runs() {
    let bench = picky(&Setup::default());
    assert_each_is_answered_alone(&bench, &[1, 2, 3, 4, 5, POISON, 7, 8]).await;
    let rows: Vec<u64> = bench.control.batches().iter().map(|shape| shape[0]).collect();
    assert_eq!(rows, [8, 4, 4, 2, 2, 1, 1]);
    let failed: Vec<_> = bench.recorder.batches().iter().filter(|report| report.failed).map(|it| it.requests).collect();
    assert_eq!(failed, [8, 4, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn with_two_bad_requests_and_none_good_each_fails_by_itself() {
    assert_each_is_answered_alone(&picky(&Setup::default()), &[1, POISON, 3, POISON, 5]).await;
    assert_each_is_answered_alone(&picky(&Setup::default()), &[POISON; 8]).await;
}

#[tokio::test]
async fn on_workers_and_on_devices_too() {
    let worker = Setup { execution: Execution::Worker, ..Setup::default() };
    for setup in [worker, Setup { instances: 2, ..held() }] {
        for _ in 0..20 {
            assert_each_is_answered_alone(&picky(&setup), &[1, 2, POISON, 4, 5, 6, 7, 8, POISON, 10, 11]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_again_keeps_its_order() {
    let bench = picky(&Setup { preserve_ordering: true, ..Setup::default() });
    assert_each_is_answered_alone(&bench, &[1, POISON, 3, 4, POISON, 6]).await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_request_costs_a_piece_of_another_nothing() {
    let bench = picky(&Setup { max_batch_size: 4, split_large_requests: true, ..Setup::default() });
    let large = spawn(&bench.handle, numbered(6, 2));
    let bad = spawn(&bench.handle, request(1, 2, POISON));
    common::assert_answers_numbered(&large.await.expect("no panic").expect("runs"), 6, 2);
    bad.await.expect("no panic").expect_err("fails");
    assert_eq!(bench.control.batches(), [[4, 2], [3, 2], [2, 2], [1, 2]]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_to_run_again_can_leave_and_expire() {
    let bench = picky(&held());
    // Two batches in flight, so that what fails has to wait for a place.
    let mut good = vec![(1, spawn(&bench.handle, request(1, 2, 1)))];
    until(|| bench.control.held() == 1).await;
    good.push((2, spawn(&bench.handle, request(1, 2, 2))));
    until(|| bench.control.held() == 2).await;
    let bad = spawn(&bench.handle, request(1, 2, POISON));
    let [left_running, left_waiting] = [3, 4].map(|value| spawn(&bench.handle, request(1, 2, value)));
    let late = spawn(&bench.handle, expiring(request(1, 2, 5), Duration::from_millis(20)));
    good.extend([6, 7].map(|value| (value, spawn(&bench.handle, request(1, 2, value)))));
    until(|| bench.handle.snapshot().queued_requests == 6).await;
    assert!(bench.control.release());
    until(|| bench.control.batches().len() == 3 && bench.control.held() == 2).await;
    left_running.abort();
    left_running.await.expect_err("it left");
    assert!(bench.control.release_newest());
    until(|| bench.control.batches().len() == 4).await;
    left_waiting.abort();
    left_waiting.await.expect_err("it left");
    assert_eq!(late.await.expect("no panic").expect_err("expires"), BatchError::Expired);
    until(|| {
        let _ = bench.control.release();
        bad.is_finished() && good.iter().all(|(_, task)| task.is_finished())
    })
    .await;
    bad.await.expect("no panic").expect_err("fails");
    for (value, task) in good {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
    until(|| bench.handle.snapshot().batches_in_flight == 0).await;
    let rows: Vec<u64> = bench.control.batches().iter().map(|shape| shape[0]).collect();
    assert_eq!(rows, [1, 1, 6, 2, 2, 1], "all six; bad and 4, which left meanwhile; 6 and 7 without the late one; bad");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_runs_past_its_deadline_is_answered_and_its_batch_runs_on() {
    let bench = held().start();
    let started = tokio::time::Instant::now();
    let late = spawn(&bench.handle, expiring(request(1, 2, 1), Duration::from_millis(30)));
    until(|| bench.control.held() == 1).await;
    assert_eq!(late.await.expect("no panic").expect_err("expires"), BatchError::Expired);
    assert_eq!(started.elapsed().as_millis(), 30);
    assert_eq!(bench.handle.snapshot().batches_in_flight, 1, "the engine cannot be stopped");
    assert!(bench.control.release());
    until(|| bench.handle.snapshot().batches_in_flight == 0).await;
    assert_eq!(bench.recorder.dropped(), [] as [DropReason; 0], "it ran");
}

#[tokio::test(start_paused = true)]
async fn the_queues_timeout_ends_with_the_wait() {
    let bench = Setup { default_timeout: Some(Duration::from_millis(20)), ..held() }.start();
    let task = spawn(&bench.handle, request(1, 2, 1));
    until(|| bench.control.held() == 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(bench.control.release());
    assert_answers(&task.await.expect("no panic").expect("the timeout is for waiting"), 1, 2, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whoever_is_bad_only_the_bad_fail(values in prop::collection::vec(5_u8..12, 1..40), instances in 1_usize..3) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let setup = Setup { max_batch_size: 16, instances, ..Setup::default() };
        runtime.block_on(async { assert_each_is_answered_alone(&picky(&setup), &values).await });
    }
}
