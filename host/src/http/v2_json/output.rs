//! One entry of `outputs`: a name, and what the client wants of the values.

use std::num::NonZeroU64;

use super::fault::{Fault, Place};
use super::fields::{boolean_of, object_of, once, string_of, unsigned_of};
use super::parameters::RegionFields;
use super::{Encoding, InferContext, OutputForm, RequestedOutput};
use crate::http::json::Reader;
use crate::shared_memory::PartClaim;

/// What an entry's `parameters` say.
#[derive(Default)]
struct Delivery {
    binary: Option<bool>,
    classes: Option<u64>,
    region: Option<PartClaim>,
}

/// Reads the entry at `reader`.
///
/// # Errors
/// The first thing wrong with it, or a part of shared memory that cannot be had.
pub(super) fn read_output(
    reader: &mut Reader<'_>,
    place: Place,
    context: &InferContext<'_>,
) -> Result<RequestedOutput, Fault> {
    object_of(reader, "outputs", place)?;
    let (mut name, mut delivery) = (None, None);
    reader.members(|reader, key| match key {
        "name" => once(&mut name, "name", place, string_of(reader, "name", place)),
        "parameters" => once(&mut delivery, "parameters", place, read_delivery(reader, place)),
        _ => Ok(reader.skip_value()?),
    })?;
    let name = name.ok_or_else(|| Fault::missing("name", place))?.into_owned();
    Ok(RequestedOutput { name, form: delivery.unwrap_or_default().into_form(context)? })
}

fn read_delivery(reader: &mut Reader<'_>, place: Place) -> Result<Delivery, Fault> {
    let (mut delivery, mut region) = (Delivery::default(), RegionFields::default());
    object_of(reader, "parameters", place)?;
    reader.members(|reader, key| match key {
        "binary_data" => once(&mut delivery.binary, key, place, boolean_of(reader, key, place)),
        "classification" => once(&mut delivery.classes, key, place, unsigned_of(reader, key, place)),
        _ if region.read(reader, key, place)? => Ok(()),
        _ => Ok(reader.skip_value()?),
    })?;
    delivery.region = region.into_claim();
    Ok(delivery)
}

impl Delivery {
    fn into_form(self, context: &InferContext<'_>) -> Result<OutputForm, Fault> {
        let encoding = self.binary.map(Encoding::from).unwrap_or_default();
        match (self.region, self.classes) {
            (Some(_), Some(_)) => {
                let text = "Output can't set both 'shared_memory_region' and 'classification'";
                Err(Fault::malformed(text.to_owned()))
            }
            (Some(_), None) if encoding == Encoding::Binary => {
                let text = "Output can't set both 'shared_memory_region' and 'binary_data'";
                Err(Fault::malformed(text.to_owned()))
            }
            (Some(claim), None) => Ok(OutputForm::Region(context.shared_memory.part(&claim)?)),
            (None, classes) => Ok(match classes.and_then(NonZeroU64::new) {
                Some(count) => OutputForm::Classes { count, encoding },
                None => OutputForm::Values(encoding),
            }),
        }
    }
}
