//! Guests that do what they should not: each costs its own call, is named in the failure, and the next call works.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Subject, call, host, soon};
use model::{DataType, ErrorCode, Tensor};
use plugin::{
    DropReason, Dropped, FieldError, Limits, LogLevel, LogSource, Placement, PlacementPolicy, PluginFailure, Prepared,
};
use tokio::time::Instant;

/// Handles that an instance may hold on the host.
const HANDLES_MAX: usize = 1024;

#[tokio::test]
async fn tensors_go_to_the_model_and_outputs_come_back() {
    let host = host();
    let subject = host.plugin("tensor");
    let prepared = subject.preprocess(b"abc").await.expect("tensors");
    let Prepared::Infer(inference) = prepared else { panic!("expected tensors, got {prepared:?}") };
    let expected = Tensor::new("x".into(), DataType::Uint8, vec![1, 3], Bytes::from_static(b"abc")).expect("fits");
    assert_eq!(inference.inputs, [expected]);
    assert_eq!(&inference.carry[..], b"abc");
    assert!(inference.outputs.is_empty() && inference.parameters.is_empty());
    let output = Tensor::new("y".into(), DataType::Uint8, vec![1, 2], Bytes::from_static(b"hi")).expect("fits");
    let response = subject.plugin.postprocess(&call(), vec![output], inference.carry, soon()).await.expect("an answer");
    assert_eq!((response.status, response.content_type.as_str(), &response.body[..]), (200, "text/plain", &b"hi"[..]));
}

/// The failure's kind and text, the reason for which the instance was dropped (if it was), and that `next` is answered.
async fn check(subject: &Subject, body: &'static [u8], expected: (&str, ErrorCode, &str), dropped: Option<DropReason>) {
    let failure = subject.failure(body).await;
    let (kind, code, text) = expected;
    assert_eq!((failure.kind_label(), failure.code()), (kind, code), "{failure}");
    assert_eq!(failure.to_string(), text);
    let snapshot = subject.plugin.snapshot();
    assert_eq!(snapshot.in_use, 0);
    assert_eq!(snapshot.warm, usize::from(dropped.is_none()), "an instance that did no harm stays warm");
    for reason in DropReason::ALL {
        assert_eq!(snapshot.dropped(reason), u64::from(dropped == Some(reason)), "{}", reason.as_str());
    }
}

#[tokio::test]
async fn a_trap_costs_one_call() {
    let host = host();
    let subject = host.plugin("trap");
    let text = "plugin of model 'fraud' (generation 3) in preprocess crashed: wasm trap: wasm `unreachable` instruction \
                executed; the instance was dropped, the plugin's log has the backtrace";
    check(&subject, b"x", ("crashed", ErrorCode::PluginCrashed, text), Some(DropReason::Crashed)).await;
    assert_eq!(subject.answer(b"").await, "");
    assert_eq!(subject.plugin.snapshot().created_total, 2);
    let log = subject.heard.lines();
    let told = log.iter().find(|line| line.source == LogSource::Host).expect("the host tells of the crash");
    assert!(told.message.contains("wasm backtrace"), "{}", told.message);
    assert_eq!((told.level, told.request_id.as_str()), (LogLevel::Error, "r-17"));
}

#[tokio::test]
async fn a_guest_that_cannot_start_is_named() {
    let host = host();
    let text = "plugin of model 'fraud' (generation 3) in instantiate crashed: wasm trap: wasm `unreachable` \
                instruction executed; the instance was dropped, the plugin's log has the backtrace";
    let subject = host.plugin("trap-at-start");
    for attempt in 1..=20 {
        let failure = subject.failure(b"").await;
        assert_eq!(failure.to_string(), text);
        assert_eq!(subject.plugin.snapshot().dropped(DropReason::Crashed), attempt);
    }
    assert_eq!(host.runtime.snapshot().instances, 0, "no permit is lost");

    let limits = Limits { time: Duration::from_millis(30), ..Limits::default() };
    let subject = host.plugin_with("loop-at-start", |spec| spec.limits = limits);
    let failure = subject.failure(b"").await;
    assert_eq!(failure.kind_label(), "timeout");
    assert!(failure.to_string().contains("in instantiate ran longer than limits.time_ms of 30 ms"), "{failure}");
    assert_eq!(host.runtime.snapshot().instances, 0);
}

#[tokio::test]
async fn an_endless_loop_ends_at_the_plugins_limit_and_lets_others_run() {
    let host = host();
    for placement in [PlacementPolicy::Inline, PlacementPolicy::Runtime] {
        let limits = Limits { time: Duration::from_millis(200), ..Limits::default() };
        let subject = host.plugin_with("loop", |spec| (spec.limits, spec.placement) = (limits, placement));
        let neighbour = tokio::spawn(async {
            for _turn in 0..3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let start = Instant::now();
        let text = "plugin of model 'fraud' (generation 3) in preprocess ran longer than limits.time_ms of 200 ms; the \
                    instance was dropped, make the stage quicker or raise the limit in plugin.toml";
        check(&subject, b"x", ("timeout", ErrorCode::PluginTimeout, text), Some(DropReason::TimedOut)).await;
        assert!(start.elapsed() >= Duration::from_millis(200));
        assert!(neighbour.is_finished(), "a task of the same thread ran meanwhile, timers included");
        assert_eq!(subject.answer(b"").await, "", "the next call gets a new instance");
    }
}

#[tokio::test]
async fn the_requests_own_deadline_is_not_the_plugins_fault() {
    let host = host();
    let subject = host.plugin("loop");
    let deadline = Instant::now() + Duration::from_millis(20);
    let failure = subject.plugin.preprocess(&call(), Bytes::from_static(b"x"), deadline).await.expect_err("too late");
    assert_eq!(failure.code(), ErrorCode::DeadlineExceeded, "{failure}");
    assert!(!failure.code().blames_plugin());
    let snapshot = subject.plugin.snapshot();
    assert_eq!(snapshot.dropped(DropReason::TimedOut), 1);
    assert_eq!(snapshot.preprocess.0, Placement::Inline, "nor a reason to lower its priority");
}

#[tokio::test]
async fn a_dropped_call_drops_its_instance() {
    let host = host();
    for placement in [PlacementPolicy::Inline, PlacementPolicy::Runtime] {
        let subject = host.plugin_with("loop", |spec| spec.placement = placement);
        let plugin = Arc::clone(&subject.plugin);
        let caller =
            tokio::spawn(async move { plugin.preprocess(&call(), Bytes::from_static(b"x"), soon()).await.is_ok() });
        wait_until(|| subject.plugin.snapshot().in_use == 1).await;
        caller.abort();
        wait_until(|| subject.plugin.snapshot().dropped(DropReason::Cancelled) == 1).await;
        wait_until(|| host.runtime.snapshot().instances == 0).await;
        assert_eq!((subject.plugin.snapshot().warm, subject.plugin.snapshot().in_use), (0, 0));
        assert_eq!(subject.answer(b"").await, "", "the next call gets a new instance");
        subject.plugin.retire();
    }
}

/// Lets other tasks run until `done`; the test hangs where that never comes, which its runner ends.
async fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn memory_is_refused_past_the_limit() {
    let host = host();
    let limits = Limits { memory_bytes: 4 << 20, ..Limits::default() };
    let subject = host.plugin_with("memory", |spec| spec.limits = limits);
    assert_eq!(subject.answer(b"").await, "", "a guest that copes with the refusal goes on");
    subject.plugin.retire();
    let limits = Limits { memory_bytes: 4 << 20, ..Limits::default() };
    let subject = host.plugin_with("memory", |spec| spec.limits = limits);
    let text = "plugin of model 'fraud' (generation 3) in preprocess ran out of memory: it asked for 4325376 bytes where \
                limits.memory_mb allows 4194304; use less memory or raise the limit in plugin.toml";
    check(&subject, b"x", ("out_of_memory", ErrorCode::PluginCrashed, text), Some(DropReason::Crashed)).await;
}

#[tokio::test]
async fn handles_are_bounded() {
    let host = host();
    let text = "plugin of model 'fraud' (generation 3) in preprocess crashed: it holds 1024 WASI handles (streams, \
                pollables), as many as an instance may; drop each once it is done with; the instance was dropped, the \
                plugin's log has the backtrace";
    for endless in [&b"pollables"[..], b"streams"] {
        let subject = host.plugin("handles");
        check(&subject, endless, ("crashed", ErrorCode::PluginCrashed, text), Some(DropReason::Crashed)).await;
        assert_eq!(subject.answer(b"").await, "", "the next call gets a new instance");
        subject.plugin.retire();
    }
    let subject = host.plugin("handles");
    for _call in 0..HANDLES_MAX {
        assert_eq!(subject.answer(b"one").await, "");
    }
    check(&subject, b"one", ("crashed", ErrorCode::PluginCrashed, text), Some(DropReason::Crashed)).await;
    assert_eq!(subject.answer(b"one").await, "", "a guest that leaks one a call loses one call in so many");
}

#[tokio::test]
async fn output_is_bounded() {
    let host = host();
    let limits = Limits { body_bytes_max: 1 << 20, tensor_bytes_max: 1 << 10, carry_bytes_max: 0, ..Limits::default() };
    let subject = host.plugin_with("huge-output", |spec| spec.limits = limits.clone());
    assert_eq!(subject.answer(b"\x01").await.len(), 1 << 20);
    let text = "plugin of model 'fraud' (generation 3) in preprocess broke its contract: what it gave back is larger than \
                2097152 bytes, the largest of limits.output_mb (1048576, tensors \
                1024) with limits.carry_kb (0), and 1 MiB for the rest";
    let failure = subject.failure(b"\x03").await;
    assert_eq!((failure.kind_label(), failure.to_string().as_str()), ("contract", text));
    assert_eq!(subject.answer(b"\x01").await.len(), 1 << 20, "the next call works");

    let limits = Limits { body_bytes_max: 1 << 19, ..limits };
    let subject = host.plugin_with("huge-output", |spec| spec.limits = limits);
    let text = "plugin of model 'fraud' (generation 3) in preprocess broke its contract: the body has 1048576 bytes, \
                expected at most 524288 (limits.output_mb)";
    check(&subject, b"\x01", ("contract", ErrorCode::PluginContract, text), None).await;
}

#[tokio::test]
async fn breaches_of_the_contract_are_named() {
    let host = host();
    let breach =
        |text: &str| format!("plugin of model 'fraud' (generation 3) in preprocess broke its contract: {text}");
    let cases = [
        ("wrong-length", "tensor 'x' of type UINT8 and shape [1,4] needs 4 bytes, got 3"),
        ("wrong-status", "expected a status from 200 to 599, got 99"),
        ("hop-by-hop", "the header 'transfer-encoding' is the host's to set, expected an answer without it"),
    ];
    for (name, text) in cases {
        let subject = host.plugin(name);
        let text = breach(text);
        check(&subject, b"abc", ("contract", ErrorCode::PluginContract, &text), None).await;
        subject.plugin.retire();
    }
}

#[tokio::test]
async fn tensors_and_carry_are_bounded() {
    let host = host();
    let limits = Limits { tensor_bytes_max: 2, ..Limits::default() };
    let subject = host.plugin_with("tensor", |spec| spec.limits = limits);
    let failure = subject.failure(b"abc").await;
    assert!(
        failure.to_string().ends_with("the tensor data has 3 bytes, expected at most 2 (limits.output_mb)"),
        "{failure}"
    );
    let limits = Limits { carry_bytes_max: 2, ..Limits::default() };
    let subject = host.plugin_with("tensor", |spec| spec.limits = limits);
    let failure = subject.failure(b"abc").await;
    assert!(failure.to_string().ends_with("the carry has 3 bytes, expected at most 2 (limits.carry_kb)"), "{failure}");
}

#[tokio::test]
async fn a_pointer_outside_the_memory_is_a_crash() {
    let host = host();
    let subject = host.plugin("bad-pointer");
    let failure = subject.failure(b"").await;
    assert_eq!((failure.kind_label(), failure.code()), ("crashed", ErrorCode::PluginCrashed), "{failure}");
    assert_eq!(subject.plugin.snapshot().dropped(DropReason::Crashed), 1);
}

#[tokio::test]
async fn the_plugins_own_refusals_keep_their_kind_and_text() {
    let host = host();
    let subject = host.plugin("refuse");
    let why = || "why".to_owned();
    assert_eq!(subject.failure(b"\x00").await, PluginFailure::Malformed(why()));
    let field = FieldError { pointer: "/age".to_owned(), code: "range".to_owned(), message: why() };
    assert_eq!(subject.failure(b"\x01").await, PluginFailure::Invalid(vec![field]));
    assert_eq!(subject.failure(b"\x02").await, PluginFailure::UnsupportedMedia(why()));
    assert_eq!(subject.failure(b"\x03").await, PluginFailure::Rejected(why()));
    let unavailable = PluginFailure::Unavailable { retry_after_ms: Some(1_500), message: why() };
    assert_eq!(subject.failure(b"\x04").await, unavailable);
    assert!(subject.heard.lines().is_empty());
    let internal = subject.failure(b"\x05").await;
    assert_eq!(internal.code(), ErrorCode::PluginInternal);
    let log = subject.heard.lines();
    assert_eq!(log.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["why"], "its text is in the log");
    let failure = subject.failure(b"\x63").await;
    assert_eq!(failure.kind_label(), "crashed", "a kind that does not exist breaks the ABI");
    assert_eq!(subject.plugin.snapshot().created_total, 1, "refusals keep the instance");
    assert_eq!(subject.failure(b"\x03").await, PluginFailure::Rejected(why()), "the next call works");
}

#[tokio::test]
async fn a_flood_of_log_lines_is_cut_and_counted() {
    let host = host();
    let limits = Limits { log_lines_max: 3, ..Limits::default() };
    let subject = host.plugin_with("log-flood", |spec| spec.limits = limits);
    for call in 1..=2 {
        assert_eq!(subject.answer(b"").await, "r-17");
        let lines = subject.heard.lines();
        assert_eq!(lines.len(), 3 * call, "each call has its own budget");
        assert_eq!(lines[0].message, "ten bytes.");
        assert_eq!((lines[0].level, lines[0].source), (LogLevel::Warn, LogSource::Log));
        assert_eq!(lines[0].request_id, "r-17");
    }
    assert_eq!(subject.heard.dropped()[..2], [(Dropped::LogLines, 997), (Dropped::LogBytes, 9_970)]);
}
