//! The bodies of TF Serving's REST predict: rows (`instances`) and columns (`inputs`) into tensors, tensors into
//! `predictions` and `outputs`, and what its other routes answer. Values go straight into the little-endian bytes of their
//! tensor and back, without a tree; a shape is what the lists are that hold the values. The module holds no state. Whether
//! the tensors fit the model is [`model::Signature::check_inputs`]' business.
//!
//! Texts are TF Serving's, with what clients sent cut short. Source: TensorFlow Serving, "RESTful API", and its sources
//! where that page is silent. Unlike there: integers out of a type's range are refused, and so are names that come twice;
//! UINT16, FP16 and BF16 travel as JSON numbers; BYTES elements that are not UTF-8 go out as base64 whatever their
//! output's name.

mod answers;
mod base64;
mod column;
mod fault;
mod parse;
mod render;
#[cfg(test)]
mod tests;
mod types;

use model::{Signature, Tensor};

pub(in crate::http) use answers::{VersionState, render_metadata, render_status};
pub use parse::parse_predict;
pub use render::render_predict;

/// The one signature that models have here.
const SIGNATURE_NAME: &str = "serving_default";

/// What a request is read for.
#[derive(Clone, Copy, Debug)]
pub struct PredictContext<'a> {
    /// The model's inputs: which there are, and of which type.
    pub signature: &'a Signature,
    /// Most bytes of one input's tensor.
    pub data_bytes_max: usize,
}

/// How inputs were given, and so how outputs are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A list with an entry per row: `instances`, answered with `predictions`.
    Rows,
    /// A value per tensor: `inputs`, answered with `outputs`.
    Columns,
}

/// A request, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictInputs {
    /// How its inputs were given.
    pub format: Format,
    /// Every input of the signature, in its order.
    pub inputs: Vec<Tensor>,
}
