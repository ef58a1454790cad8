//! Requests of different shapes in one batch: the ragged inputs of all requests lie end to end in one dimension, inputs
//! that the server generates tell the model where each begins, and outputs are cut by rows or scattered by the shape of
//! an input. Made from a [`RaggedConfig`](crate::RaggedConfig), what the configuration declares and the model's signature
//! by [`RaggedConfig::resolve`](crate::RaggedConfig::resolve); whoever holds one knows that they fit.

mod batch;
mod resolve;

pub(super) use batch::RaggedBatch;
pub use resolve::RaggedError;

use crate::config::GeneratedKind;
use crate::padding::CountType;
use crate::{Fill, Tensor};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ragged {
    /// The model's inputs, in its order.
    inputs: Vec<RaggedInput>,
    /// By output: how it is scattered; `None` for those that are cut by rows.
    outputs: Vec<Option<Scatter>>,
    /// Free dimensions of inputs that must have one shape in a batch: position in the request, and axis.
    free: Vec<(usize, usize)>,
    /// Whether requests have a batch dimension.
    batches: bool,
}

/// Where an input of the model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RaggedInput {
    /// The requests' input at this position, row by row.
    Rows(usize),
    /// The requests' input at this position, end to end.
    EndToEnd(usize),
    /// The server, which tells of the requests' input at this position.
    Generated { kind: GeneratedKind, source: usize, counts: CountType, zero: Fill },
}

/// How an output is scattered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scatter {
    /// The position of the input whose dimensions it takes.
    source: usize,
    /// The shape of an answer; -1 is that input's dimension of the same position.
    shape: Vec<i64>,
}

impl Scatter {
    /// The shape of the answer to a request with these inputs.
    fn shape_for(&self, inputs: &[Tensor]) -> Vec<u64> {
        let source = inputs[self.source].shape();
        let dimension = |(at, &dim): (usize, &i64)| u64::try_from(dim).unwrap_or_else(|_| source[at]);
        self.shape.iter().enumerate().map(dimension).collect()
    }
}

impl Ragged {
    /// What a request must share with others to run with them.
    pub(super) fn key(&self, inputs: &[Tensor]) -> Vec<u64> {
        self.free.iter().map(|&(input, axis)| inputs[input].shape()[axis]).collect()
    }
}

#[cfg(test)]
mod tests;
