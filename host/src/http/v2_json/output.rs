//! One entry of `outputs`: a name, and how the client wants the values.

use std::num::NonZeroU64;

use super::fault::{Fault, Place, clipped};
use super::fields::{boolean_of, object_of, once, string_of, unsigned_of};
use super::{Encoding, RequestedOutput};
use crate::http::json::Reader;

/// What an entry's `parameters` say.
#[derive(Default)]
struct Delivery {
    binary: Option<bool>,
    classes: Option<u64>,
    region: Option<String>,
}

/// Reads the entry at `reader`.
///
/// # Errors
/// The first thing wrong with it, or a way of delivery this server does not have.
pub(super) fn read_output(reader: &mut Reader<'_>, place: Place) -> Result<RequestedOutput, Fault> {
    object_of(reader, "outputs", place)?;
    let (mut name, mut delivery) = (None, None);
    reader.members(|reader, key| match key {
        "name" => once(&mut name, "name", place, string_of(reader, "name", place)),
        "parameters" => once(&mut delivery, "parameters", place, read_delivery(reader, place)),
        _ => Ok(reader.skip_value()?),
    })?;
    let name = name.ok_or_else(|| Fault::missing("name", place))?;
    let Delivery { binary, classes, region } = delivery.unwrap_or_default();
    if let Some(region) = region {
        return Err(region_fault(&name, &region, (binary, classes)));
    }
    Ok(RequestedOutput {
        name: name.into_owned(),
        encoding: binary.map(Encoding::from).unwrap_or_default(),
        classes: classes.and_then(NonZeroU64::new),
    })
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

/// Why an output cannot go into a shared memory region.
fn region_fault(name: &str, region: &str, others: (Option<bool>, Option<u64>)) -> Fault {
    match others {
        (_, Some(_)) => {
            Fault::malformed("Output can't set both 'shared_memory_region' and 'classification'".to_owned())
        }
        (Some(_), None) => {
            Fault::malformed("Output can't set both 'shared_memory_region' and 'binary_data'".to_owned())
        }
        (None, None) => Fault::not_supported(format!(
            "output '{}' names shared memory region '{}', but client shared memory is not enabled on this server; leave \
             'shared_memory_region' out and read the values from the answer",
            clipped(name),
            clipped(region)
        )),
    }
}
