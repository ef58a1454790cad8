//! A request message into tensors. Whether they fit the model is [`model::Signature::check_inputs`]' business; what comes
//! out of here has distinct names, and tensors whose bytes fit their types and shapes. Texts are Triton's, with the
//! request's id before those of its core.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use model::{DataType, ErrorCode, Signature, SignatureMismatch, Tensor, display_shape};

use super::contents::{Place, read_contents};
use super::parameters::{RequestParameters, classes};
use super::proto::inference::ModelInferRequest;
use super::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use super::shared_memory;
use crate::failure::{RequestFailure, clipped};
use crate::raw_tensor::RawInput;
use crate::shared_memory::{RegionPart, RegionReader, SharedMemory};

/// Dimensions of one shape, at most. Source: NumPy's limit; no model has more.
const RANK_MAX: usize = 64;
/// Inputs or outputs of a request above what the model has, at most: enough for a useful text about the surplus.
const SURPLUS_MAX: usize = 64;

/// What a request is read for.
#[derive(Clone, Copy, Debug)]
pub struct DecodeContext<'a> {
    /// The model's name, for texts.
    pub model: &'a str,
    /// The model's inputs and outputs: names are shared with it, and it bounds how many a request may list.
    pub signature: &'a Signature,
    /// Where inputs may come from, and outputs go, that are not in the messages.
    pub shared_memory: &'a SharedMemory,
}

/// A request, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    /// The client's name for the request; empty where it gave none.
    pub id: String,
    /// The inputs in the request's order, with distinct names.
    pub inputs: Vec<Tensor>,
    /// The outputs asked for, distinct; empty means all.
    pub outputs: Vec<RequestedOutput>,
    /// What its parameters say.
    pub parameters: RequestParameters,
}

/// An output that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Its name.
    pub name: String,
    /// What is made of its values.
    pub form: OutputForm,
}

/// What is made of an output's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// They are in the answer.
    Values,
    /// So many classes of each row are in the answer.
    Classes(NonZeroU64),
    /// They go into this part of a shared memory region.
    Region(RegionPart),
}

impl AsRef<str> for RequestedOutput {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

/// Reads a message of `ModelInfer` or `ModelStreamInfer`. Source: Triton's gRPC front end.
///
/// # Errors
/// A [`RequestFailure`]: [`ErrorCode::MalformedRequest`] for a parameter of another type, [`ErrorCode::InvalidTensors`] for
/// tensors that contradict themselves, that of a [`RegionError`](crate::shared_memory::RegionError) for shared memory that
/// cannot be had.
pub fn decode_infer(message: ModelInferRequest, context: &DecodeContext<'_>) -> Result<InferRequest, RequestFailure> {
    let ModelInferRequest { id, parameters, inputs, outputs, raw_input_contents, .. } = message;
    let parameters = RequestParameters::read(&parameters)?;
    check_surplus("inputs", inputs.len(), context.signature.inputs.len(), context)?;
    check_surplus("outputs", outputs.len(), context.signature.outputs.len(), context)?;
    let decoded = read_inputs(inputs, raw_input_contents, context)
        .and_then(|inputs| Ok((inputs, read_outputs(outputs, context)?)))
        .map_err(|failure| failure.with_request_id(Some(&id)));
    let (inputs, outputs) = decoded?;
    Ok(InferRequest { id, inputs, outputs, parameters })
}

fn read_inputs(
    inputs: Vec<InferInputTensor>,
    raw: Vec<Bytes>,
    context: &DecodeContext<'_>,
) -> Result<Vec<Tensor>, RequestFailure> {
    let regions = context.shared_memory.reader();
    let mut sources = Sources { has_raw: !raw.is_empty(), raw: raw.into_iter(), regions };
    let mut tensors: Vec<Tensor> = Vec::with_capacity(inputs.len());
    for input in inputs {
        if tensors.iter().any(|earlier| **earlier.name() == *input.name) {
            return Err(duplicate("input", &input.name));
        }
        tensors.push(read_input(input, &mut sources, context)?);
    }
    Ok(tensors)
}

/// Where inputs come from, other than their own contents.
struct Sources<'a> {
    /// Whether the request has raw contents.
    has_raw: bool,
    /// Those that no input has taken yet.
    raw: std::vec::IntoIter<Bytes>,
    /// What clients share.
    regions: RegionReader<'a>,
}

fn read_input(
    input: InferInputTensor,
    sources: &mut Sources<'_>,
    context: &DecodeContext<'_>,
) -> Result<Tensor, RequestFailure> {
    let InferInputTensor { name, datatype, shape, parameters, contents } = input;
    let shown = clipped(&name);
    let place = Place { input: &shown, model: context.model };
    let part = shared_memory::claim(&parameters, &name)?;
    let spec = context.signature.inputs.iter().find(|spec| *spec.name == *name);
    let data_type = DataType::from_v2_name(&datatype);
    let data_type = data_type.ok_or_else(|| unknown_type(spec.map(|spec| spec.data_type), &datatype, place))?;
    let data = match (part, contents) {
        (Some(_), Some(_)) => return Err(contents_and_region(place)),
        (Some(part), None) => sources.regions.read(&part)?,
        (None, Some(_)) if sources.has_raw => return Err(both_contents(place)),
        (None, Some(contents)) => read_contents(contents, data_type, place)?,
        (None, None) => sources.raw.next().ok_or_else(|| no_contents(place))?,
    };
    let shape = read_shape(&shape, place)?;
    let shared = spec.map_or_else(|| Arc::from(name.as_str()), |spec| Arc::clone(&spec.name));
    let input = RawInput { model: context.model, name: shared, data_type, shape, data };
    input.into_tensor().map_err(|error| {
        let failure = invalid(error.to_string());
        if error.names_request() { failure.naming_request() } else { failure }
    })
}

fn read_shape(shape: &[i64], place: Place<'_>) -> Result<Vec<u64>, RequestFailure> {
    let Place { input, model } = place;
    if shape.len() > RANK_MAX {
        let text = format!("input '{input}' for model '{model}' has more than {RANK_MAX} dimensions");
        return Err(invalid(text).naming_request());
    }
    let dimensions: Result<Vec<u64>, _> = shape.iter().map(|&dimension| u64::try_from(dimension)).collect();
    dimensions.map_err(|_| {
        let shape = display_shape(shape);
        let text =
            format!("All input dimensions should be specified for input '{input}' for model '{model}', got {shape}");
        invalid(text).naming_request()
    })
}

fn read_outputs(
    outputs: Vec<InferRequestedOutputTensor>,
    context: &DecodeContext<'_>,
) -> Result<Vec<RequestedOutput>, RequestFailure> {
    let mut read: Vec<RequestedOutput> = Vec::with_capacity(outputs.len());
    for InferRequestedOutputTensor { name, parameters } in outputs {
        if read.iter().any(|earlier| earlier.name == name) {
            return Err(duplicate("output", &name));
        }
        let form = match (shared_memory::claim(&parameters, &name)?, classes(&parameters)?) {
            (Some(_), Some(_)) => return Err(region_and_classes()),
            (Some(claim), None) => OutputForm::Region(context.shared_memory.part(&claim)?),
            (None, Some(count)) => OutputForm::Classes(count),
            (None, None) => OutputForm::Values,
        };
        read.push(RequestedOutput { name, form });
    }
    Ok(read)
}

fn check_surplus(list: &str, got: usize, expected: usize, context: &DecodeContext<'_>) -> Result<(), RequestFailure> {
    if got <= expected + SURPLUS_MAX {
        return Ok(());
    }
    let text = format!("request lists {got} {list}, but model '{}' has {expected}", context.model);
    Err(RequestFailure::new(ErrorCode::InvalidTensors, text))
}

fn duplicate(what: &str, name: &str) -> RequestFailure {
    invalid(format!("{what} '{}' already exists in request", clipped(name))).naming_request()
}

fn unknown_type(expected: Option<DataType>, given: &str, place: Place<'_>) -> RequestFailure {
    let Place { input, model } = place;
    let Some(expected) = expected else {
        return invalid(SignatureMismatch::UnknownInput(input.into()).text(model));
    };
    let given = clipped(given);
    let text = format!("inference input '{input}' data-type is '{given}', but model '{model}' expects '{expected}'");
    invalid(text).naming_request()
}

fn both_contents(Place { input, model }: Place<'_>) -> RequestFailure {
    invalid(format!(
        "contents field must not be specified when using raw_input_contents for '{input}' for model '{model}'"
    ))
}

fn contents_and_region(Place { input, model }: Place<'_>) -> RequestFailure {
    invalid(format!(
        "unexpected 'content' provided when using shared memory for input tensor '{input}' for model '{model}'"
    ))
}

fn region_and_classes() -> RequestFailure {
    let text = "output can't set both 'shared_memory_region' and 'classification'";
    RequestFailure::new(ErrorCode::MalformedRequest, text)
}

fn no_contents(Place { input, model }: Place<'_>) -> RequestFailure {
    invalid(format!("unable to find data for input tensor '{input}' for model '{model}' in request."))
}

fn invalid(text: String) -> RequestFailure {
    RequestFailure::new(ErrorCode::InvalidTensors, text)
}

#[cfg(test)]
mod tests;
