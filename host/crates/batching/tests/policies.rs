//! Levels and timeouts on a paused clock: who goes first, who is refused when, who moves behind whom.

mod common;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use batching::{BatchError, BatchHandle, BatcherSpec, DropReason, StartError};
use common::{Recorder, Setup, assert_answers, expiring, levels, patient, request, spawn, until, urgent};
use model::testing::{FakeControl, FakeInstance, FakeMode, fake_signature};
use model::{BatchingConfigError, Execution, Priorities, QueuePolicy, TimeoutAction};
use tokio::time::Instant;

const LONG: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn more_urgent_requests_run_first_and_less_urgent_ones_of_their_shape_with_them() {
    let bench = Setup { priorities: levels(3), ..Setup::default() }.start();
    // Width and priority; 0 and 9 lead to the default level, the last.
    let requests = [(5, 0), (4, 2), (3, 1), (4, 9), (3, 3), (6, 2)];
    let tasks = requests.map(|(width, priority)| spawn(&bench.handle, urgent(request(1, width, 1), priority)));
    for (task, (width, _)) in tasks.into_iter().zip(requests) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, width, 1);
    }
    assert_eq!(bench.control.batches(), [[2, 3], [2, 4], [1, 6], [1, 5]]);
}

#[tokio::test(start_paused = true)]
async fn each_level_is_bounded_by_its_own_policy() {
    let own = QueuePolicy { max_queue_size: NonZeroUsize::new(1).expect("1"), ..QueuePolicy::default() };
    let priorities = levels(2).map(|levels| Priorities { policies: [(1, own)].into(), ..levels });
    let bench = Setup { priorities, delay: LONG, max_queue_size: 2, ..Setup::default() }.start();
    let tasks = [1, 2, 2].map(|level| spawn(&bench.handle, urgent(request(1, 2, 1), level)));
    tokio::task::yield_now().await;
    for (level, max) in [(1, 1), (2, 2)] {
        let error = bench.handle.submit(urgent(request(1, 2, 1), level)).await.expect_err("full");
        assert_eq!((error.to_string().as_str(), error), ("Exceeds maximum queue size", BatchError::QueueFull { max }));
    }
    let snapshot = bench.handle.snapshot();
    assert_eq!((snapshot.queued_requests, snapshot.queued_requests_by_level), (3, BTreeMap::from([(1, 1), (2, 2)])));
    for task in tasks {
        task.await.expect("no panic").expect("runs");
    }
    assert_eq!(bench.handle.snapshot().queued_requests_by_level, BTreeMap::new());
    assert_eq!(bench.recorder.dropped(), [DropReason::QueueFull, DropReason::QueueFull]);
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_batch_names_the_longest_wait_whoever_leads() {
    let bench = Setup { priorities: levels(2), delay: ms(20), ..Setup::default() }.start();
    let first = spawn(&bench.handle, urgent(request(1, 2, 1), 2));
    tokio::time::sleep(ms(5)).await;
    let second = spawn(&bench.handle, urgent(request(1, 2, 2), 1));
    assert_eq!(first.await.expect("no panic").expect("runs").queue.as_millis(), 20);
    assert_eq!(second.await.expect("no panic").expect("runs").queue.as_millis(), 15);
    let [report] = bench.recorder.batches()[..] else { panic!("one batch") };
    assert_eq!((report.requests, report.queue.as_millis()), (2, 20));
}

#[tokio::test(start_paused = true)]
async fn a_request_shortens_its_timeout_only_where_the_policy_lets_it() {
    /// Default, override allowed, requested; expires after. In milliseconds.
    type Case = (Option<u64>, bool, Option<u64>, u128);
    let cases: &[Case] = &[
        (Some(30), false, None, 30),
        (Some(30), false, Some(10), 30),
        (Some(30), true, Some(10), 10),
        (Some(30), true, Some(0), 30),
        (Some(30), true, Some(50), 30),
        (None, true, Some(10), 40),
    ];
    for &(default, allow_timeout_override, requested, expected) in cases {
        let setup = Setup { delay: LONG, default_timeout: default.map(ms), allow_timeout_override, ..Setup::default() };
        let bench = setup.start();
        let started = Instant::now();
        let late = expiring(request(1, 2, 1), ms(40));
        let late = requested.map(ms).map_or(late.clone(), |timeout| patient(late, timeout));
        let error = bench.handle.submit(late).await.expect_err("expires");
        assert_eq!((error.to_string().as_str(), error), ("Request timeout expired", BatchError::Expired));
        assert_eq!(started.elapsed().as_millis(), expected, "default {default:?}, requested {requested:?}");
        assert_eq!(bench.recorder.dropped(), [DropReason::Expired]);
    }
}

/// Triton #7512: the timeout fired only when the model had finished its current batch.
#[tokio::test(start_paused = true)]
async fn a_queue_timeout_fires_while_the_device_is_busy() {
    let setup = Setup { mode: FakeMode::Held, max_batch_size: 2, ..Setup::default() };
    let bench = Setup { default_timeout: Some(ms(30)), ..setup }.start();
    let running: Vec<_> = (0..2).map(|value| spawn(&bench.handle, request(2, 2, value))).collect();
    until(|| bench.control.batches().len() == 2).await;
    let started = Instant::now();
    assert_eq!(bench.handle.submit(request(1, 2, 1)).await.expect_err("expires"), BatchError::Expired);
    assert_eq!(started.elapsed().as_millis(), 30);
    assert_eq!(bench.recorder.dropped(), [DropReason::Expired]);
    until(|| bench.control.release()).await;
    until(|| bench.control.release()).await;
    for (value, task) in (0..).zip(running) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 2, 2, value);
    }
}

fn delaying(timeout: Duration) -> Setup {
    Setup { default_timeout: Some(timeout), timeout_action: TimeoutAction::Delay, ..Setup::default() }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_runs_after_those_that_have_not_timed_out() {
    let bench = Setup { delay: ms(20), ..delaying(ms(15)) }.start();
    let started = Instant::now();
    let first = spawn(&bench.handle, request(1, 3, 1));
    tokio::time::sleep(ms(10)).await;
    let second = spawn(&bench.handle, request(1, 4, 2));
    assert_answers(&first.await.expect("no panic").expect("is not refused"), 1, 3, 1);
    assert_answers(&second.await.expect("no panic").expect("runs"), 1, 4, 2);
    assert_eq!(bench.control.batches(), [[1, 4], [1, 3]], "the first had timed out when its delay was over");
    assert_eq!(started.elapsed().as_millis(), 20);
    assert!(bench.recorder.dropped().is_empty());
}

#[tokio::test(start_paused = true)]
async fn requests_that_all_timed_out_keep_their_order() {
    let bench = Setup { delay: ms(20), allow_timeout_override: true, ..delaying(ms(15)) }.start();
    let requests = [(3, 9), (4, 6), (5, 3)];
    let tasks = requests.map(|(width, timeout)| spawn(&bench.handle, patient(request(1, width, 1), ms(timeout))));
    for task in tasks {
        task.await.expect("no panic").expect("runs");
    }
    assert_eq!(bench.control.batches(), [[1, 3], [1, 4], [1, 5]]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_delays_fires_on_time() {
    let setup = Setup { delay: LONG, preferred: vec![2, 8], allow_timeout_override: true, ..delaying(LONG * 9) };
    let bench = setup.start();
    let started = Instant::now();
    let delayed = spawn(&bench.handle, patient(request(1, 2, 1), ms(5)));
    let second = spawn(&bench.handle, request(2, 2, 2));
    assert_answers(&second.await.expect("no panic").expect("runs"), 2, 2, 2);
    assert_eq!(started.elapsed().as_millis(), 5, "its two rows are a preferred size once it is first");
    assert_answers(&delayed.await.expect("no panic").expect("runs"), 1, 2, 1);
    assert_eq!(started.elapsed().as_millis(), LONG.as_millis());
    assert_eq!(bench.control.batches(), [[2, 2], [1, 2]]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_counts_and_still_has_its_deadline() {
    let bench = Setup { delay: LONG, max_queue_size: 1, ..delaying(ms(5)) }.start();
    let started = Instant::now();
    let delayed = spawn(&bench.handle, expiring(request(1, 2, 1), ms(30)));
    tokio::time::sleep(ms(10)).await;
    let error = bench.handle.submit(request(1, 2, 2)).await.expect_err("full");
    assert_eq!(error, BatchError::QueueFull { max: 1 });
    assert_eq!(delayed.await.expect("no panic").expect_err("expires"), BatchError::Expired);
    assert_eq!(started.elapsed().as_millis(), 30);
    assert_eq!(bench.recorder.dropped(), [DropReason::QueueFull, DropReason::Expired]);
}

#[tokio::test(start_paused = true)]
async fn the_timer_of_a_delayed_request_answers_others_that_have_expired() {
    let bench = Setup { delay: LONG, ..delaying(ms(20)) }.start();
    let expired = bench.handle.submit(expiring(request(1, 2, 1), ms(10)));
    let mut expired = std::pin::pin!(expired);
    // Polled once and no more, so that its own timer does not count.
    assert!(tokio::time::timeout(Duration::ZERO, expired.as_mut()).await.is_err());
    let delayed = spawn(&bench.handle, request(1, 2, 2));
    tokio::time::sleep(ms(25)).await;
    assert_eq!(bench.recorder.dropped(), [DropReason::Expired]);
    assert_eq!(expired.await.expect_err("expired unpolled"), BatchError::Expired);
    assert_answers(&delayed.await.expect("no panic").expect("runs"), 1, 2, 2);
}

#[tokio::test(start_paused = true)]
async fn a_batcher_whose_configuration_contradicts_itself_does_not_start() {
    let setup = Setup { preserve_ordering: true, priorities: levels(2), ..Setup::default() };
    let control = FakeControl::default();
    let error = BatchHandle::start(BatcherSpec {
        name: "fake/1".to_owned(),
        signature: Arc::new(fake_signature()),
        assembly: None,
        max_batch_size: 8,
        config: setup.config(),
        execution: Execution::Worker,
        instances: vec![Box::new(FakeInstance::new(FakeMode::Inline, control))],
        rate_limits: None,
        observer: Arc::new(Recorder::default()),
        held_until: 0,
    })
    .err()
    .expect("refused");
    assert_eq!(
        error.to_string(),
        "model 'fake/1' cannot batch as configured: preserve_ordering allows one priority level, priority_levels is 2; drop the one or the other"
    );
    let StartError::Config { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source, BatchingConfigError::OrderAcrossLevels { levels: 2 });
}

#[tokio::test(start_paused = true)]
async fn a_held_batcher_runs_once_enough_requests_wait() {
    for execution in [Execution::Inline, Execution::Worker] {
        let setup = Setup { held_until: 3, execution, delay: Duration::from_millis(1), ..Setup::default() };
        let bench = setup.start();
        let mut tasks: Vec<_> = (0..2).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(bench.control.batches().is_empty(), "two of three");
        tasks.push(spawn(&bench.handle, request(1, 2, 2)));
        for (value, task) in (0..).zip(tasks) {
            assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
        }
        assert_eq!(bench.control.batches(), [[3, 2]]);
        let alone = bench.handle.submit(request(1, 2, 7)).await.expect("from now on nobody is held");
        assert_answers(&alone, 1, 2, 7);
    }
}

#[tokio::test]
async fn what_a_held_batcher_has_waiting_runs_when_it_stops() {
    let bench = Setup { held_until: 3, execution: Execution::Worker, ..Setup::default() }.start();
    let task = spawn(&bench.handle, request(1, 2, 1));
    until(|| bench.handle.snapshot().queued_requests == 1).await;
    let handle = bench.handle.clone();
    tokio::task::spawn_blocking(move || handle.stop()).await.expect("stops");
    assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, 1);
}
