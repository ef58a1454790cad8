//! The spans of one request: its own, and one for each stage that ran. Names of attributes are OpenTelemetry's where its
//! conventions have one (HTTP and RPC server spans), and begin with `airlock.` otherwise.

use std::time::{Duration, SystemTime};

use super::proto::{KeyValue, Span, Status, Value, span, status, value};
use crate::metrics::Surface;
use crate::observed::trace_context::{SpanId, TraceContext};
use crate::observed::{Observation, STAGES, StageTime};
use crate::registry::Release;

/// Whether the client recorded its trace. Source: OTLP's `Span.flags`, W3C's trace flags.
const SAMPLED: u32 = 1;

/// How a request ended.
pub(crate) struct Outcome<'a> {
    pub(crate) began: SystemTime,
    pub(crate) took: Duration,
    /// HTTP's status, or gRPC's; none where the client left.
    pub(crate) status: Option<u16>,
    /// `ok`, or the code of its failure.
    pub(crate) code: &'static str,
    pub(crate) release: Option<&'a Release>,
    /// Its own rows, and those of its batch.
    pub(crate) rows: Option<(u64, u64)>,
}

/// The spans of a request, its own first.
pub(crate) fn spans(seen: &Observation, trace: &TraceContext, outcome: &Outcome<'_>) -> Vec<Span> {
    let began = outcome.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let own = Span {
        span_id: trace.span.0.to_vec(),
        parent_span_id: trace.parent.map_or_else(Vec::new, |parent| parent.0.to_vec()),
        name: name(seen),
        kind: span::Kind::Server as i32,
        attributes: attributes(seen, outcome),
        status: Some(status_of(seen, outcome)),
        ..span_of(trace, began, began + outcome.took)
    };
    let stages = seen.stages();
    let ran = STAGES.iter().zip(stages).filter_map(|(name, stage)| Some((*name, stage?)));
    let stages = ran.map(|(name, StageTime { ended, time })| Span {
        span_id: SpanId::made().0.to_vec(),
        parent_span_id: trace.span.0.to_vec(),
        name: name.to_owned(),
        kind: span::Kind::Internal as i32,
        ..span_of(trace, began + ended.saturating_sub(time), began + ended)
    });
    std::iter::once(own).chain(stages).collect()
}

/// What all spans of a request share; times are since the epoch.
fn span_of(trace: &TraceContext, begun: Duration, ended: Duration) -> Span {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Span {
        trace_id: trace.trace.0.to_vec(),
        trace_state: trace.state.clone(),
        start_time_unix_nano: nanos(begun),
        end_time_unix_nano: nanos(ended),
        flags: SAMPLED,
        ..Span::default()
    }
}

/// Source: OpenTelemetry's conventions: method and route, or the rpc's full name.
fn name(seen: &Observation) -> String {
    match seen.surface {
        Surface::Http => format!("POST {}", seen.route),
        Surface::Grpc => seen.route.trim_start_matches('/').to_owned(),
    }
}

fn attributes(seen: &Observation, outcome: &Outcome<'_>) -> Vec<KeyValue> {
    let mut list = vec![text("airlock.request_id", &seen.request_id), text("airlock.outcome", outcome.code)];
    let status = outcome.status.map(u64::from);
    match seen.surface {
        Surface::Http => {
            list.extend([text("http.request.method", "POST"), text("http.route", &seen.route)]);
            list.extend(status.map(|status| number("http.response.status_code", status)));
        }
        Surface::Grpc => {
            let (service, method) = seen.route.trim_start_matches('/').split_once('/').unwrap_or_default();
            list.extend([text("rpc.system", "grpc"), text("rpc.service", service), text("rpc.method", method)]);
            list.extend(status.map(|status| number("rpc.grpc.status_code", status)));
        }
    }
    if let Some(release) = outcome.release {
        list.push(text("airlock.model", release.version.model.as_str()));
        list.push(number("airlock.version", release.version.number.get()));
        list.extend(release.generation().map(|generation| number("airlock.generation", generation.number)));
    }
    if let Some((own, batch)) = outcome.rows {
        list.extend([number("airlock.rows", own), number("airlock.batch_rows", batch)]);
    }
    list
}

/// A server's span is in error for what the server did wrong; a client's mistake over HTTP is none of its. Source: as above.
fn status_of(seen: &Observation, outcome: &Outcome<'_>) -> Status {
    let is_client_s = seen.surface == Surface::Http && outcome.status.is_some_and(|status| status < 500);
    if outcome.code == "ok" || is_client_s {
        return Status::default();
    }
    Status { message: outcome.code.to_owned(), code: status::Code::Error as i32 }
}

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, value::Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, value::Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(Value { value: Some(value) }) }
}
