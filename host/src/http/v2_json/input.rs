//! One entry of `inputs`. Its members may come in any order; where `data` comes before what says how to read it, it is
//! checked as JSON first and read at the end.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use model::{DataType, Tensor};

use super::InferContext;
use super::body::Sources;
use super::data::{Target, read_data};
use super::fault::{Fault, Place, clipped};
use super::fields::{array_of, object_of, once, string_of};
use super::parameters::{Carrier, read_carriers};
use crate::http::json::{Kind, Reader};
use crate::raw_tensor::RawInput;

/// Dimensions of one shape, at most. Source: NumPy's limit; no model has more.
const RANK_MAX: usize = 64;

/// What an entry has said so far.
struct InputFields<'a> {
    place: Place,
    name: Option<Cow<'a, str>>,
    data_type: Option<Cow<'a, str>>,
    shape: Option<Vec<u64>>,
    data: Option<InputData>,
    carriers: Option<Vec<Carrier>>,
}

enum InputData {
    Read(Bytes),
    /// Where `data` starts.
    At(usize),
}

/// Reads the entry at `reader`.
///
/// # Errors
/// The first thing wrong with it, as a [`Fault`].
pub(super) fn read_input<'a>(
    reader: &mut Reader<'a>,
    place: Place,
    context: &InferContext<'_>,
    sources: &mut Sources<'_>,
) -> Result<Tensor, Fault> {
    object_of(reader, "inputs", place)?;
    let mut fields = InputFields { place, name: None, data_type: None, shape: None, data: None, carriers: None };
    reader.members(|reader, key| match key {
        "name" => once(&mut fields.name, "name", place, string_of(reader, "name", place)),
        "datatype" => once(&mut fields.data_type, "datatype", place, string_of(reader, "datatype", place)),
        "shape" => once(&mut fields.shape, "shape", place, read_shape(reader, place)),
        "parameters" => once(&mut fields.carriers, "parameters", place, read_carriers(reader, place)),
        "data" => {
            let data = fields.read_data(reader, context);
            once(&mut fields.data, "data", place, data)
        }
        _ => Ok(reader.skip_value()?),
    })?;
    fields.into_tensor(reader, context, sources)
}

fn read_shape(reader: &mut Reader<'_>, place: Place) -> Result<Vec<u64>, Fault> {
    array_of(reader, "shape", place)?;
    let mut shape = Vec::new();
    reader.elements(|reader| {
        let whole = match reader.kind()? {
            Kind::Number => reader.number()?.to_integer().ok(),
            _ => None,
        };
        let Some(dimension) = whole else {
            return Err(Fault::wrong_type("shape", "unsigned-integer", place));
        };
        if shape.len() == RANK_MAX {
            return Err(Fault::malformed(format!(
                "Unable to parse 'shape': it has more than {RANK_MAX} dimensions ({place})"
            )));
        }
        shape.push(dimension);
        Ok(())
    })?;
    Ok(shape)
}

impl InputFields<'_> {
    fn read_data(&self, reader: &mut Reader<'_>, context: &InferContext<'_>) -> Result<InputData, Fault> {
        if let (Some(name), Some(data_type), Some(shape)) = (&self.name, &self.data_type, &self.shape) {
            let target = Target { name, data_type: data_type_of(data_type, name)?, shape, place: self.place };
            return Ok(InputData::Read(read_data(reader, &target, context)?));
        }
        let start = reader.value_offset();
        reader.skip_value()?;
        Ok(InputData::At(start))
    }

    fn into_tensor(
        self,
        reader: &Reader<'_>,
        context: &InferContext<'_>,
        sources: &mut Sources<'_>,
    ) -> Result<Tensor, Fault> {
        let carriers = self.carriers.as_deref().unwrap_or_default();
        if self.data.iter().len() + carriers.len() != 1 {
            return Err(self.carriers_fault(carriers));
        }
        let place = self.place;
        let name = self.name.ok_or_else(|| Fault::missing("name", place))?;
        let data_type = self.data_type.ok_or_else(|| Fault::missing("datatype", place))?;
        let data_type = data_type_of(&data_type, &name)?;
        let shape = self.shape.ok_or_else(|| Fault::missing("shape", place))?;
        let data = match (self.data, carriers.first()) {
            (Some(InputData::Read(data)), _) => data,
            (Some(InputData::At(start)), _) => read_data(
                &mut reader.at_offset(start),
                &Target { name: &name, data_type, shape: &shape, place },
                context,
            )?,
            (None, Some(Carrier::Binary(size))) => {
                sources.binary.take(*size).map_err(|missing| too_short(&name, missing, context))?
            }
            (None, Some(Carrier::SharedMemory(part))) => sources.regions.read(part)?,
            (None, None) => return Err(Fault::missing("data", place)),
        };
        let name = shared_name(&name, context);
        Ok(RawInput { model: context.model, name, data_type, shape, data }.into_tensor()?)
    }

    /// Triton's words for values that come by no way or by several.
    fn carriers_fault(&self, carriers: &[Carrier]) -> Fault {
        let mut text = "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', \
                        'shared_memory_region' in 'parameters'. But"
            .to_owned();
        if self.data.is_none() && carriers.is_empty() {
            text += " no field is set";
        } else {
            text += " set";
            if self.data.is_some() {
                text += " 'data'";
            }
            for carrier in carriers {
                text += &format!(" '{}'", carrier.field());
            }
        }
        Fault::malformed(format!("{text} ({})", self.place))
    }
}

fn too_short(name: &str, missing: u64, context: &InferContext<'_>) -> Fault {
    Fault::tensor(format!(
        "unexpected size for input '{}', expecting {missing} additional bytes for model '{}'",
        clipped(name),
        context.model
    ))
}

fn data_type_of(text: &str, name: &str) -> Result<DataType, Fault> {
    DataType::from_v2_name(text).ok_or_else(|| {
        let known = DataType::ALL.map(DataType::v2_name).join(", ");
        let (text, name) = (clipped(text), clipped(name));
        Fault::tensor(format!("invalid datatype for input {name} ('{text}' is none of {known})"))
    })
}

/// The model's own copy of `name`, where it has an input of that name.
fn shared_name(name: &str, context: &InferContext<'_>) -> Arc<str> {
    let known = context.signature.inputs.iter().find(|spec| &*spec.name == name);
    known.map_or_else(|| name.into(), |spec| Arc::clone(&spec.name))
}
