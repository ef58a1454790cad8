//! What a model file says of its inputs and outputs, in our words: each is either a tensor of a v2 data type or something
//! no request can carry, with a text that says what to do about it.

use std::sync::Arc;

use model::{DataType, FileTensors, TensorSpec};
use ort::session::Session;
use ort::value::{Outlet, ValueType};

use crate::element::data_type_of;
use crate::raw::{ShapeKnown, Side, has_shape};

/// The inputs and outputs of a model file, in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSignature {
    pub(crate) inputs: Vec<FileTensor>,
    /// Inputs with values of their own in the file, which a run may give others (overridable initialisers).
    pub(crate) optional: Vec<FileTensor>,
    pub(crate) outputs: Vec<FileTensor>,
}

/// One input or output of a model file.
#[derive(Clone, Debug)]
pub(crate) struct FileTensor {
    pub(crate) name: Arc<str>,
    pub(crate) kind: FileTensorKind,
}

/// What an input or output is.
#[derive(Clone, Debug)]
pub(crate) enum FileTensorKind {
    /// A tensor of a v2 data type; -1 for every free dimension, named or not, and no dimension at all for a scalar. `None`
    /// where the file leaves the very number of dimensions open.
    Tensor { data_type: DataType, shape: Option<Vec<i64>> },
    /// Something else: what it is, and what to do.
    Unsupported { what: String, advice: &'static str },
}

impl FileSignature {
    /// Reads what a session knows.
    ///
    /// # Errors
    /// ONNX Runtime's words.
    pub(crate) fn of(session: &Session) -> Result<Self, String> {
        let read = |side: Side, outlets: &[Outlet]| -> Result<Vec<FileTensor>, String> {
            let indexed = outlets.iter().enumerate();
            let tensor = |(i, outlet): (usize, &Outlet)| {
                Ok(FileTensor::of(outlet.name(), outlet.dtype(), has_shape(session, side, i)?))
            };
            indexed.map(tensor).collect()
        };
        // A value in the file has a shape.
        let optional = session.overridable_initializers().into_iter();
        let optional = optional.map(|input| FileTensor::of(input.name(), input.dtype(), ShapeKnown::Yes)).collect();
        let (inputs, outputs) = (read(Side::Input, session.inputs())?, read(Side::Output, session.outputs())?);
        Ok(Self { inputs, optional, outputs })
    }
}

impl FileSignature {
    /// The tensors a configuration can be completed from.
    pub(crate) fn tensors(&self) -> FileTensors {
        let side = |tensors: &[FileTensor]| tensors.iter().map(FileTensor::spec).collect();
        let optional = self.optional.iter().filter_map(FileTensor::spec).collect();
        FileTensors { inputs: side(&self.inputs), optional, outputs: side(&self.outputs) }
    }
}

impl FileTensor {
    /// Its type and shape, where a request can carry it and the file says how many dimensions it has.
    fn spec(&self) -> Option<TensorSpec> {
        match &self.kind {
            FileTensorKind::Tensor { data_type, shape: Some(shape) } => {
                Some(TensorSpec { name: Arc::clone(&self.name), data_type: *data_type, shape: shape.clone() })
            }
            _ => None,
        }
    }

    fn of(name: &str, value: &ValueType, shape_known: ShapeKnown) -> Self {
        let unsupported = |what: &str, advice| FileTensorKind::Unsupported { what: what.to_owned(), advice };
        let kind = match value {
            ValueType::Tensor { ty, shape, .. } => match data_type_of(*ty) {
                Some(data_type) => {
                    let shape: Vec<i64> = shape.iter().map(|&dim| dim.max(-1)).collect();
                    FileTensorKind::Tensor { data_type, shape: (shape_known == ShapeKnown::Yes).then_some(shape) }
                }
                None => unsupported(&format!("a tensor of type {ty}"), CAST),
            },
            ValueType::Sequence(element) if matches!(**element, ValueType::Map { .. }) => {
                unsupported("a sequence of maps", ZIPMAP)
            }
            ValueType::Sequence(_) => unsupported("a sequence", SEQUENCE),
            ValueType::Map { .. } => unsupported("a map", ZIPMAP),
            ValueType::Optional(_) => unsupported("an optional", OPTIONAL),
        };
        Self { name: name.into(), kind }
    }
}

const CAST: &str = "add a Cast to one of the v2 data types before exporting it";
const ZIPMAP: &str = "export it so that it is a tensor: with options={id(model): {\"zipmap\": False}} from skl2onnx, with \
                      zipmap=False from onnxmltools";
const SEQUENCE: &str = "join its elements with ConcatFromSequence or give each a tensor of its own before exporting it";
const OPTIONAL: &str = "unwrap it with OptionalGetElement before exporting it";
