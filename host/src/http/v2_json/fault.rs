//! Failures on their way out of the parser: an error code, a text, and whether Triton would put the request's id
//! before it. Values that clients sent are cut short before they are repeated.

use std::fmt;

use model::ErrorCode;

use super::V2Error;

pub(super) use crate::failure::clipped;
use crate::failure::request_prefix;
use crate::http::json::{JsonError, Kind, nesting_text};
use crate::raw_tensor::RawInputError;
use crate::shared_memory::RegionError;

/// A failure, before the request's id is known.
#[derive(Debug)]
pub(super) struct Fault {
    /// Boxed, so that results on the path of every value stay small.
    pub(super) error: Box<V2Error>,
    pub(super) names_request: bool,
}

impl Fault {
    /// The body is not what the route reads.
    pub(super) fn malformed(text: String) -> Self {
        Self::new(ErrorCode::MalformedRequest, text)
    }

    /// A tensor is not what it says it is.
    pub(super) fn tensor(text: String) -> Self {
        Self::new(ErrorCode::InvalidTensors, text)
    }

    /// A member that must be there is not.
    pub(super) fn missing(field: &str, place: Place) -> Self {
        Self::malformed(format!(
            "Unable to parse '{field}': attempt to access non-existing object member '{field}' ({place})"
        ))
    }

    /// A member that is there twice.
    pub(super) fn repeated(field: &str, place: Place) -> Self {
        Self::malformed(format!("Unable to parse '{field}': it is given more than once ({place})"))
    }

    /// A value of another JSON type than its field has; `wanted` as Triton says it, such as `string`.
    pub(super) fn wrong_type(field: &str, wanted: &str, place: Place) -> Self {
        Self::malformed(format!("Unable to parse '{field}': {} ({place})", access_text(wanted)))
    }

    /// Marks a text that Triton begins with the request's id.
    pub(super) fn naming_request(mut self) -> Self {
        self.names_request = true;
        self
    }

    /// The failure for the client, of the request with this id.
    pub(super) fn with_id(self, id: Option<&str>) -> V2Error {
        let mut error = *self.error;
        if self.names_request {
            error.text.insert_str(0, &request_prefix(id));
        }
        error
    }

    fn new(code: ErrorCode, text: String) -> Self {
        Self { error: Box::new(V2Error { code, text }), names_request: false }
    }
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax { what, at } => {
                Self::malformed(format!("failed to parse the request JSON buffer: {what} at {at}"))
            }
            JsonError::TooDeep => Self::malformed(nesting_text()),
        }
    }
}

impl From<RegionError> for Fault {
    fn from(error: RegionError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<RawInputError> for Fault {
    fn from(error: RawInputError) -> Self {
        let fault = Self::tensor(error.to_string());
        if error.names_request() { fault.naming_request() } else { fault }
    }
}

/// Triton's words for a value of another JSON type.
pub(super) fn access_text(wanted: &str) -> String {
    let as_type = if wanted == "number" { "double" } else { wanted };
    format!("attempt to access JSON non-{wanted} as {as_type}")
}

/// Triton's word for a JSON type.
pub(super) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Boolean => "boolean",
        Kind::Number => "number",
        Kind::String => "string",
        Kind::Array => "array",
        Kind::Object => "object",
    }
}

/// Where in the request a field stands: the request itself, or one entry of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// The top level.
    Request,
    /// The request's `parameters`.
    Parameters,
    /// An entry of `inputs`.
    Input(usize),
    /// An entry of `outputs`.
    Output(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("in the request"),
            Self::Parameters => f.write_str("in the request's parameters"),
            Self::Input(index) => write!(f, "in inputs[{index}]"),
            Self::Output(index) => write!(f, "in outputs[{index}]"),
        }
    }
}
