//! Batchers that share resources: who has none waits without a thread, runs once they are free, and gives back what it
//! does not use.

mod common;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use batching::{BatchError, BatchHandle, BatcherSpec, RateLimiter, RateLimits};
use common::{Recorder, assert_answers, request, spawn, until};
use model::testing::{FakeControl, FakeInstance, FakeMode, fake_signature};
use model::{BatchingConfig, Execution, ModelInstance, RateLimit, RateResource, RateScope};

struct Limited {
    handle: BatchHandle,
    control: FakeControl,
}

/// A batcher whose instances need `needs[i]` of one resource; 0 needs nothing.
fn start(limiter: &RateLimiter, mode: FakeMode, execution: Execution, needs: &[u32]) -> Limited {
    start_with(limiter, mode, execution, needs.iter().map(|&need| limit(need)).collect())
}

/// A batcher with an instance for each limit.
fn start_with(limiter: &RateLimiter, mode: FakeMode, execution: Execution, limits: Vec<RateLimit>) -> Limited {
    let control = FakeControl::default();
    let instance = |_: &RateLimit| Box::new(FakeInstance::new(mode, control.clone())) as Box<dyn ModelInstance>;
    let handle = BatchHandle::start(BatcherSpec {
        name: "fake/1".to_owned(),
        signature: Arc::new(fake_signature()),
        assembly: None,
        max_batch_size: 8,
        config: BatchingConfig::default(),
        execution,
        instances: limits.iter().map(instance).collect(),
        rate_limits: Some(RateLimits { limiter: limiter.clone(), limits }),
        observer: Arc::new(Recorder::default()),
        held_until: 0,
    })
    .expect("starts");
    Limited { handle, control }
}

fn limit(need: u32) -> RateLimit {
    let resource = |count| RateResource { name: "r".into(), scope: RateScope::Device, count };
    RateLimit { resources: NonZeroU32::new(need).map(resource).into_iter().collect(), priority: NonZeroU32::MIN }
}

/// One of each.
fn limit_of(names: &[&str]) -> RateLimit {
    let resource =
        |name: &&str| RateResource { name: (*name).into(), scope: RateScope::Global, count: NonZeroU32::MIN };
    RateLimit { resources: names.iter().map(resource).collect(), priority: NonZeroU32::MIN }
}

fn held(limiter: &RateLimiter) -> u32 {
    limiter.resources().iter().map(|(.., held)| held).sum()
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_its_resources_and_runs_when_another_model_gives_them_back() {
    let limiter = RateLimiter::default();
    let first = start(&limiter, FakeMode::Held, Execution::Worker, &[1]);
    let second = start(&limiter, FakeMode::Inline, Execution::Inline, &[1]);
    let running = spawn(&first.handle, request(1, 2, 1));
    until(|| first.control.held() == 1).await;
    let waiting: Vec<_> = (2..5).map(|value| spawn(&second.handle, request(1, 2, value))).collect();
    until(|| second.handle.snapshot().queued_requests == 3).await;
    assert_eq!((second.control.batches().len(), held(&limiter)), (0, 1));
    assert!(first.control.release());
    assert_answers(&running.await.expect("no panic").expect("runs"), 1, 2, 1);
    for (value, task) in (2..).zip(waiting) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
    assert_eq!(second.control.batches(), [[3, 2]], "what waited is one batch");
    assert_eq!(held(&limiter), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_thread_still_run_together() {
    let limiter = RateLimiter::default();
    let bench = start(&limiter, FakeMode::Inline, Execution::Inline, &[1]);
    let tasks: Vec<_> = (0..5).map(|value| spawn(&bench.handle, request(1, 2, value))).collect();
    for (value, task) in (0..).zip(tasks) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
    assert_eq!((bench.control.batches(), held(&limiter)), (vec![vec![5, 2]], 0));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_needs_nothing_does_not_wait() {
    let limiter = RateLimiter::default();
    let other = start(&limiter, FakeMode::Held, Execution::Worker, &[1]);
    let running = spawn(&other.handle, request(1, 2, 1));
    until(|| other.control.held() == 1).await;
    let bench = start(&limiter, FakeMode::Inline, Execution::Inline, &[1, 0]);
    assert_answers(&bench.handle.submit(request(1, 2, 2)).await.expect("on the second instance"), 1, 2, 2);
    assert!(other.control.release());
    running.await.expect("no panic").expect("runs");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_or_expires_while_it_waits_gives_nobody_a_permit_too_few() {
    let limiter = RateLimiter::default();
    let first = start(&limiter, FakeMode::Held, Execution::Worker, &[1]);
    let [leaving, expiring, staying] = [(); 3].map(|()| start(&limiter, FakeMode::Inline, Execution::Inline, &[1]));
    let running = spawn(&first.handle, request(1, 2, 1));
    until(|| first.control.held() == 1).await;
    let left = spawn(&leaving.handle, request(1, 2, 2));
    until(|| leaving.handle.snapshot().queued_requests == 1).await;
    let expired = spawn(&expiring.handle, common::expiring(request(1, 2, 3), Duration::from_millis(5)));
    until(|| expiring.handle.snapshot().queued_requests == 1).await;
    let stayed = spawn(&staying.handle, request(1, 2, 4));
    until(|| staying.handle.snapshot().queued_requests == 1).await;
    left.abort();
    assert_eq!(expired.await.expect("no panic").expect_err("late"), BatchError::Expired);
    assert!(first.control.release());
    running.await.expect("no panic").expect("runs");
    assert_answers(&stayed.await.expect("no panic").expect("it is next"), 1, 2, 4);
    assert_eq!(held(&limiter), 0);
}

#[tokio::test(start_paused = true)]
async fn a_free_resource_is_used_once_who_waited_ahead_for_more_has_expired() {
    let limiter = RateLimiter::default();
    let long = start_with(&limiter, FakeMode::Held, Execution::Worker, vec![limit_of(&["x"])]);
    let [both, other] = [&["x", "y"][..], &["y"]]
        .map(|names| start_with(&limiter, FakeMode::Inline, Execution::Inline, vec![limit_of(names)]));
    let running = spawn(&long.handle, request(1, 2, 1));
    until(|| long.control.held() == 1).await;
    let expired = spawn(&both.handle, common::expiring(request(1, 2, 2), Duration::from_millis(5)));
    until(|| both.handle.snapshot().queued_requests == 1).await;
    let behind = spawn(&other.handle, request(1, 2, 3));
    until(|| other.handle.snapshot().queued_requests == 1).await;
    assert_eq!(expired.await.expect("no panic").expect_err("late"), BatchError::Expired);
    let answer = tokio::time::timeout(Duration::from_secs(1), behind).await.expect("nobody waits ahead");
    assert_answers(&answer.expect("no panic").expect("runs"), 1, 2, 3);
    assert_eq!(long.control.held(), 1, "it still runs");
    assert!(long.control.release());
    running.await.expect("no panic").expect("runs");
    assert_eq!(held(&limiter), 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_gives_its_permit_back() {
    let limiter = RateLimiter::default();
    let [first, second] = [(); 2].map(|()| start(&limiter, FakeMode::Inline, Execution::Inline, &[1]));
    {
        let mut leader = std::pin::pin!(first.handle.submit(request(1, 2, 1)));
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(leader.as_mut().poll(context))).await;
        assert!(polled.is_pending() && held(&limiter) == 1, "it yields with its permit");
    }
    assert_eq!(held(&limiter), 0);
    assert_answers(&second.handle.submit(request(1, 2, 2)).await.expect("free"), 1, 2, 2);
}

/// It would keep what the others wait for until its model is idle.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_retired_leaves_its_turn_to_those_that_still_run() {
    let limiter = RateLimiter::default();
    let first = start(&limiter, FakeMode::Held, Execution::Worker, &[1]);
    let second = start(&limiter, FakeMode::Inline, Execution::Inline, &[1, 1]);
    let running = spawn(&first.handle, request(1, 2, 1));
    until(|| first.control.held() == 1).await;
    // Of different shapes, so that they are three batches.
    let waiting: Vec<_> = (2..5).map(|value| spawn(&second.handle, request(1, value.into(), value))).collect();
    until(|| second.handle.snapshot().queued_requests == 3).await;
    second.handle.keep_instances(NonZeroUsize::MIN);
    assert!(first.control.release());
    assert_answers(&running.await.expect("no panic").expect("runs"), 1, 2, 1);
    for (value, task) in (2..5).zip(waiting) {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, value.into(), value);
    }
    assert_eq!(held(&limiter), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_or_panics_gives_back_what_it_held() {
    let limiter = RateLimiter::default();
    let bench = start(&limiter, FakeMode::Failing, Execution::Inline, &[1]);
    assert!(bench.handle.submit(request(1, 2, 1)).await.is_err());
    let wrong = request(1, 2, 1);
    let wrong = batching::InferenceRequest { inputs: vec![wrong.inputs[0].clone(), wrong.inputs[0].clone()], ..wrong };
    assert!(bench.handle.submit(wrong).await.is_err(), "the fake panics at a second input");
    assert_eq!(held(&limiter), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batcher_that_could_never_run_does_not_start() {
    let limiter = RateLimiter::new([("r".into(), NonZeroU32::MIN)].into());
    let error = BatchHandle::start(BatcherSpec {
        name: "fake/1".to_owned(),
        signature: Arc::new(fake_signature()),
        assembly: None,
        max_batch_size: 8,
        config: BatchingConfig::default(),
        execution: Execution::Inline,
        instances: vec![Box::new(FakeInstance::new(FakeMode::Inline, FakeControl::default()))],
        rate_limits: Some(RateLimits { limiter: limiter.clone(), limits: vec![limit(2)] }),
        observer: Arc::new(Recorder::default()),
        held_until: 0,
    })
    .err()
    .expect("2 of 1");
    assert_eq!(
        error.to_string(),
        "model 'fake/1' cannot run: resource 'r' is limited to 1 and an instance needs 2; raise it with \
         --rate-limit-resource, or lower the count in rate_limiter"
    );
    assert_eq!(limiter.resources(), [], "nothing is left of it");
}

/// Several threads, models in every mode, more instances than resources: all requests are answered, and while they run
/// no more is held than there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_models_on_many_threads_share_a_resource() {
    let limiter = RateLimiter::new([("r".into(), NonZeroU32::new(3).expect("3"))].into());
    let models = [
        start(&limiter, FakeMode::Inline, Execution::Inline, &[1, 2]),
        start(&limiter, FakeMode::Inline, Execution::Worker, &[3, 1]),
        start(&limiter, FakeMode::Inline, Execution::Auto, &[2]),
        start(&limiter, FakeMode::Inline, Execution::Inline, &[1]),
    ];
    let mut tasks = Vec::new();
    for round in 0..400_u32 {
        for model in &models {
            let value = u8::try_from(round % 250).expect("below 250");
            let task = spawn(&model.handle, request(1, 2, value));
            // Some callers leave.
            if round % 7 == 0 {
                task.abort();
            } else {
                tasks.push((value, task));
            }
        }
        if round % 50 == 0 {
            tokio::task::yield_now().await;
            assert!(held(&limiter) <= 3);
        }
    }
    for (value, task) in tasks {
        assert_answers(&task.await.expect("no panic").expect("runs"), 1, 2, value);
    }
    let handles: Vec<_> = models.iter().map(|model| model.handle.clone()).collect();
    tokio::task::spawn_blocking(move || handles.iter().for_each(BatchHandle::stop)).await.expect("they stop");
    until(|| held(&limiter) == 0).await;
}
