//! A predict request: its top level, and its inputs as rows or columns. Members may come in any order; unknown ones are
//! ignored (but still JSON).

use super::base64::is_other_object;
use super::column::Column;
use super::fault::Fault;
use super::{Format, PredictContext, PredictInputs, SIGNATURE_NAME};
use crate::failure::{RequestFailure, clipped};
use crate::http::json::{JsonError, Kind, Reader};

/// Reads the body of TF Serving's predict.
///
/// # Errors
/// TF Serving's text for the client: [`model::ErrorCode::MalformedRequest`] for what is not JSON or not formed as requests
/// are, [`model::ErrorCode::InvalidTensors`] for values that are no tensors of the model's inputs.
pub fn parse_predict(body: &[u8], context: &PredictContext<'_>) -> Result<PredictInputs, RequestFailure> {
    let text = text_of(body)?;
    read_request(text, context).map_err(|fault| {
        let other = matches!(fault, Fault::Refused(_)).then(|| wrong_signature(text)).flatten();
        other.unwrap_or(fault).into()
    })
}

fn text_of(body: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(body).map_err(|error| {
        Fault::Json(JsonError::Syntax { what: "Invalid encoding in string.", at: error.valid_up_to() })
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn read_request(text: &str, context: &PredictContext<'_>) -> Result<PredictInputs, Fault> {
    let mut reader = Reader::new(text);
    if reader.peek().is_none() {
        return Err(Fault::malformed("JSON Parse error: The document is empty"));
    }
    if reader.kind()? != Kind::Object {
        reader.skip_value()?;
        reader.end()?;
        return Err(Fault::document(text, "Is not object"));
    }
    let columns = context.signature.inputs.iter().map(|spec| Column::new(spec, context.data_bytes_max)).collect();
    let (mut inputs, mut format) = (Inputs { text, columns }, None);
    reader.members(|reader, key| {
        let given = match key {
            "instances" => Format::Rows,
            "inputs" => Format::Columns,
            "signature_name" => return check_signature(reader, text),
            _ => return Ok(reader.skip_value()?),
        };
        match format.replace(given) {
            None => inputs.read(reader, given),
            Some(earlier) if earlier == given => Err(Fault::malformed(format!("'{key}' is given more than once"))),
            Some(_) => {
                let what = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ";
                Err(Fault::document(text, what))
            }
        }
    })?;
    reader.end()?;
    let format = format.ok_or_else(|| Fault::malformed("Missing 'inputs' or 'instances' key"))?;
    let tensors = inputs.columns.into_iter().map(|column| column.into_tensor(format));
    Ok(PredictInputs { format, inputs: tensors.collect::<Result<_, _>>()? })
}

/// Reads `signature_name`, which may only name the one that there is.
fn check_signature(reader: &mut Reader<'_>, text: &str) -> Result<(), Fault> {
    if reader.kind()? != Kind::String {
        let what = "not formatted correctly. 'signature_name' key must be a string value.";
        return Err(Fault::document(text, what));
    }
    match &*reader.string()? {
        "" | SIGNATURE_NAME => Ok(()),
        other => {
            let other = clipped(other);
            Err(Fault::malformed(format!("Serving signature name: \"{other}\" not found in signature def")))
        }
    }
}

/// Whether the signature is what is wrong first of all: values that are meant for another are no wonder. It may stand
/// behind them, so it is looked up only now.
fn wrong_signature(text: &str) -> Option<Fault> {
    let mut reader = Reader::new(text);
    let read = reader.members(|reader, key| match key {
        "signature_name" => check_signature(reader, text),
        _ => Ok(reader.skip_value()?),
    });
    read.err().filter(|fault| matches!(fault, Fault::Refused(_)))
}

/// The inputs while they are read.
struct Inputs<'a> {
    /// The body, for texts.
    text: &'a str,
    columns: Vec<Column<'a>>,
}

impl<'a> Inputs<'a> {
    fn read(&mut self, reader: &mut Reader<'_>, format: Format) -> Result<(), Fault> {
        if self.columns.is_empty() {
            return Err(Fault::malformed("Failed to get input map for signature: DEFAULT"));
        }
        match format {
            Format::Rows => self.read_rows(reader),
            Format::Columns => self.read_columns(reader),
        }
    }

    /// Reads `instances`: objects with a value per input, or values of the only input; the first says which.
    fn read_rows(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        if reader.kind()? != Kind::Array {
            return Err(Fault::document(self.text, "Excepting 'instances' to be an list/array"));
        }
        let (mut row, mut are_objects) = (0, None);
        reader.elements(|reader| {
            let is_object = is_other_object(reader)?;
            match (*are_objects.get_or_insert(is_object), is_object) {
                (true, true) => self.read_named_row(reader, row)?,
                (false, false) => {
                    self.only("instances is a plain list, but expecting list of objects")?
                        .read_item(reader)
                        .map_err(|fault| fault.in_row(row, None))?;
                }
                (true, false) => {
                    let text = format!("Expecting object but got list at item {row} of input list");
                    return Err(Fault::tensor(text));
                }
                (false, true) => {
                    let text = format!("Expecting value/list but got object at item {row} of input list");
                    return Err(Fault::tensor(text));
                }
            }
            row += 1;
            Ok(())
        })?;
        if row == 0 { Err(Fault::document(self.text, "No values in 'instances' array")) } else { Ok(()) }
    }

    fn read_named_row(&mut self, reader: &mut Reader<'_>, row: u64) -> Result<(), Fault> {
        let mut start = reader.at_offset(reader.clone().value_offset());
        let mut next = 0;
        reader.members(|reader, key| {
            let column = self.named(key, &mut next).filter(|column| column.items == row);
            let Some(column) = column else { return Err(self.unexpected(key).in_row(row, Some(key))) };
            column.read_item(reader).map_err(|fault| fault.in_row(row, Some(key)))
        })?;
        if self.columns.iter().all(|column| column.items == row + 1) {
            return Ok(());
        }
        let mut names: Vec<&str> = self.columns.iter().map(|column| &*column.spec.name).collect();
        names.sort_unstable();
        Err(Fault::tensor(format!(
            "Failed to process element: {row} of 'instances' list. JSON object: {} keys must be equal to: {}",
            clipped(start.raw_value()?),
            names.join(",")
        )))
    }

    /// Reads `inputs`: an object with a value per input, or the value of the only one.
    fn read_columns(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        if !is_other_object(reader)? {
            return self.only("inputs is a plain value/list, but expecting an object")?.read_item(reader);
        }
        let mut next = 0;
        reader.members(|reader, key| match self.named(key, &mut next) {
            Some(column) if column.items == 0 => column.read_item(reader),
            Some(_) => Err(self.unexpected(key)),
            None => Ok(reader.skip_value()?),
        })?;
        match self.columns.iter().find(|column| column.items == 0) {
            None => Ok(()),
            Some(missing) => {
                let name = &missing.spec.name;
                Err(Fault::tensor(format!("Missing named input: {name} in 'inputs' object.")))
            }
        }
    }

    /// The input of this name. `next` is where it is looked for first: clients name inputs in one order.
    fn named(&mut self, name: &str, next: &mut usize) -> Option<&mut Column<'a>> {
        let is_named = |column: &Column<'_>| &*column.spec.name == name;
        let position = match self.columns.get(*next).filter(|column| is_named(column)) {
            Some(_) => *next,
            None => self.columns.iter().position(is_named)?,
        };
        *next = position + 1;
        Some(&mut self.columns[position])
    }

    /// The only input, where a value stands for it alone.
    fn only(&mut self, otherwise: &str) -> Result<&mut Column<'a>, Fault> {
        match &mut self.columns[..] {
            [column] => Ok(column),
            _ => Err(Fault::tensor(format!("{otherwise} as multiple input tensors required as per tensorinfo_map"))),
        }
    }

    /// Why a member of a row is not taken.
    fn unexpected(&self, name: &str) -> Fault {
        let shown = clipped(name);
        if self.columns.iter().any(|column| &*column.spec.name == name) {
            Fault::tensor(format!("JSON object: has named input more than once: {shown}"))
        } else {
            Fault::tensor(format!("JSON object: does not have named input: {shown}"))
        }
    }
}
