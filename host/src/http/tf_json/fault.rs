//! Failures on their way out of the parser. What is no JSON at all is told as that; everything else in TF Serving's words,
//! with the row it was found in before it.

use model::ErrorCode;

use crate::failure::{RequestFailure, clipped};
use crate::http::json::{JsonError, nesting_text};

/// Why a body is not a request.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is not JSON.
    Json(JsonError),
    /// It is, and says something else. Boxed, so that results on the path of every value stay small.
    Refused(Box<RequestFailure>),
}

impl Fault {
    /// The body is not formed as requests are.
    pub(super) fn malformed(text: impl Into<String>) -> Self {
        Self::Refused(Box::new(RequestFailure::new(ErrorCode::MalformedRequest, text)))
    }

    /// A tensor is not what it has to be.
    pub(super) fn tensor(text: impl Into<String>) -> Self {
        Self::Refused(Box::new(RequestFailure::new(ErrorCode::InvalidTensors, text)))
    }

    /// The body as a whole is not formed as requests are.
    pub(super) fn document(text: &str, what: &str) -> Self {
        Self::malformed(format!("JSON Value: {} {what}", clipped(text.trim_ascii())))
    }

    /// The same, found in this row of `instances` and, where rows are objects, in the value of this key.
    pub(super) fn in_row(self, row: u64, key: Option<&str>) -> Self {
        let Self::Refused(mut failure) = self else { return self };
        let key = key.map(|key| format!(" key: {}", clipped(key))).unwrap_or_default();
        failure.text = format!(
            "Failed to process element: {row}{key} of 'instances' list. Error: INVALID_ARGUMENT: {}",
            failure.text
        );
        Self::Refused(failure)
    }
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl From<Fault> for RequestFailure {
    fn from(fault: Fault) -> Self {
        let text = match fault {
            Fault::Refused(failure) => return *failure,
            Fault::Json(JsonError::Syntax { what, at }) => format!("JSON Parse error: {what} at offset: {at}"),
            Fault::Json(JsonError::TooDeep) => nesting_text(),
        };
        Self::new(ErrorCode::MalformedRequest, text)
    }
}
