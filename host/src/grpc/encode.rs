//! Outputs into an answer message. The raw contents are the engine's bytes.

use std::collections::HashMap;

use bytes::Bytes;
use model::{ErrorCode, Tensor};
use prost::Message as _;

use super::proto::inference::model_infer_response::InferOutputTensor;
use super::proto::inference::{InferParameter, ModelInferResponse};
use crate::failure::RequestFailure;
use crate::registry::LoadedVersion;

/// Most bytes of a message. Source: gRPC's own limit, the largest 32-bit integer with a sign.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;

/// An answer to encode.
pub(super) struct InferAnswer<'a> {
    /// The version that answered.
    pub(super) version: &'a LoadedVersion,
    /// The request's id.
    pub(super) id: String,
    /// The outputs, in the order they are sent.
    pub(super) outputs: Vec<AnsweredOutput>,
    /// What else the answer says.
    pub(super) parameters: HashMap<String, InferParameter>,
}

/// An output of an answer.
pub(super) enum AnsweredOutput {
    /// With its values.
    Values(Tensor),
    /// Without: they are in shared memory.
    InRegion(Tensor),
}

impl InferAnswer<'_> {
    /// The message.
    ///
    /// # Errors
    /// Triton's text where no message is that large.
    pub(super) fn encode(self) -> Result<ModelInferResponse, RequestFailure> {
        let Self { version, id, outputs, parameters } = self;
        let (outputs, raw_output_contents) = outputs.into_iter().map(into_output).unzip();
        let message = ModelInferResponse {
            model_name: version.model.as_str().to_owned(),
            model_version: version.number_text.to_string(),
            id,
            parameters,
            outputs,
            raw_output_contents,
        };
        let len = message.encoded_len();
        if len > ANSWER_BYTES_MAX {
            let text = format!("Response has byte size {len} which exceeds gRPC's byte size limit {ANSWER_BYTES_MAX}.");
            return Err(RequestFailure::new(ErrorCode::InvalidTensors, text));
        }
        Ok(message)
    }
}

/// An output and its raw contents, which are there and empty where it has none.
fn into_output(output: AnsweredOutput) -> (InferOutputTensor, Bytes) {
    let ((name, data_type, shape, data), is_sent) = match output {
        AnsweredOutput::Values(tensor) => (tensor.into_parts(), true),
        AnsweredOutput::InRegion(tensor) => (tensor.into_parts(), false),
    };
    let output = InferOutputTensor {
        name: name.to_string(),
        datatype: data_type.v2_name().to_owned(),
        // An element count fits 63 bits, and so does each dimension of a tensor that has elements.
        shape: shape.into_iter().map(|dimension| i64::try_from(dimension).unwrap_or(i64::MAX)).collect(),
        parameters: HashMap::new(),
        contents: None,
    };
    (output, if is_sent { data } else { Bytes::new() })
}
