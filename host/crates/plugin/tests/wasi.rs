//! WASI 0.2 as guests meet it: everything links, nothing is granted, and what is printed goes to the log.

mod common;

use std::time::Duration;

use common::{Subject, host};
use model::ErrorCode;
use plugin::{DropReason, Dropped, Limits, LogLevel, LogSource, PlacementPolicy, Prepared};

#[tokio::test]
async fn wasi_grants_nothing_and_prints_to_the_log() {
    let host = host();
    let subject = host.plugin("wasi");
    let first = subject.preprocess(b"Traceback:\n  KeyError\nunfinished").await.expect("an answer");
    let Prepared::Respond(first) = first else { panic!("expected an answer, got {first:?}") };
    let (random, clock) = first.body.split_at(16);
    assert_ne!(random[..8], random[8..], "numbers differ within a call");
    assert_eq!(clock, [0; 8], "the clock stands still");
    let second = subject.preprocess(b"again").await.expect("an answer");
    assert_eq!(second, Prepared::Respond(first), "neither advances between calls");
    let lines = subject.heard.lines();
    let said = |line: &common::Line| (line.level, line.source, line.message.clone());
    let expected = ["Traceback:", "  KeyError", "unfinished", "again"]
        .map(|text| (LogLevel::Warn, LogSource::Stderr, text.to_owned()));
    assert_eq!(lines.iter().map(said).collect::<Vec<_>>(), expected);
    assert!(lines.iter().all(|line| line.request_id == "r-17"));
}

#[tokio::test]
async fn a_flood_of_output_is_cut_and_counted_without_a_trap() {
    let host = host();
    let limits = Limits { log_bytes_max: 10, ..Limits::default() };
    let subject = host.plugin_with("wasi", |spec| spec.limits = limits);
    subject.preprocess(&[b'x'; 1_000]).await.expect("an answer");
    assert_eq!(subject.heard.lines()[0].message, "xxxxxxxxxx");
    assert_eq!(subject.heard.dropped(), [(Dropped::LogBytes, 990)]);
}

#[tokio::test]
async fn a_sleeping_guest_ends_at_its_limit() {
    let host = host();
    for placement in [PlacementPolicy::Inline, PlacementPolicy::Runtime] {
        let limits = Limits { time: Duration::from_millis(30), ..Limits::default() };
        let subject = host.plugin_with("wasi", |spec| (spec.limits, spec.placement) = (limits, placement));
        assert_eq!(subject.failure(b"sleep").await.kind_label(), "timeout");
        assert_eq!(subject.plugin.snapshot().dropped(DropReason::TimedOut), 1);
        subject.preprocess(b"wake").await.expect("the next call works");
    }
}

/// What a guest finds that imports all that a wasm32-wasip2 build of Rust does.
const FOUND: [(&str, u64); 20] = [
    ("room on standard output", 64 << 10),
    ("a write there fails", 0),
    ("a flush there fails", 0),
    ("room on standard error", 64 << 10),
    ("a write there fails", 0),
    ("a flush there fails", 0),
    ("environment variables", 0),
    ("arguments", 0),
    ("open folders", 0),
    ("standard input is a terminal", 0),
    ("standard output is a terminal", 0),
    ("standard error is a terminal", 0),
    ("reading standard input fails", 1),
    ("because it is closed", 1),
    ("seconds since 1970", 0),
    ("nanoseconds on top", 0),
    ("nanoseconds of the monotonic clock", 0),
    ("seed, first half", 0),
    ("seed, second half", 0),
    // The first number that SplitMix64's reference implementation draws from the seed 0.
    ("a random number", 0xe220_a839_7b1d_cdaf),
];

async fn found(subject: &Subject, body: &'static [u8]) -> Vec<(&'static str, u64)> {
    let Ok(Prepared::Respond(answer)) = subject.preprocess(body).await else { panic!("expected an answer at once") };
    let (numbers, rest) = answer.body.as_chunks::<8>();
    assert_eq!((numbers.len(), rest.len()), (FOUND.len(), 0));
    FOUND.iter().zip(numbers).map(|((name, _), number)| (*name, u64::from_le_bytes(*number))).collect()
}

#[tokio::test]
async fn a_guest_with_the_imports_of_a_wasip2_build_serves_and_is_granted_nothing() {
    let host = host();
    let subject = host.plugin("wasip2");
    for body in [&b"one"[..], b"two"] {
        assert_eq!(found(&subject, body).await, FOUND, "clocks and random numbers start over with each call");
    }
    assert_eq!(subject.plugin.snapshot().created_total, 1);
    let said = subject.heard.lines().into_iter().map(|line| (line.level, line.source, line.message));
    let expected = ["one", "two"].map(|text| {
        [(LogLevel::Info, LogSource::Stdout, text.to_owned()), (LogLevel::Warn, LogSource::Stderr, text.to_owned())]
    });
    assert_eq!(said.collect::<Vec<_>>(), expected.concat());
}

#[tokio::test]
async fn exiting_and_opening_files_end_the_call_alone() {
    let host = host();
    for (body, reason) in [(&b"exit"[..], "Exited with i32 exit status 1"), (b"file", "unknown handle index 3")] {
        let subject = host.plugin("wasip2");
        let failure = subject.failure(body).await;
        let text = format!(
            "plugin of model 'fraud' (generation 3) in preprocess crashed: {reason}; the instance was dropped, the \
             plugin's log has the backtrace"
        );
        assert_eq!((failure.to_string(), failure.code()), (text, ErrorCode::PluginCrashed));
        assert_eq!(subject.plugin.snapshot().dropped(DropReason::Crashed), 1);
        assert_eq!(found(&subject, b"next").await, FOUND);
        subject.plugin.retire();
    }
}
