//! The Open Inference Protocol's bodies: requests into tensors, tensors and metadata into answers. A request is read in
//! one pass, without a tree: values go from their digits straight into the little-endian bytes of their tensor, and those
//! that come in binary after the JSON become views of the body. The module holds no state; a request that comes out of it
//! has the lengths its shapes ask for, distinct names, and no element that its data type cannot hold. Whether it fits a
//! model is [`model::Signature::check_inputs`]' business.
//!
//! Texts are Triton's wherever Triton has one, followed in parentheses by the place and the value at fault. Unlike
//! Triton: malformed JSON is 400; integers out of range are refused, not truncated; so are numbers that would become
//! infinite; FP16 and BF16 travel as JSON numbers; FP32 is printed with the digits that tell it from its neighbours
//! (0.1, not 0.10000000149011612). As in Triton, `NaN`, `Infinity` and `-Infinity` are numbers, both ways.

mod body;
mod data;
mod fault;
mod fields;
mod generate;
mod input;
mod metadata;
mod output;
mod parameters;
mod parse;
mod raw;
mod render;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use model::{ErrorCode, Signature, Tensor};

pub use body::InferBody;
pub use generate::parse_generate;
pub use metadata::{ModelMetadata, extensions, render_metadata, render_server_metadata};
pub use parameters::is_reserved_parameter;
pub use parse::parse_infer;
pub use render::{RenderedAnswer, render_generate, render_infer};

use crate::shared_memory::{RegionPart, SharedMemory};

/// What a request is read for.
#[derive(Clone, Copy, Debug)]
pub struct InferContext<'a> {
    /// The model's name, for texts.
    pub model: &'a str,
    /// The model's inputs and outputs: names are shared with it, and it bounds how many a request may list.
    pub signature: &'a Signature,
    /// Whether the first dimension of every shape counts rows.
    pub has_batch_dimension: bool,
    /// Most bytes of one input's tensor where it comes as JSON.
    pub data_bytes_max: usize,
    /// Where inputs may come from, and outputs go, that are not in the bodies.
    pub shared_memory: &'a SharedMemory,
}

/// A request, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    /// The client's name for the request.
    pub id: Option<String>,
    /// The inputs in the request's order, with distinct names.
    pub inputs: Vec<Tensor>,
    /// The outputs asked for, distinct; empty means all, in [`Self::encoding`].
    pub outputs: Vec<RequestedOutput>,
    /// How outputs are written that are not asked for by name.
    pub encoding: Encoding,
    /// The request's parameters in its order, without those that only steer the encoding.
    pub parameters: Vec<(String, ParameterValue)>,
}

/// How an output's values are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As `data` of the JSON.
    #[default]
    Json,
    /// As bytes after it.
    Binary,
    /// Not at all: they are in shared memory, and the JSON says their type and shape.
    Omitted,
}

impl From<bool> for Encoding {
    /// What a parameter such as `binary_data` asks for.
    fn from(is_binary: bool) -> Self {
        if is_binary { Self::Binary } else { Self::Json }
    }
}

/// An output that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Its name.
    pub name: String,
    /// What is made of its values.
    pub form: OutputForm,
}

/// What is made of an output's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// They are in the answer.
    Values(Encoding),
    /// So many of them are named in the answer, the highest first.
    Classes {
        /// How many.
        count: NonZeroU64,
        /// How they are written.
        encoding: Encoding,
    },
    /// They go into this part of a shared memory region.
    Region(RegionPart),
}

impl AsRef<str> for RequestedOutput {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

/// The value of a request parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterValue {
    /// `true` or `false`.
    Boolean(bool),
    /// An integer that fits 64 bits with a sign.
    Signed(i64),
    /// `sequence_id`, `priority`, `timeout`, and other integers above [`i64::MAX`].
    Unsigned(u64),
    /// Any other number.
    Real(f64),
    /// A string.
    Text(String),
}

/// An answer to encode.
#[derive(Clone, Copy, Debug)]
pub struct InferAnswer<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The version that answered.
    pub version: &'a str,
    /// The request's `id`, where it had one.
    pub id: Option<&'a str>,
    /// The outputs, in the order they are written.
    pub outputs: &'a [EncodedOutput],
}

/// An output of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedOutput {
    /// Its values.
    pub tensor: Tensor,
    /// How they are written.
    pub encoding: Encoding,
}

/// Why a request cannot be read, or an answer not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct V2Error {
    /// The reason, with its status.
    pub code: ErrorCode,
    /// The text for the client.
    pub text: String,
}
