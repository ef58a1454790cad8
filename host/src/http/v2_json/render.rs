//! Answers, in Triton's shape: `data` is always flat. Values go from the tensor's bytes into the text one by one, without
//! a tree and without a string per element; those that are asked for in binary are copied behind it.

use model::{BytesElements, ErrorCode, Tensor, element_count};

use super::fault::clipped;
use super::{EncodedOutput, Encoding, InferAnswer, V2Error};
use crate::http::json::{ELEMENT_TEXT_BYTES, ElementWriter, write, write_elements};

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
    write_elements(output.data_type(), FlatList { out, output })
}

/// All elements of an output, in one list.
struct FlatList<'a> {
    out: &'a mut Vec<u8>,
    output: &'a Tensor,
}

impl ElementWriter for FlatList<'_> {
    type Output = Result<(), V2Error>;

    fn fixed<const N: usize>(self, element: impl Fn(&mut Vec<u8>, [u8; N])) -> Self::Output {
        let Self { out, output } = self;
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
        Ok(())
    }

    fn strings(self) -> Self::Output {
        let Self { out, output } = self;
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
}

fn not_text(output: &Tensor, index: usize) -> V2Error {
    let text = format!(
        "output '{}' has bytes that are not UTF-8 at index {index}, and JSON strings cannot hold them; ask for it with \
         \"binary_data\": true, or for all outputs with \"binary_data_output\": true",
        clipped(output.name())
    );
    V2Error { code: ErrorCode::NotSupported, text }
}
