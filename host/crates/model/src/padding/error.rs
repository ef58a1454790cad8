//! What a padding parameter asks for that the model does not have.

use std::sync::Arc;

use super::fill::values_of;
use crate::{DataType, display_shape};

/// A padding parameter that does not fit the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{parameter}': {fault}; {}", fault.fix())]
pub struct PaddingError {
    /// The parameter's key.
    pub parameter: String,
    /// What does not fit.
    pub fault: PaddingFault,
}

/// What does not fit. Shapes are full ones, with the batch dimension first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaddingFault {
    /// Requests run one by one.
    #[error("padding needs a model that batches, and max_batch_size is 0")]
    NoBatches,
    /// No such tensor.
    #[error("the model has no {side} '{name}'; it has {}", known.join(", "))]
    UnknownTensor {
        /// `input` or `output`.
        side: &'static str,
        /// The name given.
        name: Arc<str>,
        /// The names there are.
        known: Vec<String>,
    },
    /// The axis is fixed, the batch's, or not there.
    #[error(
        "axis {axis} of {side} '{name}' of shape {} is not a free dimension other than the batch's",
        display_shape(shape)
    )]
    Axis {
        /// `input` or `output`.
        side: &'static str,
        /// The tensor.
        name: Arc<str>,
        /// The axis given.
        axis: usize,
        /// Its shape.
        shape: Vec<i64>,
        /// The axes that could be meant.
        free: Vec<usize>,
    },
    /// It is not clear which axis is meant, or there is none.
    #[error(
        "{side} '{name}' of shape {} has {} free dimensions other than the batch's", display_shape(shape), free.len()
    )]
    FreeDimensions {
        /// `input` or `output`.
        side: &'static str,
        /// The tensor.
        name: Arc<str>,
        /// Its shape.
        shape: Vec<i64>,
        /// Its free axes other than the batch's.
        free: Vec<usize>,
    },
    /// The input's type has no such value.
    #[error("value '{value}' is none of input '{name}', whose type is {data_type}")]
    Value {
        /// The input.
        name: Arc<str>,
        /// The value given.
        value: String,
        /// The input's type.
        data_type: DataType,
    },
    /// A mask has one element per position.
    #[error(
        "mask '{name}' is {data_type} {}; it must be a number or BOOL, of the batch dimension, one free dimension and any \
         of size 1",
        display_shape(shape)
    )]
    Mask {
        /// The input.
        name: Arc<str>,
        /// Its type.
        data_type: DataType,
        /// Its shape.
        shape: Vec<i64>,
    },
    /// A length is one number per row.
    #[error(
        "input '{name}' is {data_type} {}; lengths must be INT32, INT64, UINT32, UINT64, FP32 or FP64, of the batch \
         dimension and any of size 1",
        display_shape(shape)
    )]
    Lengths {
        /// The input.
        name: Arc<str>,
        /// Its type.
        data_type: DataType,
        /// Its shape.
        shape: Vec<i64>,
    },
    /// Nothing has this length.
    #[error("no padded input has the length '{length}'")]
    UnknownLength {
        /// The name given.
        length: Arc<str>,
        /// The lengths there are.
        known: Vec<String>,
    },
    /// One input cannot be both sent and filled in.
    #[error("input '{name}' is padded and filled in by the server at once")]
    TwoRoles {
        /// The input.
        name: Arc<str>,
    },
}

impl PaddingFault {
    /// What to do about it.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::NoBatches => "set max_batch_size, or remove the parameter".to_owned(),
            Self::UnknownTensor { .. } => "name one of these".to_owned(),
            Self::Axis { free, .. } if free.is_empty() => "remove the parameter".to_owned(),
            Self::Axis { free, .. } => format!("write {}, or leave axis out where there is one", axes(free)),
            Self::FreeDimensions { free, .. } if free.is_empty() => "remove the parameter".to_owned(),
            Self::FreeDimensions { side: "output", free, .. } => format!("write {}", axes(free)),
            Self::FreeDimensions { .. } => "a padded input has exactly one: give the others a size in dims".to_owned(),
            Self::Value { data_type, .. } => format!("write {}", values_of(*data_type)),
            Self::Mask { .. } | Self::Lengths { .. } => "let the client send it, and pad it".to_owned(),
            Self::UnknownLength { known, .. } if known.is_empty() => {
                "pad an input with a parameter airlock.padding.input.<input>".to_owned()
            }
            Self::UnknownLength { known, .. } => format!("write length={}", known.join(" or length=")),
            Self::TwoRoles { .. } => "keep one of the two parameters".to_owned(),
        }
    }
}

fn axes(free: &[usize]) -> String {
    free.iter().map(|axis| format!("axis={axis}")).collect::<Vec<_>>().join(" or ")
}
