//! Spans on their way to a collector of OpenTelemetry, as protobuf over HTTP (OTLP). Requests hand their spans to a bounded
//! queue; one task gathers and posts them. What finds no room, or no collector, is counted and gone: tracing never holds up
//! a request. The few messages are in `proto/otlp.proto`.

mod exporter;
mod span;

/// The messages.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::too_many_lines,
    reason = "generated"
)]
pub(crate) mod proto {
    include!(concat!(env!("OUT_DIR"), "/airlock.otlp.rs"));
}

pub(crate) use exporter::SpanSender;
pub(crate) use span::{Outcome, spans};
