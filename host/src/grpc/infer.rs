//! One inference, of `ModelInfer` or of a stream: it pins a release, runs the model or the model's plugin, and says which
//! release answered.

use std::collections::HashMap;
use std::sync::Arc;

use model::ErrorCode;
use tokio::time::Instant;

use super::decode::{DecodeContext, decode_infer};
use super::encode::InferAnswer;
use super::predict;
use super::proto::inference::{ModelInferRequest, ModelInferResponse};
use crate::failure::RequestFailure;
use crate::pipeline::{self, Waiting};
use crate::registry::Release;
use crate::serving::ServingState;
use crate::tally::Tally;

/// What came of an inference.
pub(super) struct Outcome {
    /// The release that answered, where one was found.
    pub(super) release: Option<Arc<Release>>,
    /// The answer.
    pub(super) result: Result<ModelInferResponse, RequestFailure>,
}

/// The version that a message names; none where it leaves the field out.
pub(super) fn version_of(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Answers `message` by `deadline`. It has been let in.
pub(super) async fn infer(state: &ServingState, message: ModelInferRequest, deadline: Instant) -> Outcome {
    let mut tally = Tally::open(state);
    let release = match state.registry.pin(&message.model_name, version_of(&message.model_version)) {
        Ok(release) => release,
        Err(failure) => {
            tally.failed(&failure);
            return Outcome { release: None, result: Err(failure) };
        }
    };
    tally.pinned(&release);
    let mut result = infer_pinned(&release, message, deadline, &mut tally).await;
    if let Err(failure) = &mut result {
        tally.failed(failure);
        if failure.code == ErrorCode::QueueTimeout && Instant::now() >= deadline {
            // Not the queue's patience has ended but the client's, or that of the server.
            failure.code = ErrorCode::DeadlineExceeded;
        }
    }
    Outcome { release: Some(release), result }
}

async fn infer_pinned(
    release: &Release,
    message: ModelInferRequest,
    deadline: Instant,
    tally: &mut Tally<'_>,
) -> Result<ModelInferResponse, RequestFailure> {
    let version = &*release.version;
    if predict::is_for_plugin(release, &message) {
        let request = predict::read(message, deadline)?;
        tally.hand_over();
        return predict::answer(release, request).await;
    }
    let context = DecodeContext { model: version.model.as_str(), signature: &version.signature };
    let request = decode_infer(message, &context)?;
    tally.hand_over();
    let waiting = Waiting { deadline, priority: request.parameters.priority, timeout: request.parameters.timeout };
    let outputs = pipeline::infer(version, request.inputs, &request.outputs, waiting).await;
    let outputs = outputs.map_err(|failure| with_id(failure, &request.id))?;
    InferAnswer { version, id: request.id, outputs, parameters: HashMap::new() }.encode()
}

/// Triton puts the request's id before what its core finds wrong, but for names that the model does not have.
fn with_id(failure: RequestFailure, id: &str) -> RequestFailure {
    let is_of_a_name = failure.text.starts_with("unexpected inference ");
    if failure.code == ErrorCode::InvalidTensors && !is_of_a_name { failure.naming_request(id) } else { failure }
}
