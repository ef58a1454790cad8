//! Members of known type, with Triton's text where a value has another.

use std::borrow::Cow;

use super::fault::{Fault, Place};
use crate::http::json::{Kind, Reader};

/// Keeps a member's value; a second one is a fault.
pub(super) fn once<T>(slot: &mut Option<T>, field: &str, place: Place, value: Result<T, Fault>) -> Result<(), Fault> {
    match slot.replace(value?) {
        None => Ok(()),
        Some(_) => Err(Fault::repeated(field, place)),
    }
}

/// Checks that an array follows, without reading it.
pub(super) fn array_of(reader: &mut Reader<'_>, field: &str, place: Place) -> Result<(), Fault> {
    check(reader, Kind::Array, field, "array", place)
}

/// Checks that an object follows, without reading it.
pub(super) fn object_of(reader: &mut Reader<'_>, field: &str, place: Place) -> Result<(), Fault> {
    check(reader, Kind::Object, field, "object", place)
}

/// Reads a string.
pub(super) fn string_of<'a>(reader: &mut Reader<'a>, field: &str, place: Place) -> Result<Cow<'a, str>, Fault> {
    check(reader, Kind::String, field, "string", place)?;
    Ok(reader.string()?)
}

/// Reads `true` or `false`.
pub(super) fn boolean_of(reader: &mut Reader<'_>, field: &str, place: Place) -> Result<bool, Fault> {
    check(reader, Kind::Boolean, field, "boolean", place)?;
    Ok(reader.boolean()?)
}

/// Reads an integer from 0 up.
pub(super) fn unsigned_of(reader: &mut Reader<'_>, field: &str, place: Place) -> Result<u64, Fault> {
    const WANTED: &str = "unsigned-integer";
    check(reader, Kind::Number, field, WANTED, place)?;
    reader.number()?.to_integer().map_err(|_| Fault::wrong_type(field, WANTED, place))
}

fn check(reader: &mut Reader<'_>, kind: Kind, field: &str, wanted: &str, place: Place) -> Result<(), Fault> {
    if reader.kind()? == kind { Ok(()) } else { Err(Fault::wrong_type(field, wanted, place)) }
}
