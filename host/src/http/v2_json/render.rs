//! Answers, in Triton's shape: `data` is always flat. Values go from the tensor's bytes into the text one by one, without
//! a tree and without a string per element; those that are asked for in binary are copied behind it.

use half::{bf16, f16};
use model::{BytesElements, DataType, ErrorCode, Tensor, element_count};
use serde::Serialize;

use super::fault::clipped;
use super::{EncodedOutput, Encoding, InferAnswer, V2Error};

/// Bytes of text that one element is guessed to take, for the first allocation.
const ELEMENT_TEXT_BYTES: usize = 12;

/// An answer's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedAnswer {
    /// The JSON, and what comes after it.
    pub body: Vec<u8>,
    /// How long the JSON is; `None` where nothing comes after it.
    pub json_length: Option<usize>,
}

/// Writes an answer. Source: Open Inference Protocol v2, "Inference Response JSON Object", and Triton's "Binary Tensor Data
/// Extension". FP32, FP16 and BF16 have the fewest digits that lead back to the same value; numbers without a JSON form are
/// `NaN`, `Infinity` and `-Infinity`.
///
/// # Errors
/// [`ErrorCode::NotSupported`] where a BYTES element is not UTF-8 and so has no JSON form.
pub fn render_infer(answer: &InferAnswer<'_>) -> Result<RenderedAnswer, V2Error> {
    let mut out = Vec::new();
    write_head(&mut out, answer);
    out.extend_from_slice(b",\"outputs\":[");
    for (i, output) in answer.outputs.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_output(&mut out, output)?;
    }
    out.extend_from_slice(b"]}");
    let json_length = out.len();
    let binary = answer.outputs.iter().filter(|output| output.encoding == Encoding::Binary);
    out.reserve_exact(binary.clone().map(|output| output.tensor.data().len()).sum());
    binary.for_each(|output| out.extend_from_slice(output.tensor.data()));
    let json_length = (out.len() > json_length).then_some(json_length);
    Ok(RenderedAnswer { body: out, json_length })
}

/// Writes the answer of `generate`: every output under its own name, a single element without its array. Source: Triton's
/// "Generate Extension".
///
/// # Errors
/// As [`render_infer`].
pub fn render_generate(answer: &InferAnswer<'_>) -> Result<Vec<u8>, V2Error> {
    let mut out = Vec::new();
    write_head(&mut out, answer);
    for EncodedOutput { tensor, .. } in answer.outputs {
        out.push(b',');
        write(&mut out, &**tensor.name());
        out.push(b':');
        let start = out.len();
        write_data(&mut out, tensor)?;
        if element_count(tensor.shape()) == Some(1) {
            out.pop();
            out.remove(start);
        }
    }
    out.push(b'}');
    Ok(out)
}

/// Writes what every answer begins with, up to its outputs.
fn write_head(out: &mut Vec<u8>, answer: &InferAnswer<'_>) {
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
}

fn write_output(out: &mut Vec<u8>, EncodedOutput { tensor, encoding }: &EncodedOutput) -> Result<(), V2Error> {
    out.extend_from_slice(b"{\"name\":");
    write(out, &**tensor.name());
    out.extend_from_slice(b",\"datatype\":\"");
    out.extend_from_slice(tensor.data_type().v2_name().as_bytes());
    out.extend_from_slice(b"\",\"shape\":");
    write(out, tensor.shape());
    match encoding {
        Encoding::Json => {
            out.extend_from_slice(b",\"data\":");
            write_data(out, tensor)?;
        }
        Encoding::Binary => {
            out.extend_from_slice(b",\"parameters\":{\"binary_data_size\":");
            write(out, &tensor.data().len());
            out.push(b'}');
        }
        Encoding::Omitted => {}
    }
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
        "output '{}' has bytes that are not UTF-8 at index {index}, and JSON strings cannot hold them; ask for it with \
         \"binary_data\": true, or for all outputs with \"binary_data_output\": true",
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
