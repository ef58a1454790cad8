//! A request message into tensors. Whether they fit the model is [`model::Signature::check_inputs`]' business; what comes
//! out of here has distinct names, and tensors whose bytes fit their types and shapes. Texts are Triton's, with the
//! request's id before those of its core.

use std::sync::Arc;

use bytes::Bytes;
use model::{DataType, ErrorCode, Signature, SignatureMismatch, Tensor, TensorError, display_shape};

use super::contents::{Place, read_contents};
use super::parameters::RequestParameters;
use super::proto::inference::ModelInferRequest;
use super::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::failure::RequestFailure;

/// Dimensions of one shape, at most. Source: NumPy's limit; no model has more.
const RANK_MAX: usize = 64;
/// Inputs or outputs of a request above what the model has, at most: enough for a useful text about the surplus.
const SURPLUS_MAX: usize = 64;
/// Most bytes of a client's name that a text repeats.
const SHOWN_BYTES_MAX: usize = 128;

/// What a request is read for.
#[derive(Clone, Copy, Debug)]
pub struct DecodeContext<'a> {
    /// The model's name, for texts.
    pub model: &'a str,
    /// The model's inputs and outputs: names are shared with it, and it bounds how many a request may list.
    pub signature: &'a Signature,
}

/// A request, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    /// The client's name for the request; empty where it gave none.
    pub id: String,
    /// The inputs in the request's order, with distinct names.
    pub inputs: Vec<Tensor>,
    /// The outputs asked for, distinct; empty means all.
    pub outputs: Vec<String>,
    /// What its parameters say.
    pub parameters: RequestParameters,
}

/// Reads a message of `ModelInfer` or `ModelStreamInfer`. Source: Triton's gRPC front end.
///
/// # Errors
/// A [`RequestFailure`]: [`ErrorCode::MalformedRequest`] for a parameter of another type, [`ErrorCode::InvalidTensors`] for
/// tensors that contradict themselves, [`ErrorCode::NotImplemented`] for shared memory and classification.
pub fn decode_infer(message: ModelInferRequest, context: &DecodeContext<'_>) -> Result<InferRequest, RequestFailure> {
    let ModelInferRequest { id, parameters, inputs, outputs, raw_input_contents, .. } = message;
    let parameters = RequestParameters::read(&parameters)?;
    check_surplus("inputs", inputs.len(), context.signature.inputs.len(), context)?;
    check_surplus("outputs", outputs.len(), context.signature.outputs.len(), context)?;
    let named = |failure: RequestFailure| failure.naming_request(&id);
    let mut raw = RawContents { is_used: !raw_input_contents.is_empty(), left: raw_input_contents.into_iter() };
    let mut tensors: Vec<Tensor> = Vec::with_capacity(inputs.len());
    for input in inputs {
        if tensors.iter().any(|earlier| **earlier.name() == *input.name) {
            return Err(named(duplicate("input", &input.name)));
        }
        tensors.push(read_input(input, &mut raw, context).map_err(|failure| failure.or_named(&id))?);
    }
    let outputs = read_outputs(outputs).map_err(|failure| failure.or_named(&id))?;
    Ok(InferRequest { id, inputs: tensors, outputs, parameters })
}

/// A failure, and whether Triton puts the request's id before its text.
enum Fault {
    /// Of Triton's front end: it does not.
    Front(RequestFailure),
    /// Of its core: it does.
    Core(RequestFailure),
}

impl Fault {
    fn core(text: String) -> Self {
        Self::Core(RequestFailure::new(ErrorCode::InvalidTensors, text))
    }

    fn front(code: ErrorCode, text: String) -> Self {
        Self::Front(RequestFailure::new(code, text))
    }

    fn or_named(self, id: &str) -> RequestFailure {
        match self {
            Self::Front(failure) => failure,
            Self::Core(failure) => failure.naming_request(id),
        }
    }
}

/// The raw contents that no input has taken yet.
struct RawContents {
    is_used: bool,
    left: std::vec::IntoIter<Bytes>,
}

fn read_input(input: InferInputTensor, raw: &mut RawContents, context: &DecodeContext<'_>) -> Result<Tensor, Fault> {
    let InferInputTensor { name, datatype, shape, parameters, contents } = input;
    let place = Place { input: clipped(&name), model: context.model };
    if parameters.contains_key("shared_memory_region") {
        let text = format!(
            "input '{}' names a shared memory region, which gRPC does not serve yet; send its bytes in raw_input_contents",
            place.input
        );
        return Err(Fault::front(ErrorCode::NotImplemented, text));
    }
    let spec = context.signature.inputs.iter().find(|spec| *spec.name == *name);
    let data_type = DataType::from_v2_name(&datatype);
    let data_type = data_type.ok_or_else(|| unknown_type(spec.map(|spec| spec.data_type), &datatype, place))?;
    let data = match contents {
        Some(_) if raw.is_used => return Err(both_contents(place)),
        Some(contents) => read_contents(contents, data_type, place).map_err(Fault::Front)?,
        None => raw.left.next().ok_or_else(|| no_contents(place))?,
    };
    let shape = read_shape(&shape, place)?;
    let shared = spec.map_or_else(|| Arc::from(name.as_str()), |spec| Arc::clone(&spec.name));
    // What is refused is looked at again for Triton's text; the data is shared, not copied.
    let kept = data.clone();
    Tensor::new(shared, data_type, shape, data).map_err(|error| Fault::core(tensor_text(&error, &kept, place)))
}

fn read_shape(shape: &[i64], place: Place<'_>) -> Result<Vec<u64>, Fault> {
    let Place { input, model } = place;
    if shape.len() > RANK_MAX {
        let text = format!("input '{input}' for model '{model}' has more than {RANK_MAX} dimensions");
        return Err(Fault::core(text));
    }
    let dimensions: Result<Vec<u64>, _> = shape.iter().map(|&dimension| u64::try_from(dimension)).collect();
    dimensions.map_err(|_| {
        let shape = display_shape(shape);
        Fault::core(format!(
            "All input dimensions should be specified for input '{input}' for model '{model}', got {shape}"
        ))
    })
}

fn read_outputs(outputs: Vec<InferRequestedOutputTensor>) -> Result<Vec<String>, Fault> {
    let mut names: Vec<String> = Vec::with_capacity(outputs.len());
    for InferRequestedOutputTensor { name, parameters } in outputs {
        for (parameter, what) in [("classification", "classification"), ("shared_memory_region", "shared memory")] {
            if parameters.contains_key(parameter) {
                let name = clipped(&name);
                let text = format!("output '{name}' asks for {what}, which gRPC does not serve yet; leave it out");
                return Err(Fault::front(ErrorCode::NotImplemented, text));
            }
        }
        if names.contains(&name) {
            return Err(Fault::Core(duplicate("output", &name)));
        }
        names.push(name);
    }
    Ok(names)
}

fn check_surplus(list: &str, got: usize, expected: usize, context: &DecodeContext<'_>) -> Result<(), RequestFailure> {
    if got <= expected + SURPLUS_MAX {
        return Ok(());
    }
    let text = format!("request lists {got} {list}, but model '{}' has {expected}", context.model);
    Err(RequestFailure::new(ErrorCode::InvalidTensors, text))
}

fn duplicate(what: &str, name: &str) -> RequestFailure {
    RequestFailure::new(ErrorCode::InvalidTensors, format!("{what} '{}' already exists in request", clipped(name)))
}

fn unknown_type(expected: Option<DataType>, given: &str, place: Place<'_>) -> Fault {
    let Place { input, model } = place;
    match expected {
        Some(expected) => Fault::core(format!(
            "inference input '{input}' data-type is '{}', but model '{model}' expects '{expected}'",
            clipped(given)
        )),
        None => Fault::front(ErrorCode::InvalidTensors, SignatureMismatch::UnknownInput(input.into()).text(model)),
    }
}

fn both_contents(Place { input, model }: Place<'_>) -> Fault {
    let text =
        format!("contents field must not be specified when using raw_input_contents for '{input}' for model '{model}'");
    Fault::front(ErrorCode::InvalidTensors, text)
}

fn no_contents(Place { input, model }: Place<'_>) -> Fault {
    let text = format!("unable to find data for input tensor '{input}' for model '{model}' in request.");
    Fault::front(ErrorCode::InvalidTensors, text)
}

/// Triton's words for data that does not fit its type and shape.
fn tensor_text(error: &TensorError, data: &[u8], place: Place<'_>) -> String {
    let Place { input, model } = place;
    match error {
        TensorError::Length { expected, got, .. } => {
            format!("input byte size mismatch for input '{input}' for model '{model}'. Expected {expected}, got {got}")
        }
        TensorError::Elements { expected, .. } => strings_text(data, *expected, place),
        other => other.to_string(),
    }
}

/// What is wrong with the byte strings in `data`, of which there should be `expected`.
fn strings_text(data: &[u8], expected: u64, Place { input, model }: Place<'_>) -> String {
    let whose = format!("for inference input '{input}' for model '{model}'");
    let (mut rest, mut count) = (data, 0);
    while !rest.is_empty() {
        if count == expected {
            return format!("unexpected number of string elements {} {whose}, expecting {expected}", count + 1);
        }
        let Some((length, after)) = rest.split_first_chunk::<4>() else {
            return format!(
                "incomplete string length indicator {whose}, expecting 4 bytes but only {} bytes available. Please make \
                 sure the string length indicator is in one buffer.",
                rest.len()
            );
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some(after) = after.get(length..) else {
            return format!(
                "incomplete string data {whose}, expecting string of length {length} but only {} bytes available. Please \
                 make sure the string data is in one buffer.",
                after.len()
            );
        };
        (rest, count) = (after, count + 1);
    }
    format!("expected {expected} string elements {whose}, got {count}")
}

/// A client's name, cut at a character where it is long.
fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

#[cfg(test)]
mod tests;
