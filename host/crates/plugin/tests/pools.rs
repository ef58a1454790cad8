//! Warm instances, their limits and the line for them; imports; where stages run; the epoch's clock.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Host, Subject, call, host, host_with, soon};
use plugin::{
    DropReason, Dropped, Limits, MetricKind, Placement, PlacementPolicy, Plugin, PluginError, PluginFailure, Reuse,
    Stage, WarmPolicy,
};
use tokio::time::Instant;

fn warm(change: impl FnOnce(&mut WarmPolicy)) -> Reuse {
    let mut policy = WarmPolicy::default();
    change(&mut policy);
    Reuse::Warm(policy)
}

#[tokio::test]
async fn a_warm_instance_remembers_and_a_fresh_one_does_not() {
    let host = host();
    let warm = host.plugin("counter");
    let fresh = host.plugin_with("counter", |spec| spec.reuse = Reuse::Fresh);
    for expected in ["1", "2", "3"] {
        assert_eq!(warm.answer(b"").await, expected);
        assert_eq!(fresh.answer(b"").await, "1");
    }
    let (warm, fresh) = (warm.plugin.snapshot(), fresh.plugin.snapshot());
    assert_eq!((warm.warm, warm.created_total, warm.recycled_total()), (1, 1, 0));
    assert_eq!((fresh.warm, fresh.created_total, fresh.dropped(DropReason::Fresh)), (0, 3, 3));
    assert_eq!(host.runtime.snapshot().instances, 1);
}

#[tokio::test]
async fn an_instance_is_replaced_after_its_calls() {
    let host = host();
    let subject = host.plugin_with("counter", |spec| spec.reuse = warm(|policy| policy.calls_max = 2));
    for expected in ["1", "2", "1", "2", "1"] {
        assert_eq!(subject.answer(b"").await, expected);
    }
    assert_eq!(subject.plugin.snapshot().dropped(DropReason::Calls), 2);
}

#[tokio::test]
async fn an_instance_that_grew_large_is_replaced() {
    let host = host();
    let reuse = warm(|policy| policy.memory_bytes_kept_max = 8 * 65_536);
    let subject = host.plugin_with("grow", |spec| spec.reuse = reuse);
    assert_eq!(subject.answer(b"\x06").await, "\x08");
    assert_eq!(subject.answer(b"\x01").await, "\x09", "kept at the limit, and memory never shrinks");
    assert_eq!(subject.plugin.snapshot().dropped(DropReason::Memory), 1);
    assert_eq!(subject.answer(b"\x01").await, "\x03", "a new one");
}

#[tokio::test]
async fn idle_instances_are_swept() {
    let host = host();
    let subject =
        host.plugin_with("counter", |spec| spec.reuse = warm(|policy| policy.idle_max = Duration::from_secs(9)));
    subject.answer(b"").await;
    subject.plugin.sweep(Instant::now());
    assert_eq!(subject.plugin.snapshot().warm, 1);
    subject.plugin.sweep(Instant::now() + Duration::from_secs(9));
    assert_eq!((subject.plugin.snapshot().warm, subject.plugin.snapshot().dropped(DropReason::Idle)), (0, 1));
    assert_eq!(host.runtime.snapshot().instances, 0);
}

#[tokio::test]
async fn a_retired_generation_keeps_nothing_and_still_answers() {
    let host = host();
    let subject = host.plugin("counter");
    subject.answer(b"").await;
    subject.plugin.retire();
    assert_eq!(host.runtime.snapshot().instances, 0);
    assert_eq!(subject.answer(b"").await, "1", "a request that pinned it finishes");
    assert_eq!(subject.plugin.snapshot().dropped(DropReason::Retired), 2);
    assert_eq!(host.runtime.snapshot().instances, 0);
}

/// A host with room for one instance, and a plugin that holds it in an endless loop until the task is aborted.
async fn full_host(change: impl FnOnce(&mut plugin::RuntimeConfig)) -> (Host, tokio::task::JoinHandle<()>) {
    let host = host_with(|config| {
        config.instances_max = 1;
        change(config);
    });
    let holder = host.plugin("loop");
    let plugin = Arc::clone(&holder.plugin);
    let holding = tokio::spawn(async move {
        let _ = plugin.preprocess(&call(), Bytes::from_static(b"x"), soon()).await;
    });
    while holder.plugin.snapshot().in_use == 0 {
        tokio::task::yield_now().await;
    }
    (host, holding)
}

#[tokio::test]
async fn a_full_pool_refuses_at_the_deadline() {
    let (host, holding) = full_host(|_| {}).await;
    let subject = host.plugin("echo");
    let deadline = Instant::now() + Duration::from_millis(30);
    let failure = subject.plugin.preprocess(&call(), Bytes::new(), deadline).await.expect_err("no room");
    assert_eq!(failure.kind_label(), "exhausted");
    let text = failure.to_string();
    assert!(text.contains("got no instance: all 1 instances (--plugin-instances) stayed in use for"), "{text}");
    assert!(!failure.code().blames_plugin());
    assert_eq!(subject.plugin.snapshot().created_total, 0);
    holding.abort();
    assert_eq!(subject.answer(b"hi").await, "hi", "room again");
}

#[tokio::test]
async fn a_waiting_call_gets_the_room_that_comes_free() {
    let (host, holding) = full_host(|_| {}).await;
    let subject = host.plugin("echo");
    let plugin = Arc::clone(&subject.plugin);
    let waiting = tokio::spawn(async move { plugin.preprocess(&call(), Bytes::new(), soon()).await.is_ok() });
    while host.runtime.snapshot().waiting == 0 {
        tokio::task::yield_now().await;
    }
    holding.abort();
    assert!(waiting.await.expect("not panicked"), "answered");
    assert_eq!(host.runtime.snapshot().waiting, 0);
}

#[tokio::test]
async fn a_line_that_is_full_refuses_at_once() {
    let (host, holding) = full_host(|config| config.waiting_max = 0).await;
    let subject = host.plugin("echo");
    let failure = subject.failure(b"").await;
    assert!(matches!(failure, PluginFailure::Exhausted { .. }), "{failure}");
    assert!(failure.to_string().contains("0 calls (--plugin-queue-size) wait"), "{failure}");
    holding.abort();
}

#[tokio::test]
async fn an_idle_instance_of_another_plugin_makes_room() {
    let host = host_with(|config| config.instances_max = 1);
    let (first, second) = (host.plugin("counter"), host.plugin("echo"));
    assert_eq!(first.answer(b"").await, "1");
    assert_eq!(second.answer(b"hi").await, "hi");
    assert_eq!(first.plugin.snapshot().dropped(DropReason::Evicted), 1);
    assert_eq!(first.answer(b"").await, "1", "a new instance, at the other one's cost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_share_few_instances() {
    let host = host_with(|config| config.instances_max = 3);
    let subjects: Vec<Subject> = (0..3).map(|_| host.plugin("echo")).collect();
    let callers: Vec<_> = (0..300)
        .map(|number: usize| {
            let plugin = Arc::clone(&subjects[number % 3].plugin);
            tokio::spawn(async move { plugin.preprocess(&call(), Bytes::from_static(b"x"), soon()).await })
        })
        .collect();
    for caller in callers {
        caller.await.expect("not panicked").expect("every caller is answered");
    }
    let snapshot = host.runtime.snapshot();
    assert!(snapshot.instances <= 3 && snapshot.waiting == 0, "{snapshot:?}");
    let warm: usize = subjects.iter().map(|subject| subject.plugin.snapshot().warm).sum();
    assert_eq!(warm, snapshot.instances, "every live instance is warm in some pool");
    assert!(subjects.iter().all(|subject| subject.plugin.snapshot().in_use == 0));
    subjects.iter().for_each(|subject| subject.plugin.retire());
    assert_eq!(host.runtime.snapshot().instances, 0);
}

#[tokio::test]
async fn imports_answer_and_denials_name_the_grant() {
    let host = host();
    let assets = BTreeMap::from([("a/b.txt".to_owned(), Bytes::from_static(b"asset text"))]);
    let subject = host.plugin_with("imports", |spec| {
        spec.config = BTreeMap::from([("greeting".to_owned(), "good day".to_owned())]);
        spec.assets = Arc::new(assets);
        let metrics = [("hits", MetricKind::Counter), ("size", MetricKind::Histogram)];
        spec.metrics = metrics.map(|(name, kind)| (name.to_owned(), kind)).into();
    });
    let expected = "good day\nasset text\nx\nmodel 'fraud' has no grant for the key-value store 'cart'; ask the operator \
                    for the grant `key_value = [\"cart\"]`\n";
    assert_eq!(subject.answer(b"").await, expected);
    let metrics = [("hits", MetricKind::Counter, 2.0), ("size", MetricKind::Histogram, 0.5)];
    assert_eq!(subject.heard.metrics(), metrics.map(|(name, kind, value)| (name.to_owned(), kind, value)));
    assert_eq!(subject.heard.dropped(), [(Dropped::Metrics, 4)], "negative, of another kind, not a number, undeclared");
}

#[tokio::test]
async fn a_short_stage_moves_inline_once_proven() {
    let host = host();
    let subject = host.plugin_with("echo", |spec| spec.placement = PlacementPolicy::Auto);
    let first = |subject: &Subject| subject.heard.stages()[0];
    subject.answer(b"").await;
    assert_eq!(first(&subject), (Stage::Preprocess, Placement::Runtime), "nothing is known yet");
    assert_eq!(subject.plugin.snapshot().postprocess.0, Placement::Runtime);
    for _ in 0..5_000 {
        if subject.plugin.snapshot().preprocess.0 == Placement::Inline {
            return;
        }
        subject.answer(b"").await;
    }
    panic!("an echo stays on the plugin runtime: {:?}", subject.plugin.snapshot());
}

#[tokio::test]
async fn a_plugin_that_ran_out_of_time_runs_in_the_background_until_it_has_made_up_for_it() {
    let host = host();
    let limits = Limits { time: Duration::from_millis(30), ..Limits::default() };
    let subject = host.plugin_with("loop", |spec| (spec.limits, spec.placement) = (limits, PlacementPolicy::Inline));
    subject.answer(b"").await;
    subject.preprocess(b"x").await.expect_err("it loops");
    for _ in 0..64 {
        assert_eq!(subject.plugin.snapshot().preprocess.0, Placement::Background);
        subject.answer(b"").await;
    }
    subject.answer(b"").await;
    let stages: Vec<Placement> = subject.heard.stages().into_iter().map(|(_, placement)| placement).collect();
    assert_eq!((stages[0], stages[1]), (Placement::Inline, Placement::Inline), "nothing was known of it");
    assert!(stages[2..66].iter().all(|placement| *placement == Placement::Background), "{stages:?}");
    assert_eq!(stages[66], Placement::Inline);
}

#[tokio::test]
async fn the_clock_parks_when_no_guest_runs_and_wakes_for_the_next() {
    let host = host();
    let limits = Limits { time: Duration::from_millis(30), ..Limits::default() };
    let subject = host.plugin_with("loop", |spec| spec.limits = limits);
    for _ in 0..2 {
        while !host.runtime.snapshot().ticker_parked {
            tokio::task::yield_now().await;
        }
        assert_eq!(subject.failure(b"x").await.kind_label(), "timeout", "a parked clock would let it loop on");
    }
}

#[tokio::test]
async fn limits_that_cannot_hold_are_refused() {
    let host = host();
    let compiled = host.runtime.compile(&common::guest("echo")).expect("it compiles");
    assert_eq!((compiled.core_instance_slots(), compiled.memory_min_bytes()), (1, 131_072));
    let with = |limits: Limits| {
        let spec = plugin::PluginSpec { limits, ..common::spec(&Arc::default()) };
        Plugin::new(Arc::clone(&host.runtime), Arc::clone(&compiled), spec).expect_err("refused")
    };
    let error = with(Limits { memory_bytes: 65_536, ..Limits::default() });
    let expected = PluginError::Memory { model: "fraud".to_owned(), needed: 131_072, limit: 65_536 };
    assert_eq!(error, expected);
    let error = with(Limits { time: Duration::from_micros(9), ..Limits::default() });
    assert_eq!(error.to_string(), "limits.time_ms of the plugin of model 'fraud' must be at least 1 ms, got 9 µs");
    let other = common::host();
    let error = Plugin::new(Arc::clone(&other.runtime), compiled, common::spec(&Arc::default())).expect_err("foreign");
    assert_eq!(error, PluginError::OtherRuntime { model: "fraud".to_owned() });
}
