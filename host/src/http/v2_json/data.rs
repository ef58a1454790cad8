//! `data`: an array of values, nested or flat, into the bytes of a tensor. Memory is bounded by the input's byte limit
//! and by what the rest of the body could hold, whatever the shape claims.

use bytes::Bytes;
use model::{DataType, display_shape, element_count};

use super::InferContext;
use super::fault::{Fault, Place, access_text, clipped, kind_word};
use crate::http::json::{
    ElementProblem, ElementReader, Kind, Misfit, Reader, nesting_text, read_elements, too_large_text,
};

/// The tensor that `data` is to become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) name: &'a str,
    pub(super) data_type: DataType,
    pub(super) shape: &'a [u64],
    pub(super) place: Place,
}

/// Reads the array at `reader` as the elements of `target`, little-endian and row-major.
///
/// # Errors
/// Triton's text for a shape or a size past the limits, an array of another length, or a value of another type; a text
/// of our own for a value out of range.
pub(super) fn read_data(
    reader: &mut Reader<'_>,
    target: &Target<'_>,
    context: &InferContext<'_>,
) -> Result<Bytes, Fault> {
    let count = target.count(context)?;
    if reader.kind()? != Kind::Array {
        return Err(Fault::wrong_type("data", "array", target.place));
    }
    target.read(reader, count, context)
}

/// The same where a single value may stand for an array of one.
///
/// # Errors
/// As [`read_data`].
pub(super) fn read_values(
    reader: &mut Reader<'_>,
    target: &Target<'_>,
    context: &InferContext<'_>,
) -> Result<Bytes, Fault> {
    target.read(reader, target.count(context)?, context)
}

/// Elements worth reserving memory for: as many as the shape claims, but no more than `bytes_left` bytes of JSON can
/// hold. Each takes at least a digit and the comma or bracket after it.
pub(super) fn room(count: u64, bytes_left: usize) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX).min(bytes_left / 2)
}

impl Target<'_> {
    /// The number of elements, once it is known to fit 63 bits and the input's byte limit.
    fn count(&self, context: &InferContext<'_>) -> Result<u64, Fault> {
        let Some(count) = element_count(self.shape) else {
            return Err(Fault::tensor(format!(
                "invalid shape for input '{}': shape {} causes total element count to exceed maximum size of {}",
                clipped(self.name),
                display_shape(self.shape),
                i64::MAX
            )));
        };
        let Some(size) = self.data_type.element_size() else { return Ok(count) };
        match count.checked_mul(size as u64).filter(|&bytes| i64::try_from(bytes).is_ok()) {
            None => Err(Fault::tensor(format!(
                "byte size overflow for input '{}': element count ({count}) * data type size ({size}) exceeds maximum \
                 allowed size ({})",
                clipped(self.name),
                i64::MAX
            ))),
            Some(bytes) if bytes > context.data_bytes_max as u64 => Err(self.too_large(bytes, context)),
            Some(_) => Ok(count),
        }
    }

    fn read(&self, reader: &mut Reader<'_>, count: u64, context: &InferContext<'_>) -> Result<Bytes, Fault> {
        read_elements(self.data_type, FlatList { target: self, reader, count, context })
    }

    /// Triton says of nesting that it happened while reading `data`, except for strings.
    fn in_data(&self, mut fault: Fault) -> Fault {
        if self.data_type != DataType::Bytes && fault.error.text == nesting_text() {
            fault.error.text = format!("Unable to parse 'data': {}", fault.error.text);
        }
        fault
    }

    fn too_large(&self, bytes: u64, context: &InferContext<'_>) -> Fault {
        Fault::tensor(too_large_text(self.name, bytes, context.data_bytes_max))
    }

    fn too_many(&self, count: u64) -> Fault {
        Fault::tensor(format!(
            "Unable to parse 'data': Shape does not match true shape of 'data' field (input '{}' of shape {} holds \
             {count} values, 'data' has more)",
            clipped(self.name),
            display_shape(self.shape)
        ))
    }

    fn too_few(&self, count: u64, got: u64) -> Fault {
        Fault::tensor(format!(
            "Failed to parse 'data' field: shape does not match true shape (input '{}' of shape {} holds {count} \
             values, 'data' has {got})",
            clipped(self.name),
            display_shape(self.shape)
        ))
    }

    fn too_many_strings(&self, count: u64, context: &InferContext<'_>) -> Fault {
        Fault::tensor(format!(
            "unexpected number of string elements {} for inference input '{}' for model '{}', expecting {count}",
            count + 1,
            clipped(self.name),
            context.model
        ))
        .naming_request()
    }

    fn too_few_strings(&self, count: u64, got: u64, context: &InferContext<'_>) -> Fault {
        Fault::tensor(format!(
            "expected {count} string elements for inference input '{}' for model '{}', got {got}",
            clipped(self.name),
            context.model
        ))
        .naming_request()
    }

    /// Says what is wrong with the value at `reader`, the one at `index`.
    #[cold]
    fn refuse(&self, problem: ElementProblem, index: u64, mut reader: Reader<'_>) -> Fault {
        let at = format!("at index {index} of input '{}'", clipped(self.name));
        let wanted = self.json_type();
        match problem {
            ElementProblem::Json(error) => error.into(),
            ElementProblem::Kind => {
                let found = reader.kind().map_or("no value", kind_word);
                let field = if wanted == "string" { "JSON bytes array" } else { "'data'" };
                Fault::tensor(format!(
                    "Unable to parse {field}: {} ({found} {at} of type {})",
                    access_text(wanted),
                    self.data_type
                ))
            }
            ElementProblem::Number(misfit) => {
                let text = reader.number().map_or("", |number| number.text());
                Fault::tensor(match misfit {
                    Misfit::NotWhole => format!(
                        "Unable to parse 'data': {} (value {} {at} of type {})",
                        access_text(wanted),
                        clipped(text),
                        self.data_type
                    ),
                    Misfit::Range => format!(
                        "Unable to parse 'data': value {} {at} is out of range for {}, which holds {}",
                        clipped(text),
                        self.data_type,
                        range_text(self.data_type)
                    ),
                })
            }
        }
    }

    /// What Triton calls the JSON type that the data type is written as.
    fn json_type(&self) -> &'static str {
        match self.data_type {
            DataType::Bool => "boolean",
            DataType::Uint8 | DataType::Uint16 | DataType::Uint32 | DataType::Uint64 => "unsigned-integer",
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => "signed-integer",
            DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => "number",
            DataType::Bytes => "string",
        }
    }
}

/// `data` on its way into the elements of its target.
struct FlatList<'r, 'a> {
    target: &'r Target<'r>,
    reader: &'r mut Reader<'a>,
    count: u64,
    context: &'r InferContext<'r>,
}

impl ElementReader for FlatList<'_, '_> {
    type Output = Result<Bytes, Fault>;

    fn fixed<const N: usize>(
        self,
        element: impl for<'a> Fn(&mut Reader<'a>) -> Result<[u8; N], ElementProblem>,
    ) -> Self::Output {
        let Self { target, reader, count, .. } = self;
        let mut data = Vec::with_capacity(room(count, reader.bytes_left()) * N);
        let mut missing = count;
        reader
            .flatten(|reader| {
                if missing == 0 {
                    return Err(target.too_many(count));
                }
                let start = reader.value_offset();
                match element(reader) {
                    Ok(bytes) => data.extend_from_slice(&bytes),
                    Err(problem) => return Err(target.refuse(problem, count - missing, reader.at_offset(start))),
                }
                missing -= 1;
                Ok(())
            })
            .map_err(|fault: Fault| target.in_data(fault))?;
        if missing == 0 { Ok(Bytes::from(data)) } else { Err(target.too_few(count, count - missing)) }
    }

    fn strings(self) -> Self::Output {
        let Self { target, reader, count, context } = self;
        let mut data = Vec::new();
        let mut got = 0;
        reader
            .flatten(|reader| {
                let start = reader.value_offset();
                if reader.kind()? != Kind::String {
                    return Err(target.refuse(ElementProblem::Kind, got, reader.at_offset(start)));
                }
                if got == count {
                    return Err(target.too_many_strings(count, context));
                }
                let text = reader.string()?;
                let bytes = data.len() + size_of::<u32>() + text.len();
                let Some(length) = u32::try_from(text.len()).ok().filter(|_| bytes <= context.data_bytes_max) else {
                    return Err(target.too_large(bytes as u64, context));
                };
                data.extend_from_slice(&length.to_le_bytes());
                data.extend_from_slice(text.as_bytes());
                got += 1;
                Ok(())
            })
            .map_err(|fault: Fault| target.in_data(fault))?;
        if got == count { Ok(Bytes::from(data)) } else { Err(target.too_few_strings(count, got, context)) }
    }
}

/// The finite values of a numeric type, in words.
fn range_text(data_type: DataType) -> String {
    match data_type {
        DataType::Uint8 => format!("{} to {}", u8::MIN, u8::MAX),
        DataType::Uint16 => format!("{} to {}", u16::MIN, u16::MAX),
        DataType::Uint32 => format!("{} to {}", u32::MIN, u32::MAX),
        DataType::Uint64 => format!("{} to {}", u64::MIN, u64::MAX),
        DataType::Int8 => format!("{} to {}", i8::MIN, i8::MAX),
        DataType::Int16 => format!("{} to {}", i16::MIN, i16::MAX),
        DataType::Int32 => format!("{} to {}", i32::MIN, i32::MAX),
        DataType::Int64 => format!("{} to {}", i64::MIN, i64::MAX),
        DataType::Fp16 => format!("{:?} to {:?}", half::f16::MIN.to_f32(), half::f16::MAX.to_f32()),
        DataType::Bf16 => format!("{:?} to {:?}", half::bf16::MIN.to_f32(), half::bf16::MAX.to_f32()),
        DataType::Fp32 => format!("{:?} to {:?}", f32::MIN, f32::MAX),
        DataType::Fp64 => format!("{:?} to {:?}", f64::MIN, f64::MAX),
        DataType::Bool | DataType::Bytes => data_type.to_string(),
    }
}
