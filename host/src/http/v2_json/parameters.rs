//! The `parameters` objects: those of the request, typed as Triton types them, and what those of an input say about
//! where its values are.

use super::fault::{Fault, Place, clipped};
use super::fields::{boolean_of, object_of, once, string_of, unsigned_of};
use super::{Encoding, ParameterValue};
use crate::http::json::{Kind, Misfit, Number, Reader};
use crate::shared_memory::PartClaim;

/// Parameters of one request, at most.
const PARAMETERS_MAX: usize = 256;

/// Names that Triton gives a meaning of its own, besides those that start with `triton_`.
const RESERVED: [&str; 7] =
    ["sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"];
const RESERVED_START: &str = "triton_";

/// Whether a parameter of this name means something to Triton itself.
#[must_use]
pub fn is_reserved_parameter(name: &str) -> bool {
    RESERVED.contains(&name) || name.starts_with(RESERVED_START)
}

/// The request's parameters, one by one. Those that only steer the encoding are kept apart.
#[derive(Default)]
pub(super) struct Parameters {
    list: Vec<(String, ParameterValue)>,
    encoding: Option<Encoding>,
}

/// Reads the request's `parameters`.
///
/// # Errors
/// Triton's text for a reserved key or a value of another type; our own for a key given twice or too many of them.
pub(super) fn read_parameters(reader: &mut Reader<'_>) -> Result<Parameters, Fault> {
    if reader.kind()? != Kind::Object {
        return Err(Fault::malformed(
            "failed to get request params.: attempt to get members for non-object ('parameters')".to_owned(),
        ));
    }
    let mut parameters = Parameters::default();
    reader.members(|reader, key| parameters.read(reader, key))?;
    Ok(parameters)
}

impl Parameters {
    /// Reads the value of the parameter `key`.
    ///
    /// # Errors
    /// As [`read_parameters`].
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, key: &str) -> Result<(), Fault> {
        let place = Place::Parameters;
        if self.list.iter().any(|(known, _)| known == key) {
            return Err(Fault::repeated(&clipped(key), place));
        }
        if self.list.len() == PARAMETERS_MAX {
            return Err(Fault::malformed(format!("a request has at most {PARAMETERS_MAX} parameters")));
        }
        if key == "binary_data_output" {
            let encoding = boolean_of(reader, key, place).map(Encoding::from);
            return once(&mut self.encoding, key, place, encoding);
        }
        self.list.push((key.to_owned(), read_value(reader, key, place)?));
        Ok(())
    }

    /// The parameters in their order, and how outputs are written that are not asked for by name.
    pub(super) fn into_parts(self) -> (Vec<(String, ParameterValue)>, Encoding) {
        (self.list, self.encoding.unwrap_or_default())
    }
}

fn read_value(reader: &mut Reader<'_>, key: &str, place: Place) -> Result<ParameterValue, Fault> {
    match key {
        "sequence_id" => sequence_id(reader, place),
        "priority" | "timeout" => unsigned_of(reader, key, place).map(ParameterValue::Unsigned),
        "sequence_start" | "sequence_end" => boolean_of(reader, key, place).map(ParameterValue::Boolean),
        _ if key.starts_with(RESERVED_START) => Err(Fault::malformed(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
                .to_owned(),
        )),
        _ => custom(reader, key),
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
    /// After the JSON, so many bytes.
    Binary(u64),
    /// In shared memory.
    SharedMemory(PartClaim),
}

impl Carrier {
    /// The parameter that says so.
    pub(super) fn field(&self) -> &'static str {
        match self {
            Self::Binary(_) => "binary_data_size",
            Self::SharedMemory(_) => "shared_memory_region",
        }
    }
}

/// What the `parameters` of an input or output say of shared memory.
#[derive(Default)]
pub(super) struct RegionFields {
    region: Option<String>,
    offset: Option<u64>,
    byte_size: Option<u64>,
}

impl RegionFields {
    /// Reads the value of `key`, and says whether it is about shared memory.
    ///
    /// # Errors
    /// Triton's text for a value of another type.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, key: &str, place: Place) -> Result<bool, Fault> {
        match key {
            "shared_memory_region" => {
                let region = string_of(reader, key, place).map(|region| region.into_owned());
                once(&mut self.region, key, place, region)
            }
            "shared_memory_offset" => once(&mut self.offset, key, place, unsigned_of(reader, key, place)),
            "shared_memory_byte_size" => once(&mut self.byte_size, key, place, unsigned_of(reader, key, place)),
            _ => return Ok(false),
        }?;
        Ok(true)
    }

    /// The part that they name. As in Triton one whose size is not said is empty.
    pub(super) fn into_claim(self) -> Option<PartClaim> {
        let (offset, byte_size) = (self.offset.unwrap_or(0), self.byte_size.unwrap_or(0));
        self.region.map(|region| PartClaim { region, offset, byte_size })
    }
}

/// Reads an input's `parameters`. Others than Triton's are ignored, as Triton does.
///
/// # Errors
/// Triton's text for a value of another type.
pub(super) fn read_carriers(reader: &mut Reader<'_>, place: Place) -> Result<Vec<Carrier>, Fault> {
    let (mut binary, mut region) = (None, RegionFields::default());
    object_of(reader, "parameters", place)?;
    reader.members(|reader, key| match key {
        "binary_data_size" => once(&mut binary, key, place, unsigned_of(reader, key, place)),
        _ if region.read(reader, key, place)? => Ok(()),
        _ => Ok(reader.skip_value()?),
    })?;
    let region = region.into_claim().map(Carrier::SharedMemory);
    Ok(binary.map(Carrier::Binary).into_iter().chain(region).collect())
}
