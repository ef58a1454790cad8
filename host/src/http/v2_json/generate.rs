//! The bodies of `generate` and `generate_stream`: one JSON object whose members are the model's inputs by name, and the
//! request's parameters. Source: Triton's "Generate Extension".

use std::sync::Arc;

use model::{Tensor, TensorSpec};

use super::data::{Target, read_values};
use super::fault::{Fault, Place};
use super::fields::{once, string_of};
use super::parameters::Parameters;
use super::parse::{check_outermost, text_of};
use super::{Encoding, InferContext, InferRequest, V2Error};
use crate::http::json::{Kind, Reader};

/// Reads the body of `POST /v2/models/{model}/generate`. An input is one value or an array; its shape is the model's, made
/// to fit the number of values. What `parameters` holds counts as if it stood beside it.
///
/// # Errors
/// As [`parse_infer`](super::parse_infer).
pub fn parse_generate(body: &[u8], context: &InferContext<'_>) -> Result<InferRequest, V2Error> {
    let mut reader = Reader::new(text_of(body)?);
    let mut members = Members { context, id: None, inputs: Vec::new(), parameters: Parameters::default() };
    let read = check_outermost(&mut reader).and_then(|()| members.read(&mut reader)).and_then(|()| Ok(reader.end()?));
    match read {
        Ok(()) => Ok(members.into_request()),
        Err(fault) => Err(fault.with_id(members.id.as_deref())),
    }
}

/// What the body has said so far.
struct Members<'a> {
    context: &'a InferContext<'a>,
    id: Option<String>,
    inputs: Vec<Tensor>,
    parameters: Parameters,
}

impl<'a> Members<'a> {
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        reader.members(|reader, key| match (self.spec(key), key) {
            (Some(spec), _) => self.read_input(reader, spec),
            (None, "id") => {
                let id = string_of(reader, key, Place::Request).map(|id| id.into_owned());
                once(&mut self.id, key, Place::Request, id)
            }
            (None, "parameters") => self.read_parameters(reader),
            (None, _) => self.parameters.read(reader, key),
        })
    }

    fn read_parameters(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        if reader.kind()? != Kind::Object {
            return Err(Fault::malformed("Expected JSON object for keyword: 'parameters'".to_owned()));
        }
        reader.members(|reader, key| match self.spec(key) {
            Some(spec) => self.read_input(reader, spec),
            None => self.parameters.read(reader, key),
        })
    }

    fn read_input(&mut self, reader: &mut Reader<'_>, spec: &TensorSpec) -> Result<(), Fault> {
        if self.inputs.iter().any(|earlier| *earlier.name() == spec.name) {
            return Err(Fault::repeated(&spec.name, Place::Request));
        }
        let mut count = 0;
        reader.clone().flatten(|reader| {
            count += 1;
            reader.skip_value()
        })?;
        let shape = fitted_shape(&spec.shape, count);
        let (name, data_type, place) = (&*spec.name, spec.data_type, Place::Request);
        let data = read_values(reader, &Target { name, data_type, shape: &shape, place }, self.context)?;
        let tensor = Tensor::new(Arc::clone(&spec.name), data_type, shape, data);
        self.inputs.push(tensor.map_err(|error| Fault::tensor(error.to_string()))?);
        Ok(())
    }

    fn spec(&self, name: &str) -> Option<&'a TensorSpec> {
        self.context.signature.inputs.iter().find(|spec| &*spec.name == name)
    }

    fn into_request(self) -> InferRequest {
        let (parameters, _) = self.parameters.into_parts();
        let Self { id, inputs, .. } = self;
        InferRequest { id, inputs, outputs: Vec::new(), encoding: Encoding::Json, parameters }
    }
}

/// `dims` for `count` elements: the last free dimension takes what the fixed ones leave, the other free ones are 1.
fn fitted_shape(dims: &[i64], count: u64) -> Vec<u64> {
    let fixed = dims.iter().filter_map(|&dim| u64::try_from(dim).ok()).fold(1, u64::saturating_mul);
    let rest = count.checked_div(fixed).unwrap_or(0);
    let last = dims.iter().rposition(|&dim| dim < 0);
    let fit = |(position, &dim): (usize, &i64)| match u64::try_from(dim) {
        Ok(dim) => dim,
        Err(_) if Some(position) == last => rest,
        Err(_) => 1,
    };
    dims.iter().enumerate().map(fit).collect()
}
