//! Answers as JSON, in Triton's shape: `data` is always flat. Values go from the tensor's bytes into the text one by
//! one, without a tree and without a string per element.

use half::{bf16, f16};
use model::{BytesElements, DataType, ErrorCode, Tensor};
use serde::Serialize;

use super::fault::clipped;
use super::{InferAnswer, V2Error};

/// Bytes of text that one element is guessed to take, for the first allocation.
const ELEMENT_TEXT_BYTES: usize = 12;

/// Appends an answer to `out`. Source: Open Inference Protocol v2, "Inference Response JSON Object". FP32, FP16 and
/// BF16 have the fewest digits that lead back to the same value; numbers without a JSON form are `NaN`, `Infinity` and
/// `-Infinity`.
///
/// # Errors
/// [`ErrorCode::NotSupported`] where a BYTES element is not UTF-8 and so has no JSON form; `out` is as before then.
pub fn render_infer(out: &mut Vec<u8>, answer: &InferAnswer<'_>) -> Result<(), V2Error> {
    let before = out.len();
    let written = write_answer(out, answer);
    if written.is_err() {
        out.truncate(before);
    }
    written
}

fn write_answer(out: &mut Vec<u8>, answer: &InferAnswer<'_>) -> Result<(), V2Error> {
    out.push(b'{');
    if let Some(id) = answer.id {
        out.extend_from_slice(b"\"id\":");
        write(out, id);
        out.push(b',');
    }
    out.extend_from_slice(b"\"model_name\":");
    write(out, answer.model);
    out.extend_from_slice(b",\"model_version\":");
    write(out, answer.version);
    out.extend_from_slice(b",\"outputs\":[");
    for (i, output) in answer.outputs.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_output(out, output)?;
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

fn write_output(out: &mut Vec<u8>, output: &Tensor) -> Result<(), V2Error> {
    out.extend_from_slice(b"{\"name\":");
    write(out, &**output.name());
    out.extend_from_slice(b",\"datatype\":\"");
    out.extend_from_slice(output.data_type().v2_name().as_bytes());
    out.extend_from_slice(b"\",\"shape\":");
    write(out, output.shape());
    out.extend_from_slice(b",\"data\":");
    write_data(out, output)?;
    out.push(b'}');
    Ok(())
}

fn write_data(out: &mut Vec<u8>, output: &Tensor) -> Result<(), V2Error> {
    match output.data_type() {
        DataType::Bool => write_fixed(out, output, |out, [byte]| write(out, &(byte != 0))),
        DataType::Uint8 => write_fixed(out, output, |out, bytes| write(out, &u8::from_le_bytes(bytes))),
        DataType::Uint16 => write_fixed(out, output, |out, bytes| write(out, &u16::from_le_bytes(bytes))),
        DataType::Uint32 => write_fixed(out, output, |out, bytes| write(out, &u32::from_le_bytes(bytes))),
        DataType::Uint64 => write_fixed(out, output, |out, bytes| write(out, &u64::from_le_bytes(bytes))),
        DataType::Int8 => write_fixed(out, output, |out, bytes| write(out, &i8::from_le_bytes(bytes))),
        DataType::Int16 => write_fixed(out, output, |out, bytes| write(out, &i16::from_le_bytes(bytes))),
        DataType::Int32 => write_fixed(out, output, |out, bytes| write(out, &i32::from_le_bytes(bytes))),
        DataType::Int64 => write_fixed(out, output, |out, bytes| write(out, &i64::from_le_bytes(bytes))),
        DataType::Fp16 => write_fixed(out, output, |out, bytes| write_f32(out, f16::from_le_bytes(bytes).to_f32())),
        DataType::Bf16 => write_fixed(out, output, |out, bytes| write_f32(out, bf16::from_le_bytes(bytes).to_f32())),
        DataType::Fp32 => write_fixed(out, output, |out, bytes| write_f32(out, f32::from_le_bytes(bytes))),
        DataType::Fp64 => write_fixed(out, output, |out, bytes| write_f64(out, f64::from_le_bytes(bytes))),
        DataType::Bytes => return write_strings(out, output),
    }
    Ok(())
}

/// Writes elements of `N` bytes each, the size of the output's data type.
fn write_fixed<const N: usize>(out: &mut Vec<u8>, output: &Tensor, element: impl Fn(&mut Vec<u8>, [u8; N])) {
    let (elements, _) = output.data().as_chunks::<N>();
    out.reserve(elements.len() * ELEMENT_TEXT_BYTES);
    out.push(b'[');
    for (i, &bytes) in elements.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        element(out, bytes);
    }
    out.push(b']');
}

fn write_strings(out: &mut Vec<u8>, output: &Tensor) -> Result<(), V2Error> {
    out.reserve(output.data().len());
    out.push(b'[');
    for (i, bytes) in BytesElements::new(output.data()).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, std::str::from_utf8(bytes).map_err(|_| not_text(output, i))?);
    }
    out.push(b']');
    Ok(())
}

fn not_text(output: &Tensor, index: usize) -> V2Error {
    let text = format!(
        "output '{}' has bytes that are not UTF-8 at index {index}, and JSON strings cannot hold them; ask for other \
         outputs only, or encode it in the model or its plugin",
        clipped(output.name())
    );
    V2Error { code: ErrorCode::NotSupported, text }
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
pub(super) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("a vector takes every byte, and these types all have a JSON form");
}
