//! One entry of `outputs`: a name, and how the client wants the values. Only plain JSON is offered so far.

use super::fault::{Fault, Place, clipped};
use super::fields::{boolean_of, object_of, once, string_of, unsigned_of};
use super::reader::Reader;

/// How a client wants an output's values.
#[derive(Default)]
struct Delivery {
    binary: Option<bool>,
    classes: Option<u64>,
    region: Option<String>,
}

/// Reads the entry at `reader`: the output's name.
///
/// # Errors
/// The first thing wrong with it, or a way of delivery this server does not have.
pub(super) fn read_output(reader: &mut Reader<'_>, place: Place) -> Result<String, Fault> {
    object_of(reader, "outputs", place)?;
    let (mut name, mut delivery) = (None, None);
    reader.members(|reader, key| match key {
        "name" => once(&mut name, "name", place, string_of(reader, "name", place)),
        "parameters" => once(&mut delivery, "parameters", place, read_delivery(reader, place)),
        _ => Ok(reader.skip_value()?),
    })?;
    let name = name.ok_or_else(|| Fault::missing("name", place))?;
    delivery.unwrap_or_default().check(&name)?;
    Ok(name.into_owned())
}

fn read_delivery(reader: &mut Reader<'_>, place: Place) -> Result<Delivery, Fault> {
    let mut delivery = Delivery::default();
    object_of(reader, "parameters", place)?;
    reader.members(|reader, key| match key {
        "binary_data" => once(&mut delivery.binary, key, place, boolean_of(reader, key, place)),
        "classification" => once(&mut delivery.classes, key, place, unsigned_of(reader, key, place)),
        "shared_memory_region" => {
            let region = string_of(reader, key, place).map(|region| region.into_owned());
            once(&mut delivery.region, key, place, region)
        }
        _ => Ok(reader.skip_value()?),
    })?;
    Ok(delivery)
}

impl Delivery {
    fn check(&self, name: &str) -> Result<(), Fault> {
        let name = clipped(name);
        let classes = self.classes.is_some_and(|count| count > 0);
        let binary = self.binary == Some(true);
        match &self.region {
            Some(_) if self.classes.is_some() => {
                Err(Fault::malformed("Output can't set both 'shared_memory_region' and 'classification'".to_owned()))
            }
            Some(_) if self.binary.is_some() => {
                Err(Fault::malformed("Output can't set both 'shared_memory_region' and 'binary_data'".to_owned()))
            }
            Some(region) => Err(Fault::not_supported(format!(
                "output '{name}' names shared memory region '{}', but client shared memory is not enabled on this \
                 server; leave 'shared_memory_region' out and read the values from 'data'",
                clipped(region)
            ))),
            None if classes => Err(Fault::not_supported(format!(
                "output '{name}' asks for 'classification', which this server does not support yet; leave it out and \
                 rank the values of 'data'"
            ))),
            None if binary => Err(Fault::not_supported(format!(
                "output '{name}' asks for 'binary_data', which this server does not support yet; leave it out and read \
                 the values from 'data'"
            ))),
            None => Ok(()),
        }
    }
}
