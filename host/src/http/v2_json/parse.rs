//! The request's top level: members in any order, unknown ones ignored (but still JSON).

use model::Tensor;

use super::body::{BinaryData, Sources};
use super::fault::{Fault, Place, clipped};
use super::fields::{array_of, once, string_of};
use super::input::read_input;
use super::output::read_output;
use super::parameters::read_parameters;
use super::raw::read_raw;
use super::{InferBody, InferContext, InferRequest, RequestedOutput, V2Error};
use crate::http::json::{JsonError, Kind, Reader};

/// Entries of `inputs` or `outputs` above what the model has, at most: enough for a useful text about the surplus,
/// too few for comparing names with one another to matter.
const SURPLUS_MAX: usize = 64;

/// Reads the body of `POST /v2/models/{model}/infer`. Source: Open Inference Protocol v2, "Inference Request JSON
/// Object", and Triton's HTTP front end where the protocol is silent.
///
/// # Errors
/// A [`V2Error`] with the text for the client: [`model::ErrorCode::MalformedRequest`] for what is not JSON or has a
/// member of another type, [`model::ErrorCode::InvalidTensors`] for tensors that contradict themselves,
/// that of a [`RegionError`](crate::shared_memory::RegionError) for shared memory that cannot be had.
pub fn parse_infer(body: &InferBody, context: &InferContext<'_>) -> Result<InferRequest, V2Error> {
    match body {
        InferBody::Described { json, binary } => {
            let text = text_of(json)?;
            let binary = BinaryData::new(binary.clone());
            let mut sources = Sources { binary, regions: context.shared_memory.reader() };
            read_request(&mut Reader::new(text), context, &mut sources).map_err(|fault| {
                if fault.names_request { fault.with_id(find_id(text).as_deref()) } else { *fault.error }
            })
        }
        InferBody::Raw(data) => read_raw(data.clone(), context).map_err(|fault| fault.with_id(None)),
    }
}

/// The JSON as text.
pub(super) fn text_of(json: &[u8]) -> Result<&str, V2Error> {
    std::str::from_utf8(json).map_err(|error| {
        let what = "invalid UTF-8";
        *Fault::from(JsonError::Syntax { what, at: error.valid_up_to() }).error
    })
}

fn read_request(
    reader: &mut Reader<'_>,
    context: &InferContext<'_>,
    sources: &mut Sources<'_>,
) -> Result<InferRequest, Fault> {
    let place = Place::Request;
    let (mut id, mut inputs, mut outputs, mut parameters) = (None, None, None, None);
    check_outermost(reader)?;
    reader.members(|reader, key| match key {
        "id" => once(&mut id, key, place, string_of(reader, key, place)),
        "inputs" => once(&mut inputs, key, place, read_inputs(reader, context, sources)),
        "outputs" => once(&mut outputs, key, place, read_outputs(reader, context)),
        "parameters" => once(&mut parameters, key, place, read_parameters(reader)),
        _ => Ok(reader.skip_value()?),
    })?;
    reader.end()?;
    let inputs = inputs.ok_or_else(|| Fault::missing("inputs", place))?;
    if !sources.binary.is_empty() {
        return Err(Fault::tensor(format!("unexpected additional input data for model '{}'", context.model)));
    }
    let (parameters, encoding) = parameters.unwrap_or_default().into_parts();
    let (id, outputs) = (id.map(|id| id.into_owned()), outputs.unwrap_or_default());
    Ok(InferRequest { id, inputs, outputs, encoding, parameters })
}

/// Checks that an object follows, without reading it.
pub(super) fn check_outermost(reader: &mut Reader<'_>) -> Result<(), Fault> {
    if reader.peek().is_none() {
        return Err(reader.error("the document is empty").into());
    }
    match reader.kind()? {
        Kind::Object => Ok(()),
        _ => Err(reader.error("expected an object").into()),
    }
}

fn read_inputs(
    reader: &mut Reader<'_>,
    context: &InferContext<'_>,
    sources: &mut Sources<'_>,
) -> Result<Vec<Tensor>, Fault> {
    array_of(reader, "inputs", Place::Request)?;
    let expected = context.signature.inputs.len();
    let mut inputs: Vec<Tensor> = Vec::with_capacity(expected);
    reader.elements(|reader| {
        check_surplus("inputs", inputs.len(), expected, context)?;
        let input = read_input(reader, Place::Input(inputs.len()), context, sources)?;
        if inputs.iter().any(|earlier| earlier.name() == input.name()) {
            return Err(duplicate("input", input.name()));
        }
        inputs.push(input);
        Ok(())
    })?;
    Ok(inputs)
}

fn read_outputs(reader: &mut Reader<'_>, context: &InferContext<'_>) -> Result<Vec<RequestedOutput>, Fault> {
    array_of(reader, "outputs", Place::Request)?;
    let expected = context.signature.outputs.len();
    let mut outputs: Vec<RequestedOutput> = Vec::new();
    reader.elements(|reader| {
        check_surplus("outputs", outputs.len(), expected, context)?;
        let output = read_output(reader, Place::Output(outputs.len()), context)?;
        if outputs.iter().any(|earlier| earlier.name == output.name) {
            return Err(duplicate("output", &output.name));
        }
        outputs.push(output);
        Ok(())
    })?;
    Ok(outputs)
}

fn check_surplus(list: &str, got: usize, expected: usize, context: &InferContext<'_>) -> Result<(), Fault> {
    if got < expected + SURPLUS_MAX {
        return Ok(());
    }
    Err(Fault::tensor(format!("request lists more than {got} {list}, but model '{}' has {expected}", context.model)))
}

/// Triton's words for a name that comes twice.
fn duplicate(what: &str, name: &str) -> Fault {
    Fault::tensor(format!("{what} '{}' already exists in request", clipped(name))).naming_request()
}

/// The request's id, for a text that begins with it. It may stand after what is wrong, so it is looked up only now.
fn find_id(text: &str) -> Option<String> {
    let mut id = None;
    // Whatever comes first, the id or a fault, ends the search.
    let _ = Reader::new(text).members(|reader, key| {
        if key == "id" && id.is_none() && reader.kind()? == Kind::String {
            id = Some(reader.string()?.into_owned());
            return Ok(());
        }
        reader.skip_value()
    });
    id
}
