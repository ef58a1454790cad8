//! Typed contents: lists of numbers and byte strings into the little-endian bytes of a tensor. Texts are Triton's where it
//! has one; unlike Triton, an integer that its type cannot hold is refused, not truncated.

use std::fmt::Display;

use bytes::{Bytes, BytesMut};
use model::{DataType, ErrorCode};

use super::proto::inference::InferTensorContents;
use crate::failure::RequestFailure;

/// Whose contents are read, for texts.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) input: &'a str,
    pub(super) model: &'a str,
}

/// The bytes of a tensor of `data_type`; none where no list has an element.
///
/// # Errors
/// Triton's text where another list than that of the type has elements, or more than one; ours for an integer out of
/// range.
pub(super) fn read_contents(
    contents: InferTensorContents,
    data_type: DataType,
    place: Place<'_>,
) -> Result<Bytes, RequestFailure> {
    use DataType::{Bool, Bytes as Strings, Fp32, Fp64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    check_kinds(&contents, data_type, place)?;
    let c = contents;
    Ok(match data_type {
        Bool => c.bool_contents.into_iter().map(u8::from).collect(),
        Int8 => narrowed(&c.int_contents, data_type, place, |value| Some(i8::try_from(value).ok()?.to_le_bytes()))?,
        Int16 => narrowed(&c.int_contents, data_type, place, |value| Some(i16::try_from(value).ok()?.to_le_bytes()))?,
        Int32 => fixed(&c.int_contents, i32::to_le_bytes),
        Int64 => fixed(&c.int64_contents, i64::to_le_bytes),
        Uint8 => narrowed(&c.uint_contents, data_type, place, |value| Some(u8::try_from(value).ok()?.to_le_bytes()))?,
        Uint16 => narrowed(&c.uint_contents, data_type, place, |value| Some(u16::try_from(value).ok()?.to_le_bytes()))?,
        Uint32 => fixed(&c.uint_contents, u32::to_le_bytes),
        Uint64 => fixed(&c.uint64_contents, u64::to_le_bytes),
        Fp32 => fixed(&c.fp32_contents, f32::to_le_bytes),
        Fp64 => fixed(&c.fp64_contents, f64::to_le_bytes),
        Strings => strings(&c.bytes_contents, place)?,
        // No list is theirs, so none has an element.
        DataType::Fp16 | DataType::Bf16 => Bytes::new(),
    })
}

/// Only the list of the data type may have elements.
fn check_kinds(contents: &InferTensorContents, data_type: DataType, place: Place<'_>) -> Result<(), RequestFailure> {
    let small = |wanted: [DataType; 2], other| if wanted.contains(&data_type) { data_type } else { other };
    let lists = [
        (contents.bool_contents.len(), DataType::Bool),
        (contents.int_contents.len(), small([DataType::Int8, DataType::Int16], DataType::Int32)),
        (contents.int64_contents.len(), DataType::Int64),
        (contents.uint_contents.len(), small([DataType::Uint8, DataType::Uint16], DataType::Uint32)),
        (contents.uint64_contents.len(), DataType::Uint64),
        (contents.fp32_contents.len(), DataType::Fp32),
        (contents.fp64_contents.len(), DataType::Fp64),
        (contents.bytes_contents.len(), DataType::Bytes),
    ];
    let mut given = lists.into_iter().filter(|(len, _)| *len > 0).map(|(_, kind)| kind);
    let Some(first) = given.next() else { return Ok(()) };
    let Place { input, model } = place;
    let unexpected = format!("unexpected explicit tensor data for input tensor '{input}' for model '{model}'");
    if first != data_type {
        return Err(invalid(format!("{unexpected} of type '{first}', expected datatype '{data_type}'")));
    }
    if given.next().is_some() {
        return Err(invalid(format!("{unexpected}, binary data was already supplied.")));
    }
    Ok(())
}

fn fixed<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Bytes {
    let mut data = Vec::with_capacity(values.len() * N);
    for &value in values {
        data.extend_from_slice(&bytes(value));
    }
    data.into()
}

fn narrowed<T: Copy + Display, const N: usize>(
    values: &[T],
    data_type: DataType,
    place: Place<'_>,
    bytes: impl Fn(T) -> Option<[u8; N]>,
) -> Result<Bytes, RequestFailure> {
    let mut data = Vec::with_capacity(values.len() * N);
    for (index, &value) in values.iter().enumerate() {
        let Some(bytes) = bytes(value) else {
            let Place { input, model } = place;
            return Err(invalid(format!(
                "value {value} at index {index} of input tensor '{input}' for model '{model}' is out of range for \
                 {data_type}"
            )));
        };
        data.extend_from_slice(&bytes);
    }
    Ok(data.into())
}

/// Each string after its length.
fn strings(values: &[Bytes], place: Place<'_>) -> Result<Bytes, RequestFailure> {
    let mut data = BytesMut::with_capacity(values.iter().map(|value| 4 + value.len()).sum());
    for value in values {
        data.extend_from_slice(&length_prefix(value.len(), place)?);
        data.extend_from_slice(value);
    }
    Ok(data.freeze())
}

/// The four bytes before a string.
fn length_prefix(len: usize, place: Place<'_>) -> Result<[u8; 4], RequestFailure> {
    let prefix = u32::try_from(len).map(u32::to_le_bytes);
    prefix.map_err(|_| {
        let Place { input, model } = place;
        invalid(format!(
            "a string of input tensor '{input}' for model '{model}' has {len} bytes, more than fit 32 bits"
        ))
    })
}

fn invalid(text: String) -> RequestFailure {
    RequestFailure::new(ErrorCode::InvalidTensors, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'static> = Place { input: "x", model: "m" };

    fn read(contents: InferTensorContents, data_type: DataType) -> Result<Vec<u8>, String> {
        read_contents(contents, data_type, PLACE).map(|data| data.to_vec()).map_err(|failure| failure.text)
    }

    #[test]
    fn lists_become_little_endian_bytes() {
        let none = InferTensorContents::default;
        let ints = |values: &[i32]| InferTensorContents { int_contents: values.to_vec(), ..none() };
        let strings = InferTensorContents { bytes_contents: vec!["a".into(), "".into()], ..none() };
        let cases = [
            (InferTensorContents { bool_contents: vec![true, false], ..none() }, DataType::Bool, vec![1, 0]),
            (ints(&[-128, 127]), DataType::Int8, vec![0x80, 0x7f]),
            (ints(&[-2]), DataType::Int16, vec![0xfe, 0xff]),
            (ints(&[1]), DataType::Int32, vec![1, 0, 0, 0]),
            (InferTensorContents { fp32_contents: vec![1.0], ..none() }, DataType::Fp32, vec![0, 0, 0x80, 0x3f]),
            (strings, DataType::Bytes, vec![1, 0, 0, 0, b'a', 0, 0, 0, 0]),
            (none(), DataType::Fp16, vec![]),
        ];
        for (contents, data_type, expected) in cases {
            assert_eq!(read(contents, data_type), Ok(expected), "{data_type}");
        }
    }

    #[test]
    fn integers_out_of_range_are_refused() {
        let contents = InferTensorContents { uint_contents: vec![1, 65_536], ..InferTensorContents::default() };
        let text = "value 65536 at index 1 of input tensor 'x' for model 'm' is out of range for UINT16";
        assert_eq!(read(contents, DataType::Uint16), Err(text.to_owned()));
    }
}
