//! From a JSON value to the little-endian bytes of one element: which function reads it is decided once per list, not once
//! per value.

use model::DataType;

use super::{JsonError, Kind, Misfit, Number, Reader};

/// Why one value is not an element.
#[derive(Clone, Copy)]
pub(in crate::http) enum ElementProblem {
    Json(JsonError),
    /// Another JSON type than the data type is written as.
    Kind,
    Number(Misfit),
}

impl From<JsonError> for ElementProblem {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl From<Misfit> for ElementProblem {
    fn from(misfit: Misfit) -> Self {
        Self::Number(misfit)
    }
}

/// What reads lists of elements, given the function that reads one.
pub(in crate::http) trait ElementReader {
    /// What comes of it.
    type Output;

    /// Reads elements of `N` bytes each.
    fn fixed<const N: usize>(
        self,
        element: impl for<'a> Fn(&mut Reader<'a>) -> Result<[u8; N], ElementProblem>,
    ) -> Self::Output;

    /// Reads strings, each to become a length and its bytes.
    fn strings(self) -> Self::Output;
}

/// Has `list` read elements of `data_type`.
#[inline]
pub(in crate::http) fn read_elements<R: ElementReader>(data_type: DataType, list: R) -> R::Output {
    match data_type {
        DataType::Bool => list.fixed(|r| Ok([u8::from(boolean(r)?)])),
        DataType::Uint8 => list.fixed(|r| Ok(number(r)?.to_integer::<u8>()?.to_le_bytes())),
        DataType::Uint16 => list.fixed(|r| Ok(number(r)?.to_integer::<u16>()?.to_le_bytes())),
        DataType::Uint32 => list.fixed(|r| Ok(number(r)?.to_integer::<u32>()?.to_le_bytes())),
        DataType::Uint64 => list.fixed(|r| Ok(number(r)?.to_integer::<u64>()?.to_le_bytes())),
        DataType::Int8 => list.fixed(|r| Ok(number(r)?.to_integer::<i8>()?.to_le_bytes())),
        DataType::Int16 => list.fixed(|r| Ok(number(r)?.to_integer::<i16>()?.to_le_bytes())),
        DataType::Int32 => list.fixed(|r| Ok(number(r)?.to_integer::<i32>()?.to_le_bytes())),
        DataType::Int64 => list.fixed(|r| Ok(number(r)?.to_integer::<i64>()?.to_le_bytes())),
        DataType::Fp16 => list.fixed(|r| Ok(number(r)?.to_f16()?.to_le_bytes())),
        DataType::Bf16 => list.fixed(|r| Ok(number(r)?.to_bf16()?.to_le_bytes())),
        DataType::Fp32 => list.fixed(|r| Ok(number(r)?.to_f32()?.to_le_bytes())),
        DataType::Fp64 => list.fixed(|r| Ok(number(r)?.to_f64()?.to_le_bytes())),
        DataType::Bytes => list.strings(),
    }
}

#[inline(always)]
fn number<'a>(reader: &mut Reader<'a>) -> Result<Number<'a>, ElementProblem> {
    if reader.is_number() { Ok(reader.number()?) } else { Err(other_kind(reader)) }
}

#[cold]
fn other_kind(reader: &mut Reader<'_>) -> ElementProblem {
    reader.kind().map_or_else(ElementProblem::Json, |_| ElementProblem::Kind)
}

fn boolean(reader: &mut Reader<'_>) -> Result<bool, ElementProblem> {
    if reader.kind()? == Kind::Boolean { Ok(reader.boolean()?) } else { Err(ElementProblem::Kind) }
}
