//! A business request over gRPC: `ModelInfer` with the one BYTES input `body` reaches the model's plugin, and what it
//! answers is the BYTES output `body`. The parameters `content_type` and `accept` are what the headers are over HTTP; the
//! answer has `content_type` and, where the plugin chose one, its HTTP status as `status`.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use model::{DataType, ErrorCode, Tensor};
use tokio::time::Instant;

use super::contents::{Place, read_contents};
use super::encode::{AnsweredOutput, InferAnswer};
use super::parameters::{parameter, text_of};
use super::proto::inference::infer_parameter::ParameterChoice;
use super::proto::inference::{ModelInferRequest, ModelInferResponse};
use super::shared_memory::REGION;
use crate::failure::RequestFailure;
use crate::observed;
use crate::pipeline::{self, PredictRequest};
use crate::registry::{PluginSlot, Release};
use crate::request_id::made_id;

/// The input and the output.
const BODY: &str = "body";

/// Whether the message is meant for the release's plugin: it has one, and the model itself has no such input.
pub(super) fn is_for_plugin(release: &Release, message: &ModelInferRequest) -> bool {
    let [input] = &message.inputs[..] else { return false };
    let is_the_models = || release.version.signature.inputs.iter().any(|spec| &*spec.name == BODY);
    let has_plugin = !matches!(release.plugin, PluginSlot::Absent);
    has_plugin && input.name == BODY && input.datatype == DataType::Bytes.v2_name() && !is_the_models()
}

/// The message as the plugin gets it.
///
/// # Errors
/// [`ErrorCode::MalformedRequest`] where the input is not one byte string, or a parameter no text; [`ErrorCode::NotSupported`]
/// where shared memory is named, which plugins have no part in.
pub(super) fn read(message: ModelInferRequest, deadline: Instant) -> Result<PredictRequest, RequestFailure> {
    let content_type = text_of(&message.parameters, "content_type")?.map(str::to_owned);
    let accept = text_of(&message.parameters, "accept")?.map(str::to_owned);
    let request_id =
        if message.id.is_empty() { observed::request_id().unwrap_or_else(made_id) } else { message.id.clone() };
    refuse_regions(&message)?;
    let body = body_of(message)?;
    Ok(PredictRequest { request_id, content_type, accept, body, deadline })
}

fn refuse_regions(message: &ModelInferRequest) -> Result<(), RequestFailure> {
    let inputs = message.inputs.iter().map(|input| &input.parameters);
    let outputs = message.outputs.iter().map(|output| &output.parameters);
    if inputs.chain(outputs).all(|parameters| !parameters.contains_key(REGION)) {
        return Ok(());
    }
    let text = "a plugin reads and writes no shared memory; send 'body' in the message, and read it in the answer";
    Err(RequestFailure::new(ErrorCode::NotSupported, text))
}

/// The one string in the one input; raw contents are not copied.
fn body_of(message: ModelInferRequest) -> Result<Bytes, RequestFailure> {
    let ModelInferRequest { model_name, inputs, mut raw_input_contents, .. } = message;
    let contents = inputs.into_iter().next().and_then(|input| input.contents);
    let mut data = match (contents, raw_input_contents.is_empty()) {
        (Some(contents), true) => read_contents(contents, DataType::Bytes, Place { input: BODY, model: &model_name })?,
        (None, false) => raw_input_contents.swap_remove(0),
        _ => return Err(not_one_string()),
    };
    let length = data.split_first_chunk::<4>().map(|(length, _)| u32::from_le_bytes(*length) as usize);
    if length.is_none_or(|length| data.len() - 4 != length) {
        return Err(not_one_string());
    }
    Ok(data.split_off(4))
}

fn not_one_string() -> RequestFailure {
    let text = "input 'body' must hold one BYTES element, either in raw_input_contents or in its contents";
    RequestFailure::new(ErrorCode::MalformedRequest, text)
}

/// The plugin's answer.
///
/// # Errors
/// As [`pipeline::predict`].
pub(super) async fn answer(release: &Release, request: PredictRequest) -> Result<ModelInferResponse, RequestFailure> {
    let id = request.request_id.clone();
    let plugin::Response { status, content_type, body, .. } = pipeline::predict(release, request).await?;
    let length = u32::try_from(body.len());
    let length = length.map_err(|error| RequestFailure::new(ErrorCode::Internal, error.to_string()))?;
    let mut data = BytesMut::with_capacity(4 + body.len());
    data.extend_from_slice(&length.to_le_bytes());
    data.extend_from_slice(&body);
    let output = Tensor::new(BODY.into(), DataType::Bytes, vec![1], data.freeze());
    let output = output.map_err(|error| RequestFailure::new(ErrorCode::Internal, error.to_string()))?;
    let parameters = HashMap::from([
        ("content_type".to_owned(), parameter(ParameterChoice::StringParam(content_type))),
        ("status".to_owned(), parameter(ParameterChoice::Int64Param(status.into()))),
    ]);
    InferAnswer { version: &release.version, id, outputs: vec![AnsweredOutput::Values(output)], parameters }.encode()
}
