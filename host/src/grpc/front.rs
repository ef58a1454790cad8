//! The whole of gRPC as one async function from request to answer: it finds the service, refuses what may not be answered,
//! lets inferences in before their message is read, and bounds the time that reading takes. Tests call it without a
//! socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body as HttpBody;
use model::ErrorCode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use super::health::HealthService;
use super::proto::DESCRIPTIONS;
use super::proto::health::health_server::HealthServer;
use super::proto::inference::grpc_inference_service_server::GrpcInferenceServiceServer;
use super::service::InferenceService;
use super::status::{is_too_large, of_headers, shutting_down, too_large, unknown_rpc};
use super::traffic::Rpcs;
use crate::failure::RequestFailure;
use crate::metrics::Surface;
use crate::observed::{self, Arrival, Sealed};
use crate::serving::ServingState;
use crate::settings::{ApiKind, GrpcSettings, RestrictedApis};

/// A client's word on how long it waits. Source: gRPC over HTTP/2, "Timeout".
const TIMEOUT: &str = "grpc-timeout";

/// Why the reflection services can be built.
const COMPILED: &str = "the descriptions were compiled by the build script";

/// Any error.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A service whose type cannot be named.
type Unnamed = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// All services of the gRPC port.
pub struct GrpcFront {
    state: Arc<ServingState>,
    restricted: RestrictedApis,
    message_bytes_max: usize,
    rpcs: Rpcs,
    inference: GrpcInferenceServiceServer<InferenceService>,
    health: HealthServer<HealthService>,
    reflection: Unnamed,
    reflection_alpha: Unnamed,
}

/// What a [`GrpcFront`] is made of.
#[expect(missing_docs, reason = "the fields of GrpcFront")]
pub struct FrontParts<'a> {
    pub state: Arc<ServingState>,
    pub settings: &'a GrpcSettings,
    /// Says when open streams should end.
    pub stop: CancellationToken,
}

/// What a request of `ModelInfer` was let in with.
#[derive(Clone)]
pub(super) struct Ticket {
    /// When its answer is worthless.
    pub(super) deadline: Instant,
    is_taken: Arc<AtomicBool>,
}

impl Ticket {
    /// Whoever has the ticket counts the request from here on.
    pub(super) fn take_over(&self) {
        self.is_taken.store(true, Ordering::Relaxed);
    }
}

/// When the client of a stream gives up.
#[derive(Clone, Copy)]
pub(super) struct StreamDeadline(pub(super) Option<Instant>);

impl GrpcFront {
    /// Puts the services together.
    #[must_use]
    pub fn new(parts: FrontParts<'_>) -> Self {
        let FrontParts { state, settings, stop } = parts;
        let message_bytes_max = settings.message_bytes_max;
        let service = InferenceService {
            state: Arc::clone(&state),
            stream_requests_max: settings.stream_requests_max,
            message_bytes_max,
            stop: stop.clone(),
            forwarded_headers: settings.forwarded_headers.clone(),
        };
        let mut inference = GrpcInferenceServiceServer::new(service)
            .max_decoding_message_size(message_bytes_max)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Deflate);
        if settings.compresses_answers {
            inference = inference.send_compressed(CompressionEncoding::Gzip);
        }
        let health = HealthServer::new(HealthService { state: Arc::clone(&state), stop });
        let described = || {
            let builder = tonic_reflection::server::Builder::configure();
            DESCRIPTIONS.iter().fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set))
        };
        Self {
            restricted: settings.restricted.clone(),
            message_bytes_max,
            rpcs: Rpcs::new(state.metrics.grpc.clone()),
            inference,
            health,
            reflection: BoxCloneSyncService::new(described().build_v1().expect(COMPILED)),
            reflection_alpha: BoxCloneSyncService::new(described().build_v1alpha().expect(COMPILED)),
            state,
        }
    }

    /// Answers a request to any path.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let call = self.rpcs.begin(request.uri().path());
        let response = self.dispatch(request.map(|body| call.received(body))).await;
        call.answer(response)
    }

    async fn dispatch<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let path = request.uri().path();
        let answered = match path.rsplit_once('/') {
            Some(("/inference.GRPCInferenceService", _)) => Ok(self.answer_inference(request).await),
            Some(("/grpc.health.v1.Health", _)) => self.health.clone().call(request).await,
            Some(("/grpc.reflection.v1.ServerReflection", _)) => {
                self.reflection.clone().oneshot(request.map(Body::new)).await
            }
            Some(("/grpc.reflection.v1alpha.ServerReflection", _)) => {
                self.reflection_alpha.clone().oneshot(request.map(Body::new)).await
            }
            _ => Ok(unknown_rpc(path).into_http()),
        };
        answered.unwrap_or_else(|never| match never {})
    }

    async fn answer_inference<B>(&self, mut request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        if self.state.is_stopping() {
            return shutting_down().into_http();
        }
        let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
        let restriction = self.check_restriction(rpc, request.headers());
        if rpc == "ModelInfer" {
            return self.answer_watched(request, restriction).await;
        }
        if let Err(failure) = restriction {
            return Status::from(failure).into_http();
        }
        if rpc == "ModelStreamInfer" {
            let timeout = match timeout(request.headers()) {
                Ok(timeout) => timeout,
                Err(failure) => return Status::from(failure).into_http(),
            };
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            request.extensions_mut().insert(StreamDeadline(deadline));
        }
        self.call(request).await
    }

    /// One inference under the eyes of the observer, unless it does not bring what it must.
    async fn answer_watched<B>(&self, request: Request<B>, restriction: Result<(), RequestFailure>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let seen = {
            let (path, headers) = (request.uri().path(), request.headers());
            self.state.observer.begin(&Arrival { surface: Surface::Grpc, route: &|| path.to_owned(), headers })
        };
        let seal = |response: &mut Response<Body>, headers| {
            let status = of_headers(response.headers()).map_or(0, |status| status.code() as u16);
            response.headers_mut().extend(headers);
            Sealed { status, bytes_out: None }
        };
        let answer = async {
            match restriction {
                Ok(()) => self.answer_infer(request).await,
                Err(failure) => {
                    observed::failed(failure.code);
                    Status::from(failure).into_http()
                }
            }
        };
        self.state.observer.watch(seen, answer, seal).await
    }

    /// One inference: let in before its message is read, and counted however it ends.
    async fn answer_infer<B>(&self, mut request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let mut entry = Entry { state: &self.state, code: ErrorCode::Cancelled, is_taken: Arc::default() };
        let timeout = timeout(request.headers()).map(|timeout| timeout.unwrap_or(self.state.limits.timeout));
        let admitted = match timeout.and_then(|timeout| self.state.admit(Surface::Grpc, timeout)) {
            Ok(admitted) => admitted,
            Err(failure) => return entry.refuse(failure),
        };
        let ticket = Ticket { deadline: admitted.deadline, is_taken: Arc::clone(&entry.is_taken) };
        request.extensions_mut().insert(ticket);
        let Ok(response) = tokio::time::timeout_at(admitted.deadline, self.call(request)).await else {
            let text = "the message did not arrive in time";
            return entry.refuse(RequestFailure::new(ErrorCode::DeadlineExceeded, text));
        };
        // Only a message that was not read leaves the ticket where it is.
        entry.code = ErrorCode::MalformedRequest;
        if !entry.is_taken.load(Ordering::Relaxed) {
            observed::failed(entry.code);
        }
        match of_headers(response.headers()) {
            Some(status) if is_too_large(&status) => entry.refuse(too_large(self.message_bytes_max)),
            _ => response,
        }
    }

    async fn call<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        self.inference.clone().call(request).await.unwrap_or_else(|never| match never {})
    }

    /// Refuses a request that does not bring what its kind must. The text is Triton's.
    fn check_restriction(&self, rpc: &str, headers: &HeaderMap) -> Result<(), RequestFailure> {
        let required = ApiKind::of_rpc(rpc).and_then(|kind| self.restricted.required(kind));
        let Some(required) = required else { return Ok(()) };
        let brought = headers.get(&required.name).map(http::HeaderValue::as_bytes);
        if brought.is_some_and(|brought| required.is_brought_by(brought)) {
            return Ok(());
        }
        let text = format!("This protocol is restricted, expecting header '{}'", required.name);
        Err(RequestFailure::new(ErrorCode::Restricted, text))
    }
}

/// A request until somebody takes its ticket. Dropped before, it is counted as what it ended with.
struct Entry<'a> {
    state: &'a ServingState,
    code: ErrorCode,
    is_taken: Arc<AtomicBool>,
}

impl Entry<'_> {
    fn refuse(&mut self, failure: RequestFailure) -> Response<Body> {
        self.code = failure.code;
        observed::failed(failure.code);
        Status::from(failure).into_http()
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if !self.is_taken.load(Ordering::Relaxed) {
            self.state.metrics.refused(self.code);
        }
    }
}

/// How long the client waits, where it says so: at most eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, RequestFailure> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let read = value.to_str().ok().and_then(read_timeout);
    read.map(Some).ok_or_else(|| {
        let text = format!("{TIMEOUT} is {value:?}; it must be at most 8 digits and one of H, M, S, m, u and n");
        RequestFailure::new(ErrorCode::MalformedRequest, text)
    })
}

fn read_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount * 3_600)),
        "M" => Some(Duration::from_secs(amount * 60)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read() {
        for (text, expected) in [
            ("1S", Some(Duration::from_secs(1))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("0n", Some(Duration::ZERO)),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1s", None),
            ("1µ", None),
        ] {
            assert_eq!(read_timeout(text), expected, "{text:?}");
        }
    }
}
