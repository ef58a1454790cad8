//! More and fewer instances while requests are served.

mod common;

use std::num::NonZeroUsize;

use common::{Bench, Setup, assert_answers, request, spawn, until};
use model::testing::{FakeInstance, FakeMode};
use model::{Execution, ModelInstance};

fn more(bench: &Bench, mode: FakeMode, count: usize) -> Vec<Box<dyn ModelInstance>> {
    (0..count).map(|_| Box::new(FakeInstance::new(mode, bench.control.clone())) as Box<dyn ModelInstance>).collect()
}

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).expect("not zero")
}

#[tokio::test]
async fn instances_that_are_added_take_what_waits() {
    let setup = Setup { mode: FakeMode::Held, max_batch_size: 1, execution: Execution::Worker, ..Setup::default() };
    let bench = setup.start();
    let tasks: Vec<_> = (0..6).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    until(|| bench.control.held() == 2).await;
    assert_eq!((bench.handle.instances(), bench.handle.snapshot().queued_requests), (1, 4));
    bench.handle.add_instances(more(&bench, FakeMode::Held, 2)).expect("threads");
    until(|| bench.control.held() == 6).await;
    assert_eq!((bench.handle.instances(), bench.handle.snapshot().queued_requests), (3, 0));
    until(|| bench.control.release() || tasks.iter().all(tokio::task::JoinHandle::is_finished)).await;
    until(|| {
        let _ = bench.control.release();
        tasks.iter().all(tokio::task::JoinHandle::is_finished)
    })
    .await;
    for (value, task) in (0..).zip(tasks) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
}

#[tokio::test]
async fn instances_that_are_retired_finish_what_they_run() {
    let setup = Setup {
        mode: FakeMode::Held,
        instances: 3,
        max_batch_size: 1,
        execution: Execution::Worker,
        ..Setup::default()
    };
    let bench = setup.start();
    let running: Vec<_> = (0..6).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    until(|| bench.control.held() == 6).await;
    bench.handle.keep_instances(count(1));
    assert_eq!(bench.handle.instances(), 1);
    let waiting = spawn(&bench.handle, request(1, 2, 9));
    until(|| bench.handle.snapshot().queued_requests == 1).await;
    until(|| {
        let _ = bench.control.release();
        running.iter().all(tokio::task::JoinHandle::is_finished) && waiting.is_finished()
    })
    .await;
    for (value, task) in (0..).zip(running) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
    assert_answers(&waiting.await.expect("no panic").expect("runs"), 1, 2, 9);
    // Two batches at most are in flight on the one that is left.
    let later: Vec<_> = (0..5).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    until(|| bench.control.held() == 2).await;
    assert_eq!((bench.handle.snapshot().batches_in_flight, bench.handle.snapshot().queued_requests), (2, 3));
    until(|| {
        let _ = bench.control.release();
        later.iter().all(tokio::task::JoinHandle::is_finished)
    })
    .await;
    let handle = bench.handle.clone();
    tokio::task::spawn_blocking(move || handle.stop()).await.expect("stops");
}

#[tokio::test]
async fn growing_and_shrinking_under_load_loses_nobody() {
    for (mode, execution) in [
        (FakeMode::Inline, Execution::Inline),
        (FakeMode::Inline, Execution::Worker),
        (FakeMode::Inline, Execution::Auto),
    ] {
        let bench = Setup { mode, execution, max_batch_size: 4, max_queue_size: 1024, ..Setup::default() }.start();
        for round in 0..50_u8 {
            let tasks: Vec<_> = (0..8).map(|_| spawn(&bench.handle, request(1, 2, round))).collect();
            match round % 3 {
                0 => bench.handle.add_instances(more(&bench, mode, 2)).expect("threads"),
                1 => bench.handle.keep_instances(count(1)),
                _ => bench.handle.keep_instances(count(2)),
            }
            for task in tasks {
                assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, round);
            }
        }
        bench.handle.keep_instances(count(1));
        assert_eq!(bench.handle.instances(), 1);
        until(|| bench.handle.snapshot().instances_idle == 1).await;
        let handle = bench.handle.clone();
        tokio::task::spawn_blocking(move || handle.stop()).await.expect("stops");
    }
}
