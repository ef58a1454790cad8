//! The task that gathers spans and posts them: at most so many requests at once, each after at most so long. A post that
//! fails is not repeated: its spans are counted as lost, and the log says so once until the collector answers again. At the
//! stop what waits is posted within [`FLUSH_TIME`].

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prometheus::IntCounter;
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::proto::{ExportRequest, ExportResponse, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span};
use super::span::text;
use crate::metrics::Metrics;
use crate::settings::{BatchLimits, TraceSettings};
use crate::tasks::Tasks;

/// How long a collector may take to answer. Source: OTLP's default.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long what waits at the stop may take to be posted.
pub(crate) const FLUSH_TIME: Duration = Duration::from_secs(1);
/// Bytes of a collector's answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The port of a URL that names none. Source: HTTP's own.
const DEFAULT_PORT: u16 = 80;

/// The way to the task.
pub(crate) struct SpanSender {
    queue: Sender<Vec<Span>>,
    dropped: IntCounter,
}

impl SpanSender {
    /// Starts the task. Where it ends early, spans are dropped and counted.
    pub(crate) fn start(settings: &TraceSettings, tasks: &Tasks, metrics: &Metrics) -> Self {
        let (queue, waiting) = channel(settings.batch.queue_max);
        let exporter = Exporter {
            url: settings.url.clone(),
            resource: resource(&settings.resource),
            limits: settings.batch,
            exported: metrics.trace_spans("exported"),
            failed: metrics.trace_spans("failed"),
            is_failing: false,
        };
        tracing::info!(url = %settings.url, "traces are sent to a collector");
        tasks.spawn("trace exporter", exporter.run(waiting, tasks.stop_token()));
        Self { queue, dropped: metrics.trace_spans("dropped") }
    }

    /// Hands over the spans of a request; where there is no room they are dropped and counted.
    pub(crate) fn send(&self, spans: Vec<Span>) {
        let count = spans.len();
        if self.queue.try_send(spans).is_err() {
            self.dropped.inc_by(count as u64);
        }
    }
}

/// What is said of this process; settings outweigh what it says of itself.
fn resource(given: &[(String, String)]) -> Vec<KeyValue> {
    let own = [("service.name", "airlock"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let unsaid = own.into_iter().filter(|(key, _)| given.iter().all(|(known, _)| known != key));
    let given = given.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    unsaid.chain(given).map(|(key, value)| text(key, value)).collect()
}

/// Why spans did not reach the collector.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("connecting: {0}")]
    Connect(std::io::Error),
    #[error("posting: {0}")]
    Post(Box<dyn std::error::Error + Send + Sync>),
    #[error("the collector answered {0}")]
    Refused(http::StatusCode),
    #[error("the collector did not answer in {} s", EXPORT_TIMEOUT.as_secs())]
    Late,
    #[error("the server stops")]
    Stopping,
}

struct Exporter {
    url: Uri,
    resource: Vec<KeyValue>,
    limits: BatchLimits,
    exported: IntCounter,
    failed: IntCounter,
    is_failing: bool,
}

impl Exporter {
    async fn run(mut self, mut waiting: Receiver<Vec<Span>>, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                first = waiting.recv() => first,
            };
            let Some(mut batch) = first else { return };
            tokio::select! {
                () = fill(&mut batch, &mut waiting, self.limits.export_max) => {}
                () = tokio::time::sleep(self.limits.delay) => {}
                () = stop.cancelled() => {}
            }
            let patience = async {
                stop.cancelled().await;
                tokio::time::sleep(FLUSH_TIME).await;
            };
            self.export(batch, patience).await;
        }
        self.flush(&mut waiting).await;
    }

    /// Posts what waits; what does not go out in time is lost.
    async fn flush(&mut self, waiting: &mut Receiver<Vec<Span>>) {
        let deadline = Instant::now() + FLUSH_TIME;
        waiting.close();
        while let Ok(mut batch) = waiting.try_recv() {
            // A closed queue that is empty does not wait.
            fill(&mut batch, waiting, self.limits.export_max).await;
            self.export(batch, tokio::time::sleep_until(deadline)).await;
        }
    }

    /// Posts a batch until `patience` ends.
    async fn export(&mut self, spans: Vec<Span>, patience: impl Future<Output = ()>) {
        let count = spans.len() as u64;
        let posted = tokio::select! {
            posted = timeout(EXPORT_TIMEOUT, post(&self.url, self.encode(spans))) => posted.unwrap_or(Err(ExportError::Late)),
            () = patience => Err(ExportError::Stopping),
        };
        match posted {
            Ok(rejected) => {
                let rejected = rejected.min(count);
                self.exported.inc_by(count - rejected);
                self.failed.inc_by(rejected);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(url = %self.url, "the collector takes traces again");
                }
            }
            Err(error) => {
                self.failed.inc_by(count);
                self.warn_once(&error);
            }
        }
    }

    fn warn_once(&mut self, error: &dyn Display) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(url = %self.url, %error, "traces do not reach the collector; airlock_trace_spans_total counts them");
        }
    }

    fn encode(&self, spans: Vec<Span>) -> Bytes {
        let scope = Scope { name: "airlock".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let resource = Resource { attributes: self.resource.clone() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        let request = ExportRequest { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] };
        request.encode_to_vec().into()
    }
}

/// Adds the spans of further requests as they come, up to the limit.
async fn fill(batch: &mut Vec<Span>, waiting: &mut Receiver<Vec<Span>>, requests_max: usize) {
    for _ in 1..requests_max {
        match waiting.recv().await {
            Some(spans) => batch.extend(spans),
            None => return,
        }
    }
}

/// Posts a request on a connection of its own. Returns how many spans the collector did not want.
async fn post(url: &Uri, body: Bytes) -> Result<u64, ExportError> {
    let address = (url.host().unwrap_or("localhost").trim_matches(['[', ']']), url.port_u16().unwrap_or(DEFAULT_PORT));
    let stream = TcpStream::connect(address).await.map_err(ExportError::Connect)?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| ExportError::Post(error.into()))?;
    let request = Request::post(url.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, url.authority().map_or("localhost", |authority| authority.as_str()))
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(USER_AGENT, concat!("airlock/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body));
    let request = request.map_err(|error| ExportError::Post(error.into()))?;
    let exchange = async move {
        let answer = sender.send_request(request).await.map_err(|error| ExportError::Post(error.into()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(ExportError::Post)?;
        if status.is_success() { Ok(rejected(&body.to_bytes())) } else { Err(ExportError::Refused(status)) }
    };
    // The connection ends once the exchange has let go of it; how it ended shows in the exchange.
    let (answered, _) = tokio::join!(exchange, connection);
    answered
}

/// Spans that a collector did not want, by its answer. One that is no protobuf says nothing of it.
fn rejected(answer: &[u8]) -> u64 {
    let partial = ExportResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
    partial.and_then(|partial| u64::try_from(partial.rejected_spans).ok()).unwrap_or(0)
}
