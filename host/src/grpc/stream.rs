//! `ModelStreamInfer`: the requests of a stream are worked on side by side, each as a task of its own so that they use every
//! serving thread, and answered in their order. Dropping the answers, which is what happens when the client leaves, drops
//! the tasks, and with them the requests' places in their queues.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};
use http::HeaderMap;
use model::ErrorCode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status, Streaming};

use super::forward::Forwarding;
use super::infer::infer;
use super::parameters::parameter;
use super::proto::inference::infer_parameter::ParameterChoice;
use super::proto::inference::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use super::status::{is_too_large, shutting_down, too_large};
use crate::metrics::Surface;
use crate::observed::{self, Arrival, Sealed};
use crate::serving::ServingState;

/// Answers on their way out.
pub(super) type Answers = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

/// What a failed request does to its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureMode {
    /// Its text is its answer, and the stream goes on.
    Answer,
    /// It ends the stream with its status.
    End,
}

impl FailureMode {
    /// What the client asked for when it opened the stream.
    fn of(metadata: &MetadataMap) -> Self {
        let value = metadata.get("triton_grpc_error").map(|value| value.as_encoded_bytes());
        if value.is_some_and(|value| value.eq_ignore_ascii_case(b"true")) { Self::End } else { Self::Answer }
    }
}

/// A stream and what holds for each of its requests.
#[derive(Clone)]
struct StreamCall {
    state: Arc<ServingState>,
    mode: FailureMode,
    deadline: Option<Instant>,
    message_bytes_max: usize,
    headers: Arc<HeaderMap>,
    forwarding: Option<Arc<Forwarding>>,
}

/// How a stream is served.
pub(super) struct StreamTerms {
    /// What its client said when it opened it.
    pub(super) metadata: MetadataMap,
    /// What of it becomes parameters of each request.
    pub(super) forwarding: Option<Forwarding>,
    /// When its client gives up.
    pub(super) deadline: Option<Instant>,
    /// Requests that are worked on at once.
    pub(super) requests_max: usize,
    /// Bytes of one message.
    pub(super) message_bytes_max: usize,
    /// Says when the server stops.
    pub(super) stop: CancellationToken,
}

/// Answers the requests of one stream, in their order.
pub(super) fn answers(state: Arc<ServingState>, requests: Streaming<ModelInferRequest>, terms: StreamTerms) -> Answers {
    let StreamTerms { metadata, forwarding, deadline, requests_max, message_bytes_max, stop } = terms;
    let mode = FailureMode::of(&metadata);
    let (headers, forwarding) = (Arc::new(metadata.into_headers()), forwarding.map(Arc::new));
    let call = StreamCall { state, mode, deadline, message_bytes_max, headers, forwarding };
    let stopped = stop.clone();
    let end = stream::once(async move { stopped.is_cancelled().then(|| Err(shutting_down())) });
    let answers = requests
        .take_until(stop.cancelled_owned())
        .map(move |request| call.clone().begin(request))
        .buffered(requests_max)
        .chain(end.filter_map(std::future::ready));
    Box::pin(answers)
}

impl StreamCall {
    /// Starts work on a request; what is returned waits for its answer.
    fn begin(
        self,
        request: Result<ModelInferRequest, Status>,
    ) -> impl Future<Output = Result<ModelStreamInferResponse, Status>> {
        // A panic ends this request alone; the stream waits for its end.
        let task = request.map(|message| AbortOnDropHandle::new(tokio::spawn(self.clone().answer_watched(message))));
        async move {
            match task {
                Ok(task) => task.await.unwrap_or_else(|error| Err(Status::internal(error.to_string()))),
                Err(status) if is_too_large(&status) => {
                    let failure = too_large(self.message_bytes_max);
                    self.state.metrics.refused(failure.code);
                    Err(failure.into())
                }
                Err(status) => Err(status),
            }
        }
    }

    /// Answers a request under the eyes of the observer. All requests of a stream continue the trace that opened it.
    async fn answer_watched(self, message: ModelInferRequest) -> Result<ModelStreamInferResponse, Status> {
        let state = Arc::clone(&self.state);
        let seen = {
            let route = || "/inference.GRPCInferenceService/ModelStreamInfer".to_owned();
            state.observer.begin(&Arrival { surface: Surface::Grpc, route: &route, headers: &self.headers })
        };
        // The answers of a stream have no headers of their own; its code tells of a failure that goes out as a text, too.
        let seal = |answer: &mut Result<_, Status>, _| {
            let status = answer.as_ref().err().map_or(Code::Ok, Status::code);
            Sealed { status: status as u16, bytes_out: None }
        };
        state.observer.watch(seen, Box::pin(self.answer(message)), seal).await
    }

    async fn answer(self, message: ModelInferRequest) -> Result<ModelStreamInferResponse, Status> {
        let id = message.id.clone();
        let result = match self.state.admit(Surface::Grpc, self.state.limits.timeout) {
            Ok(admitted) => {
                let deadline = self.deadline.map_or(admitted.deadline, |deadline| deadline.min(admitted.deadline));
                infer(&self.state, self.forwarding.as_deref(), message, deadline).await.result
            }
            Err(failure) => {
                self.state.metrics.refused(failure.code);
                observed::failed(failure.code);
                Err(failure)
            }
        };
        match result {
            Ok(response) => Ok(answered(String::new(), response)),
            // The client itself has given up by now, and reads statuses only.
            Err(failure) if failure.code == ErrorCode::DeadlineExceeded && self.is_late() => Err(failure.into()),
            Err(failure) => self.failed(failure.into(), id),
        }
    }

    /// Whether the client of the stream has given up.
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn failed(&self, status: Status, id: String) -> Result<ModelStreamInferResponse, Status> {
        match self.mode {
            FailureMode::End => Err(status),
            FailureMode::Answer => {
                let response = ModelInferResponse { id, ..ModelInferResponse::default() };
                Ok(answered(status.message().to_owned(), response))
            }
        }
    }
}

/// Each request has one answer, so each answer is its last.
fn answered(error_message: String, mut response: ModelInferResponse) -> ModelStreamInferResponse {
    let last = HashMap::from([("triton_final_response".to_owned(), parameter(ParameterChoice::BoolParam(true)))]);
    response.parameters.extend(last);
    ModelStreamInferResponse { error_message, infer_response: Some(response) }
}
