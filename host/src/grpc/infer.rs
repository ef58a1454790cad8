//! One inference, of `ModelInfer` or of a stream: it pins a release, runs the model or the model's plugin, and says which
//! release answered.

use std::collections::HashMap;
use std::iter::repeat;
use std::num::NonZeroU64;
use std::sync::Arc;

use model::{ErrorCode, Tensor};
use prost::Message as _;
use tokio::time::Instant;

use super::decode::{DecodeContext, OutputForm, decode_infer};
use super::encode::{AnsweredOutput, InferAnswer};
use super::forward::Forwarding;
use super::predict;
use super::proto::inference::{ModelInferRequest, ModelInferResponse};
use crate::classification::{Classification, ClassificationError};
use crate::failure::RequestFailure;
use crate::observed;
use crate::pipeline::{self, Waiting};
use crate::registry::{LoadedVersion, Release};
use crate::serving::ServingState;
use crate::shared_memory::RegionWrites;
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
pub(super) async fn infer(
    state: &ServingState,
    forwarding: Option<&Forwarding>,
    message: ModelInferRequest,
    deadline: Instant,
) -> Outcome {
    observed::named(&message.id);
    observed::received(|| message.encoded_len());
    let outcome = infer_on_release(state, forwarding, message, deadline).await;
    match &outcome.result {
        Ok(answer) => observed::answered(|| answer.encoded_len()),
        Err(failure) => observed::failed(failure.code),
    }
    outcome
}

async fn infer_on_release(
    state: &ServingState,
    forwarding: Option<&Forwarding>,
    mut message: ModelInferRequest,
    deadline: Instant,
) -> Outcome {
    let mut tally = Tally::open(state);
    let release = match state.registry.pin(&message.model_name, version_of(&message.model_version)) {
        Ok(release) => release,
        Err(failure) => {
            tally.failed(&failure);
            return Outcome { release: None, result: Err(failure) };
        }
    };
    tally.pinned(&release);
    if !predict::is_for_plugin(&release, &message) {
        tally.infers();
    }
    let forwarded = forwarding.map_or(Ok(()), |forwarding| forwarding.add_to(&mut message.parameters));
    let mut result = match forwarded {
        Ok(()) => infer_pinned(state, &release, (message, deadline), &mut tally).await,
        Err(failure) => Err(failure),
    };
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
    state: &ServingState,
    release: &Release,
    (message, deadline): (ModelInferRequest, Instant),
    tally: &mut Tally<'_>,
) -> Result<ModelInferResponse, RequestFailure> {
    let version = &*release.version;
    if predict::is_for_plugin(release, &message) {
        let request = predict::read(message, deadline)?;
        tally.hand_over();
        return predict::answer(release, request).await;
    }
    let shared_memory = &state.shared_memory;
    let context = DecodeContext { model: version.model.as_str(), signature: &version.signature, shared_memory };
    let request = decode_infer(message, &context)?;
    tally.hand_over();
    let waiting = Waiting { deadline, priority: request.parameters.priority, timeout: request.parameters.timeout };
    let outputs = pipeline::infer(version, request.inputs, &request.outputs, waiting).await;
    let outputs = outputs.map_err(|failure| failure.with_request_id(Some(&request.id)))?;
    // Where none is asked for by name, all are wanted.
    let forms = request.outputs.into_iter().map(|output| output.form).chain(repeat(OutputForm::Values));
    let mut writes = RegionWrites::default();
    let deliver = |(output, form)| deliver(version, output, form, &mut writes);
    let outputs = outputs.into_iter().zip(forms).map(deliver).collect::<Result<_, _>>()?;
    let answer = InferAnswer { version, id: request.id, outputs, parameters: HashMap::new() }.encode()?;
    // What can fail has not, but for this.
    writes.write()?;
    Ok(answer)
}

/// An output as it is asked for; one that goes into shared memory is added to `writes`.
fn deliver(
    version: &LoadedVersion,
    output: Tensor,
    form: OutputForm,
    writes: &mut RegionWrites,
) -> Result<AnsweredOutput, RequestFailure> {
    match form {
        OutputForm::Values => Ok(AnsweredOutput::Values(output)),
        OutputForm::Classes(count) => Ok(AnsweredOutput::Values(ranked(version, &output, count)?)),
        OutputForm::Region(part) => {
            writes.add(part, &output)?;
            Ok(AnsweredOutput::InRegion(output))
        }
    }
}

/// The highest classes of an output.
fn ranked(version: &LoadedVersion, output: &Tensor, classes: NonZeroU64) -> Result<Tensor, ClassificationError> {
    let labels = version.labels.of(output.name()).map(|labels| &labels[..]);
    Classification { classes, labels, has_batch_dimension: version.has_batch_dimension() }.rank(output)
}
