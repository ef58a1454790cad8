//! Watches requests from their arrival to their answer, and tells what it saw: in headers of the answer, in the access log
//! and in spans. Owned by the serving state. Where neither log nor traces are asked for, only the headers are left to do.

use std::cell::RefCell;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use model::ErrorCode;
use tokio::time::Instant;

use super::access_log::{AccessLog, AccessLogError};
use super::sampling::Sampling;
use super::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};
use super::{CURRENT, Observation};
use crate::metrics::Metrics;
use crate::metrics::Surface;
use crate::otlp::{Outcome, SpanSender, spans};
use crate::request_id;
use crate::settings::{Settings, TraceSettings};
use crate::tasks::Tasks;

/// See the module.
pub struct Observer {
    access_log: Option<AccessLog>,
    spans: Option<SpanSender>,
    /// Which requests are traced.
    pub sampling: Sampling,
}

/// A request that comes in.
pub(crate) struct Arrival<'a> {
    pub(crate) surface: Surface,
    /// Names its route, where somebody will read it.
    pub(crate) route: &'a dyn Fn() -> String,
    pub(crate) headers: &'a HeaderMap,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    /// HTTP's status, or gRPC's.
    pub(crate) status: u16,
    /// Bytes of the answer, where nobody has said so before.
    pub(crate) bytes_out: Option<usize>,
}

impl Observer {
    /// Opens the log and starts sending spans, where they are asked for.
    ///
    /// # Errors
    /// When the access log cannot be written.
    pub fn start(settings: &Settings, tasks: &Tasks, metrics: &Metrics) -> Result<Self, AccessLogError> {
        let sampling = Sampling::new(settings.tracing.clone());
        let spans = sampling.is_exported().then(|| SpanSender::start(&settings.tracing, tasks, metrics));
        if spans.is_none() && settings.tracing.values.levels.timestamps {
            tracing::warn!(
                "traces are not written to files; --trace-config mode=opentelemetry sends them to a collector"
            );
        }
        Ok(Self { access_log: AccessLog::open(&settings.access_log)?, spans, sampling })
    }

    /// One that writes nothing down.
    #[must_use]
    pub fn off() -> Self {
        Self { access_log: None, spans: None, sampling: Sampling::new(TraceSettings::default()) }
    }

    /// Lines of the access log that were dropped.
    #[must_use]
    pub fn lines_dropped(&self) -> u64 {
        self.access_log.as_ref().map_or(0, AccessLog::dropped)
    }

    /// Waits until the lines so far are written, a second at most.
    pub fn flush(&self) {
        if let Some(log) = &self.access_log {
            log.flush();
        }
    }

    /// Takes down what an arrival says.
    pub(crate) fn begin(&self, arrival: &Arrival<'_>) -> Observation {
        let is_recorded = self.access_log.is_some() || self.spans.is_some();
        let began_here = || self.spans.is_some().then(TraceContext::begun);
        Observation {
            surface: arrival.surface,
            route: if is_recorded { (arrival.route)() } else { String::new() },
            request_id: request_id::of_headers(arrival.headers),
            trace: TraceContext::of_headers(arrival.headers).or_else(began_here),
            is_recorded,
            is_traced: false,
            started: Instant::now(),
            began: SystemTime::now(),
            release: None,
            failure: None,
            bytes_in: None,
            bytes_out: None,
            rows: None,
            stages: [None; 4],
        }
    }

    /// Answers a request that has begun as `answer` does, and tells what was seen. `seal` puts the headers on the answer and reads its
    /// status.
    pub(crate) async fn watch<A>(
        &self,
        seen: Observation,
        answer: impl Future<Output = A>,
        seal: impl FnOnce(&mut A, Vec<(HeaderName, HeaderValue)>) -> Sealed,
    ) -> A {
        let watched = async {
            let mut unanswered = Unanswered(Some(self));
            let mut answer = answer.await;
            unanswered.0 = None;
            CURRENT.with(|current| {
                let seen = &mut *current.borrow_mut();
                self.decide(seen);
                let sealed = seal(&mut answer, headers(seen));
                seen.bytes_out = seen.bytes_out.or(sealed.bytes_out);
                self.tell(seen, Some(sealed));
            });
            answer
        };
        CURRENT.scope(RefCell::new(seen), watched).await
    }

    /// Decides whether spans are made of the request. A trace that begins here says so to whoever comes next.
    fn decide(&self, seen: &mut Observation) {
        let Some(trace) = seen.trace.as_mut().filter(|_| self.spans.is_some()) else { return };
        let model = seen.release.as_ref().map(|release| release.version.model.as_str());
        seen.is_traced = self.sampling.picks(model, trace);
        if trace.parent.is_none() {
            trace.is_sampled = seen.is_traced;
        }
    }

    fn tell(&self, seen: &Observation, sealed: Option<Sealed>) {
        if let Some(log) = &self.access_log {
            log.write(seen, sealed);
        }
        if let (true, Some(sender), Some(trace)) = (seen.is_traced, &self.spans, &seen.trace) {
            let release = seen.release.as_deref();
            let outcome = Outcome {
                began: seen.began,
                took: seen.started.elapsed(),
                status: sealed.map(|sealed| sealed.status),
                code: seen.outcome(),
                release,
                rows: seen.rows.map(|rows| (rows.own, rows.batch)),
            };
            sender.send(spans(seen, trace, &outcome));
        }
    }
}

/// A request that is still being answered. Dropped before that, its client has left.
struct Unanswered<'a>(Option<&'a Observer>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let Some(observer) = self.0.take() else { return };
        // A task's values are there while its future is dropped; without them there is nothing to tell.
        let _ = CURRENT.try_with(|current| {
            let seen = &mut *current.borrow_mut();
            seen.failure = Some(ErrorCode::Cancelled);
            observer.decide(seen);
            observer.tell(seen, None);
        });
    }
}

/// What the answer gives back: the request's id, and its place in the trace.
fn headers(seen: &Observation) -> Vec<(HeaderName, HeaderValue)> {
    let trace = seen.trace.as_ref();
    let given = [
        (request_id::REQUEST_ID, Some(seen.request_id.clone())),
        (TRACEPARENT, trace.map(TraceContext::traceparent)),
        (TRACESTATE, trace.map(|trace| trace.state.clone()).filter(|state| !state.is_empty())),
    ];
    let valid = |(name, value): (&'static str, Option<String>)| {
        Some((HeaderName::from_static(name), HeaderValue::try_from(value?).ok()?))
    };
    given.into_iter().filter_map(valid).collect()
}
