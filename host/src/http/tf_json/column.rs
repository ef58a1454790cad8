//! One input while it is read, item by item: the whole value where inputs come as columns, a row each where they come as
//! rows. All items of an input have one shape, which is that of the first.

use bytes::Bytes;
use model::{DataType, Tensor, TensorSpec};

use super::Format;
use super::base64;
use super::fault::Fault;
use super::types::short_name;
use crate::failure::clipped;
use crate::http::json::{
    ElementProblem, ElementReader, JsonError, Kind, Misfit, NESTING_MAX, Reader, read_elements, too_large_text,
};

/// An input and what has been read of it.
pub(super) struct Column<'a> {
    pub(super) spec: &'a TensorSpec,
    /// Items read.
    pub(super) items: u64,
    data: Vec<u8>,
    data_bytes_max: usize,
    /// The shape of the first item, and of the one that is being read.
    shape: ItemShape,
    item: ItemShape,
}

impl<'a> Column<'a> {
    pub(super) fn new(spec: &'a TensorSpec, data_bytes_max: usize) -> Self {
        let (shape, item) = (ItemShape::default(), ItemShape::default());
        Self { spec, items: 0, data: Vec::new(), data_bytes_max, shape, item }
    }

    /// Reads an item.
    ///
    /// # Errors
    /// TF Serving's text for lists that are no tensor, values of another type, or another shape than the first item's.
    pub(super) fn read_item(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        self.item.clear();
        read_elements(self.spec.data_type, Item { column: self, reader })?;
        self.items += 1;
        if self.items == 1 {
            std::mem::swap(&mut self.shape, &mut self.item);
            return Ok(());
        }
        self.shape.check_same(&self.item)
    }

    /// The tensor: with the number of items as its first dimension where they are rows.
    pub(super) fn into_tensor(self, format: Format) -> Result<Tensor, Fault> {
        let rows = (format == Format::Rows).then_some(self.items);
        let shape = rows.into_iter().chain(self.shape.lengths()).collect();
        Tensor::new(self.spec.name.clone(), self.spec.data_type, shape, Bytes::from(self.data))
            .map_err(|error| Fault::tensor(error.to_string()))
    }

    fn check_room(&self, more: usize) -> Result<(), Fault> {
        let bytes = self.data.len() + more;
        if bytes <= self.data_bytes_max {
            return Ok(());
        }
        Err(Fault::tensor(too_large_text(&self.spec.name, bytes as u64, self.data_bytes_max)))
    }

    fn push_string(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.check_room(size_of::<u32>() + bytes.len())?;
        let length = u32::try_from(bytes.len()).map_err(|error| Fault::tensor(error.to_string()))?;
        self.data.extend_from_slice(&length.to_le_bytes());
        self.data.extend_from_slice(bytes);
        Ok(())
    }

    /// Says what is wrong with the value at `reader`.
    #[cold]
    fn refuse(&self, problem: ElementProblem, mut reader: Reader<'_>) -> Fault {
        let data_type = self.spec.data_type;
        let is_real = matches!(data_type, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64);
        match problem {
            ElementProblem::Json(error) => error.into(),
            ElementProblem::Number(Misfit::Range) if is_real => {
                let text = reader.raw_value().unwrap_or_default();
                let (text, name) = (clipped(text), short_name(data_type));
                Fault::tensor(format!("Cannot convert JSON value: {text} to {name} without loss of precision."))
            }
            ElementProblem::Number(_) | ElementProblem::Kind => type_fault(reader, data_type),
        }
    }
}

/// The value at `reader` is of another JSON type.
#[cold]
fn type_fault(mut reader: Reader<'_>, data_type: DataType) -> Fault {
    let kind = reader.kind();
    let text = match reader.raw_value() {
        Ok(text) => text,
        Err(error) => return error.into(),
    };
    let kind = match kind {
        Ok(Kind::Null) | Err(_) => "Null",
        Ok(Kind::Boolean) if text == "true" => "True",
        Ok(Kind::Boolean) => "False",
        Ok(Kind::Number) => "Number",
        Ok(Kind::String) => "String",
        Ok(Kind::Array) => "Array",
        Ok(Kind::Object) => "Object",
    };
    let (text, name) = (clipped(text), short_name(data_type));
    Fault::tensor(format!("JSON Value: {text} Type: {kind} is not of expected type: {name}"))
}

/// An item on its way into its column.
struct Item<'c, 'a, 'r, 't> {
    column: &'c mut Column<'a>,
    reader: &'r mut Reader<'t>,
}

impl ElementReader for Item<'_, '_, '_, '_> {
    type Output = Result<(), Fault>;

    fn fixed<const N: usize>(
        self,
        element: impl for<'a> Fn(&mut Reader<'a>) -> Result<[u8; N], ElementProblem>,
    ) -> Self::Output {
        read_nested(self.reader, self.column, 0, &|reader, column| {
            let start = reader.value_offset();
            match element(reader) {
                Ok(bytes) => {
                    column.check_room(N)?;
                    column.data.extend_from_slice(&bytes);
                    Ok(())
                }
                Err(problem) => Err(column.refuse(problem, reader.at_offset(start))),
            }
        })
    }

    fn strings(self) -> Self::Output {
        read_nested(self.reader, self.column, 0, &|reader, column| match reader.kind()? {
            Kind::String => column.push_string(reader.string()?.as_bytes()),
            Kind::Object => match base64::take_text(reader) {
                Some(text) => column.push_string(&base64::decode(&text)?),
                None => {
                    let text = clipped(reader.raw_value()?).into_owned();
                    Err(Fault::tensor(format!("JSON Value: {text} not formatted correctly for base64 data")))
                }
            },
            _ => Err(type_fault(reader.clone(), DataType::Bytes)),
        })
    }
}

/// Reads a value inside `level` lists: an element, or a list and all that is in it.
fn read_nested<'t>(
    reader: &mut Reader<'t>,
    column: &mut Column<'_>,
    level: usize,
    element: &impl Fn(&mut Reader<'t>, &mut Column<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if reader.peek() != Some(b'[') {
        if !column.item.takes_element(level) {
            return Err(column.item.misplaced(reader.raw_value()?, level));
        }
        return element(reader, column);
    }
    column.item.enter_list(level)?;
    let mut length = 0;
    reader.elements(|reader| {
        length += 1;
        read_nested(reader, column, level + 1, element)
    })?;
    column.item.close_list(level, length)
}

/// The shape of one item: the lengths of its lists by level, as far as they are known. The first element, or the first
/// empty list, says how many levels there are; the first list of a level says how long all of that level are.
#[derive(Default)]
struct ItemShape {
    lengths: Vec<Option<u64>>,
    rank: Option<usize>,
}

impl ItemShape {
    fn clear(&mut self) {
        self.lengths.clear();
        self.rank = None;
    }

    fn set_rank(&mut self, rank: usize) {
        self.rank = Some(rank);
        self.lengths.resize(rank, None);
    }

    /// Whether elements may lie inside so many lists.
    #[inline]
    fn takes_element(&mut self, level: usize) -> bool {
        if self.rank.is_none() {
            self.set_rank(level);
        }
        self.rank == Some(level)
    }

    #[cold]
    fn misplaced(&self, text: &str, level: usize) -> Fault {
        let (text, rank) = (clipped(text), self.rank.unwrap_or_default());
        Fault::tensor(format!(
            "JSON Value: {text} found at incorrect level: {} in the JSON DOM. Expected at level: {rank}",
            level + 1
        ))
    }

    fn enter_list(&self, level: usize) -> Result<(), Fault> {
        if level >= NESTING_MAX {
            return Err(JsonError::TooDeep.into());
        }
        match self.rank {
            Some(rank) if level >= rank => {
                Err(Fault::tensor(format!("Encountered list at unexpected level: {level} expected < {rank}")))
            }
            _ => Ok(()),
        }
    }

    fn close_list(&mut self, level: usize, length: u64) -> Result<(), Fault> {
        if self.rank.is_none() {
            self.set_rank(level + 1);
        }
        // A list that was entered lies above the elements, and so do its lists.
        let expected = *self.lengths[level].get_or_insert(length);
        if expected == length {
            return Ok(());
        }
        Err(Fault::tensor(format!(
            "Encountered list at unexpected size: {length} at level: {level} expected size: {expected}"
        )))
    }

    fn lengths(&self) -> impl Iterator<Item = u64> {
        self.lengths.iter().map(|length| length.unwrap_or_default())
    }

    fn check_same(&self, other: &Self) -> Result<(), Fault> {
        if self.lengths == other.lengths {
            return Ok(());
        }
        let [expected, got] = [self, other].map(|shape| shape.lengths().fold(1, u64::saturating_mul));
        if expected != got {
            return Err(Fault::tensor(format!("Expecting tensor size: {expected} but got: {got}")));
        }
        let [expected, got] = [self, other].map(|shape| model::display_shape(&shape.lengths().collect::<Vec<_>>()));
        Err(Fault::tensor(format!("Expecting shape {expected} but got: {got}")))
    }
}
