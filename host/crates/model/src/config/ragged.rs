//! Ragged batches, as a configuration asks for them (Triton's `allow_ragged_batch`, `batch_input` and `batch_output`):
//! which inputs may differ in shape within a batch, which inputs tell the model of the batch, and which outputs are
//! scattered over the requests. What it means for one model is a [`Ragged`](crate::Ragged).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::DataType;

/// What a configuration asks for. Empty where batches are not ragged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaggedConfig {
    /// The inputs that may have another shape in each request of a batch, by name. The model takes them as one dimension.
    pub inputs: BTreeSet<Arc<str>>,
    /// The inputs that the server generates for each batch and no client sends, by name.
    pub generated: BTreeMap<Arc<str>, GeneratedInput>,
    /// The outputs that are scattered, by name: each request gets as many elements, in the shape that its own input of
    /// this name gives the output's free dimensions.
    pub scattered: BTreeMap<Arc<str>, Arc<str>>,
}

impl RaggedConfig {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An input that the server generates (`batch_input`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedInput {
    /// What it tells.
    pub kind: GeneratedKind,
    /// Its type: INT32 or FP32.
    pub data_type: DataType,
    /// The input that it tells of.
    pub source: Arc<str>,
}

/// What a generated input tells of its source, a request's count being that of all elements of its source. The names are
/// Triton's, without `BATCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedKind {
    /// Each request's count: `[requests]`.
    ElementCount,
    /// The counts of all requests up to each one: `[requests]`.
    AccumulatedElementCount,
    /// The same behind a zero: `[requests + 1]`.
    AccumulatedElementCountWithZero,
    /// Nothing but its own length, which is the largest count: zeros, `[largest count]`.
    MaxElementCountAsShape,
    /// The shape of each row of each request: `[rows, dimensions of a row]`.
    ItemShape,
    /// The same in one dimension: `[rows * dimensions of a row]`.
    ItemShapeFlatten,
}

impl GeneratedKind {
    /// The kind with this name in `config.pbtxt`.
    #[must_use]
    pub fn from_config_name(name: &str) -> Option<Self> {
        Some(match name {
            "BATCH_ELEMENT_COUNT" => Self::ElementCount,
            "BATCH_ACCUMULATED_ELEMENT_COUNT" => Self::AccumulatedElementCount,
            "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO" => Self::AccumulatedElementCountWithZero,
            "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE" => Self::MaxElementCountAsShape,
            "BATCH_ITEM_SHAPE" => Self::ItemShape,
            "BATCH_ITEM_SHAPE_FLATTEN" => Self::ItemShapeFlatten,
            _ => return None,
        })
    }

    /// Its number of dimensions.
    #[must_use]
    pub fn rank(self) -> usize {
        if self == Self::ItemShape { 2 } else { 1 }
    }
}
