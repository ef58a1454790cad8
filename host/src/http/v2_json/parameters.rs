//! The `parameters` objects: those of the request, typed as Triton types them, and what those of an input say about
//! where its values are.

use super::ParameterValue;
use super::fault::{Fault, Place, clipped};
use super::fields::{boolean_of, object_of, once, string_of, unsigned_of};
use super::numbers::{Misfit, Number};
use super::reader::{Kind, Reader};

/// Parameters of one request, at most.
const PARAMETERS_MAX: usize = 256;

/// Reads the request's `parameters`. Those that only steer the encoding are checked and left out.
///
/// # Errors
/// Triton's text for a reserved key or a value of another type; our own for a key given twice or too many of them.
pub(super) fn read_parameters(reader: &mut Reader<'_>) -> Result<Vec<(String, ParameterValue)>, Fault> {
    let place = Place::Parameters;
    let mut parameters: Vec<(String, ParameterValue)> = Vec::new();
    if reader.kind()? != Kind::Object {
        return Err(Fault::malformed(
            "failed to get request params.: attempt to get members for non-object ('parameters')".to_owned(),
        ));
    }
    reader.members(|reader, key| {
        if parameters.iter().any(|(known, _)| known == key) {
            return Err(Fault::repeated(&clipped(key), place));
        }
        if parameters.len() == PARAMETERS_MAX {
            return Err(Fault::malformed(format!("a request has at most {PARAMETERS_MAX} parameters")));
        }
        if let Some(value) = read_parameter(reader, key, place)? {
            parameters.push((key.to_owned(), value));
        }
        Ok(())
    })?;
    Ok(parameters)
}

fn read_parameter(reader: &mut Reader<'_>, key: &str, place: Place) -> Result<Option<ParameterValue>, Fault> {
    match key {
        "sequence_id" => sequence_id(reader, place).map(Some),
        "priority" | "timeout" => Ok(Some(ParameterValue::Unsigned(unsigned_of(reader, key, place)?))),
        "sequence_start" | "sequence_end" => Ok(Some(ParameterValue::Boolean(boolean_of(reader, key, place)?))),
        "binary_data_output" if boolean_of(reader, key, place)? => Err(Fault::not_supported(
            "parameter 'binary_data_output' asks for binary tensor data, which this server does not support yet; \
             leave it out, or ask for each output with \"binary_data\": false"
                .to_owned(),
        )),
        "binary_data_output" => Ok(None),
        _ if key.starts_with("triton_") => Err(Fault::malformed(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
                .to_owned(),
        )),
        _ => custom(reader, key).map(Some),
    }
}

/// A sequence's id is an integer from 0 up or a string; Triton tries the string last, and its text says so.
fn sequence_id(reader: &mut Reader<'_>, place: Place) -> Result<ParameterValue, Fault> {
    const KEY: &str = "sequence_id";
    if reader.kind()? == Kind::Number {
        let id = reader.number()?.to_integer().map_err(|_| Fault::wrong_type(KEY, "string", place))?;
        return Ok(ParameterValue::Unsigned(id));
    }
    Ok(ParameterValue::Text(string_of(reader, KEY, place)?.into_owned()))
}

fn custom(reader: &mut Reader<'_>, key: &str) -> Result<ParameterValue, Fault> {
    match reader.kind()? {
        Kind::Boolean => Ok(ParameterValue::Boolean(reader.boolean()?)),
        Kind::String => Ok(ParameterValue::Text(reader.string()?.into_owned())),
        Kind::Number => {
            let number = reader.number()?;
            custom_number(number).map_err(|_| {
                Fault::malformed(format!(
                    "parameter '{}' is {}, which no 64-bit number holds",
                    clipped(key),
                    clipped(number.text())
                ))
            })
        }
        Kind::Null | Kind::Array | Kind::Object => Err(Fault::malformed(format!(
            "parameter '{}' has invalid type. It should be either 'int', 'bool', or 'string'.",
            clipped(key)
        ))),
    }
}

fn custom_number(number: Number<'_>) -> Result<ParameterValue, Misfit> {
    if let Ok(value) = number.to_integer() {
        return Ok(ParameterValue::Signed(value));
    }
    if let Ok(value) = number.to_integer() {
        return Ok(ParameterValue::Unsigned(value));
    }
    number.to_f64().map(ParameterValue::Real)
}

/// Where an input's values are, other than in `data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// After the JSON.
    Binary,
    /// In this shared memory region.
    SharedMemory(String),
}

impl Carrier {
    /// The parameter that says so.
    pub(super) fn field(&self) -> &'static str {
        match self {
            Self::Binary => "binary_data_size",
            Self::SharedMemory(_) => "shared_memory_region",
        }
    }

    /// Why input `name` cannot be read from there.
    pub(super) fn input_fault(&self, name: &str) -> Fault {
        let name = clipped(name);
        Fault::not_supported(match self {
            Self::Binary => format!(
                "input '{name}' has 'binary_data_size', but this server does not support binary tensor data yet; send \
                 its values as JSON in 'data'"
            ),
            Self::SharedMemory(region) => format!(
                "input '{name}' names shared memory region '{}', but client shared memory is not enabled on this \
                 server; send its values as JSON in 'data'",
                clipped(region)
            ),
        })
    }
}

/// Reads an input's `parameters`. Others than Triton's are ignored, as Triton does.
///
/// # Errors
/// Triton's text for a value of another type.
pub(super) fn read_carriers(reader: &mut Reader<'_>, place: Place) -> Result<Vec<Carrier>, Fault> {
    let (mut binary, mut region) = (None, None);
    object_of(reader, "parameters", place)?;
    reader.members(|reader, key| match key {
        "binary_data_size" => once(&mut binary, key, place, unsigned_of(reader, key, place)),
        "shared_memory_region" => once(&mut region, key, place, string_of(reader, key, place)),
        "shared_memory_offset" | "shared_memory_byte_size" => unsigned_of(reader, key, place).map(drop),
        _ => Ok(reader.skip_value()?),
    })?;
    let region = region.map(|region| Carrier::SharedMemory(region.into_owned()));
    Ok(binary.map(|_| Carrier::Binary).into_iter().chain(region).collect())
}
