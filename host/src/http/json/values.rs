//! From the bytes of elements to JSON, one by one and without a string per element. FP32, FP16 and BF16 have the fewest
//! digits that lead back to the same value; numbers without a JSON form are `NaN`, `Infinity` and `-Infinity`.

use half::{bf16, f16};
use model::DataType;
use serde::Serialize;

/// Bytes of text that one element is guessed to take, for the first allocation.
pub(in crate::http) const ELEMENT_TEXT_BYTES: usize = 12;

/// What writes lists of elements, given the function that writes one.
pub(in crate::http) trait ElementWriter {
    /// What comes of it.
    type Output;

    /// Writes elements of `N` bytes each.
    fn fixed<const N: usize>(self, element: impl Fn(&mut Vec<u8>, [u8; N])) -> Self::Output;

    /// Writes elements that are a length and so many bytes.
    fn strings(self) -> Self::Output;
}

/// Has `list` write elements of `data_type`.
#[inline]
pub(in crate::http) fn write_elements<W: ElementWriter>(data_type: DataType, list: W) -> W::Output {
    match data_type {
        DataType::Bool => list.fixed(|out, [byte]| write(out, &(byte != 0))),
        DataType::Uint8 => list.fixed(|out, bytes| write(out, &u8::from_le_bytes(bytes))),
        DataType::Uint16 => list.fixed(|out, bytes| write(out, &u16::from_le_bytes(bytes))),
        DataType::Uint32 => list.fixed(|out, bytes| write(out, &u32::from_le_bytes(bytes))),
        DataType::Uint64 => list.fixed(|out, bytes| write(out, &u64::from_le_bytes(bytes))),
        DataType::Int8 => list.fixed(|out, bytes| write(out, &i8::from_le_bytes(bytes))),
        DataType::Int16 => list.fixed(|out, bytes| write(out, &i16::from_le_bytes(bytes))),
        DataType::Int32 => list.fixed(|out, bytes| write(out, &i32::from_le_bytes(bytes))),
        DataType::Int64 => list.fixed(|out, bytes| write(out, &i64::from_le_bytes(bytes))),
        DataType::Fp16 => list.fixed(|out, bytes| write_f32(out, f16::from_le_bytes(bytes).to_f32())),
        DataType::Bf16 => list.fixed(|out, bytes| write_f32(out, bf16::from_le_bytes(bytes).to_f32())),
        DataType::Fp32 => list.fixed(|out, bytes| write_f32(out, f32::from_le_bytes(bytes))),
        DataType::Fp64 => list.fixed(|out, bytes| write_f64(out, f64::from_le_bytes(bytes))),
        DataType::Bytes => list.strings(),
    }
}

fn write_f32(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() { write(out, &value) } else { write_special(out, f64::from(value)) }
}

fn write_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() { write(out, &value) } else { write_special(out, value) }
}

#[cold]
fn write_special(out: &mut Vec<u8>, value: f64) {
    let word: &[u8] = match value {
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => b"NaN",
    };
    out.extend_from_slice(word);
}

/// Appends `value` as serde_json writes it.
#[inline]
pub(in crate::http) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("a vector takes every byte, and these types all have a JSON form");
}
