//! A predict answer: `predictions`, a list with an entry per row, or `outputs`, a value per tensor. One output stands
//! alone, several under their names.

use model::{BytesElements, ErrorCode, Tensor, display_shape, element_count};

use super::{Format, base64};
use crate::failure::{RequestFailure, clipped};
use crate::http::json::{ELEMENT_TEXT_BYTES, ElementWriter, write, write_elements};

/// Outputs of strings whose names end so are bytes to TF Serving, and always go out as base64.
const BYTES_SUFFIX: &str = "_bytes";
/// Lists that one output without an element may be written as.
const EMPTY_LISTS_MAX: u64 = 1 << 20;

/// Writes the answer to a request of this format. Source: TensorFlow Serving, "RESTful API", "Predict API".
///
/// # Errors
/// [`ErrorCode::InvalidTensors`] with TF Serving's text where an answer by rows is asked for and the outputs do not have one
/// number of rows; [`ErrorCode::NotSupported`] for an output of nothing but too many empty lists.
pub fn render_predict(outputs: &[Tensor], format: Format) -> Result<Vec<u8>, RequestFailure> {
    outputs.iter().try_for_each(check_lists)?;
    let mut out = Vec::with_capacity(outputs.iter().map(text_bytes).sum());
    let mut cursors: Vec<Cursor<'_>> = outputs.iter().map(Cursor::new).collect();
    match format {
        Format::Columns => {
            out.extend_from_slice(b"{\"outputs\":");
            write_named(&mut out, &mut cursors, |out, cursor| cursor.write_next(out, cursor.output.shape()));
        }
        Format::Rows => {
            out.extend_from_slice(b"{\"predictions\":[");
            for row in 0..common_rows(outputs)? {
                if row > 0 {
                    out.push(b',');
                }
                write_named(&mut out, &mut cursors, |out, cursor| cursor.write_next(out, &cursor.output.shape()[1..]));
            }
            out.push(b']');
        }
    }
    out.push(b'}');
    Ok(out)
}

/// About how long an output is as text.
fn text_bytes(output: &Tensor) -> usize {
    let bytes = output.data().len();
    output.data_type().element_size().map_or(bytes, |size| bytes / size * ELEMENT_TEXT_BYTES)
}

/// A shape without elements can still ask for any number of lists.
fn check_lists(output: &Tensor) -> Result<(), RequestFailure> {
    let shape = output.shape();
    if element_count(shape) != Some(0) {
        return Ok(());
    }
    let lists =
        shape.iter().take_while(|&&length| length > 0).fold(1, |lists: u64, &length| lists.saturating_mul(length));
    if lists <= EMPTY_LISTS_MAX {
        return Ok(());
    }
    let (name, shape) = (clipped(output.name()), display_shape(shape));
    let text =
        format!("output '{name}' of shape {shape} would be {lists} empty lists; at most {EMPTY_LISTS_MAX} are written");
    Err(RequestFailure::new(ErrorCode::NotSupported, text))
}

/// The number of rows that all outputs have.
fn common_rows(outputs: &[Tensor]) -> Result<u64, RequestFailure> {
    let mut rows = None;
    for output in outputs {
        let name = clipped(output.name());
        let invalid = |text| RequestFailure::new(ErrorCode::InvalidTensors, text);
        let Some(&own) = output.shape().first() else {
            return Err(invalid(format!("Tensor name: {name} has no shape information ")));
        };
        let common = *rows.get_or_insert(own);
        if own != common {
            return Err(invalid(format!("Tensor name: {name} has inconsistent batch size: {own} expecting: {common}")));
        }
    }
    Ok(rows.unwrap_or_default())
}

/// Writes a value alone, or several under the outputs' names.
fn write_named<'a>(out: &mut Vec<u8>, cursors: &mut [Cursor<'a>], value: impl Fn(&mut Vec<u8>, &mut Cursor<'a>)) {
    if let [cursor] = cursors {
        return value(out, cursor);
    }
    for (index, cursor) in cursors.iter_mut().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        write(out, &**cursor.output.name());
        out.push(b':');
        value(out, cursor);
    }
    out.push(b'}');
}

/// An output and how far it has been written.
struct Cursor<'a> {
    output: &'a Tensor,
    /// Bytes left, where elements have one size.
    left: &'a [u8],
    /// Strings left.
    strings: BytesElements<'a>,
}

impl<'a> Cursor<'a> {
    fn new(output: &'a Tensor) -> Self {
        Self { output, left: output.data(), strings: BytesElements::new(output.data()) }
    }

    /// Writes as many elements as `shape` holds, in its lists.
    fn write_next(&mut self, out: &mut Vec<u8>, shape: &[u64]) {
        write_elements(self.output.data_type(), Lists { out, cursor: self, shape });
    }
}

/// Elements on their way into nested lists.
struct Lists<'o, 'c, 'a> {
    out: &'o mut Vec<u8>,
    cursor: &'c mut Cursor<'a>,
    shape: &'o [u64],
}

impl ElementWriter for Lists<'_, '_, '_> {
    type Output = ();

    fn fixed<const N: usize>(self, element: impl Fn(&mut Vec<u8>, [u8; N])) {
        let Self { out, cursor, shape } = self;
        write_nested(out, shape, &mut |out| {
            let (bytes, left) = cursor.left.split_first_chunk::<N>().expect("a tensor's data fits its shape");
            cursor.left = left;
            element(out, *bytes);
        });
    }

    fn strings(self) {
        let Self { out, cursor, shape } = self;
        let are_bytes = cursor.output.name().ends_with(BYTES_SUFFIX);
        write_nested(out, shape, &mut |out| {
            let bytes = cursor.strings.next().expect("a tensor has an element for each place of its shape");
            match std::str::from_utf8(bytes) {
                Ok(text) if !are_bytes => write(out, text),
                _ => base64::write(out, bytes),
            }
        });
    }
}

fn write_nested(out: &mut Vec<u8>, shape: &[u64], element: &mut impl FnMut(&mut Vec<u8>)) {
    let Some((&length, inner)) = shape.split_first() else { return element(out) };
    out.push(b'[');
    for index in 0..length {
        if index > 0 {
            out.push(b',');
        }
        write_nested(out, inner, element);
    }
    out.push(b']');
}
