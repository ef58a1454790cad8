//! The parameters of a request: those of the protocol are typed and read, others are checked for their type. Texts are
//! Triton's.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::Duration;

use model::ErrorCode;

use super::proto::inference::InferParameter;
use super::proto::inference::infer_parameter::ParameterChoice;
use crate::failure::RequestFailure;

/// The one key of Triton's own prefix that clients may use.
const EMPTY_FINAL_RESPONSE: &str = "triton_enable_empty_final_response";

/// What the parameters of a request say to this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestParameters {
    /// The level of urgency; 0 asks for the model's default.
    pub priority: u64,
    /// How long the request may wait.
    pub timeout: Option<Duration>,
}

impl RequestParameters {
    /// Reads them.
    ///
    /// # Errors
    /// Triton's text for a key of its own or a value of another type; of several, that of the first key in order.
    pub(super) fn read(parameters: &HashMap<String, InferParameter>) -> Result<Self, RequestFailure> {
        let mut read = Self::default();
        let mut sorted: Vec<_> = parameters.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| key.as_str());
        for (key, parameter) in sorted {
            read.take(key, parameter.parameter_choice.as_ref()).map_err(malformed)?;
        }
        Ok(read)
    }

    fn take(&mut self, key: &str, value: Option<&ParameterChoice>) -> Result<(), String> {
        use ParameterChoice::{BoolParam, DoubleParam, Int64Param, StringParam, Uint64Param};
        let wrong = |wanted: &str| Err(format!("invalid value type for '{key}' parameter, expected {wanted}."));
        match (key, value) {
            ("sequence_id", Some(Int64Param(_) | StringParam(_)))
            | ("sequence_start" | "sequence_end" | EMPTY_FINAL_RESPONSE, Some(BoolParam(_))) => {}
            ("sequence_id", _) => return wrong("int64_param or string_param"),
            ("sequence_start" | "sequence_end" | EMPTY_FINAL_RESPONSE, _) => return wrong("bool_param"),
            ("priority", Some(Uint64Param(level))) => self.priority = *level,
            ("priority", Some(Int64Param(level))) => {
                let level = u64::try_from(*level);
                self.priority = level.map_err(|_| "invalid value for 'priority', expected value >= 0.".to_owned())?;
            }
            ("priority", _) => return wrong("int64_param or uint64_param"),
            ("timeout", Some(Int64Param(micros))) => {
                let micros = u64::try_from(*micros);
                let micros = micros.map_err(|_| "invalid value for 'timeout', expected value >= 0.".to_owned())?;
                self.timeout = Some(Duration::from_micros(micros));
            }
            ("timeout", _) => return wrong("int64_param"),
            _ if key.starts_with("triton_") => {
                return Err(format!(
                    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys \
                     starting with 'triton_' are allowed: {EMPTY_FINAL_RESPONSE}"
                ));
            }
            (_, Some(Int64Param(_) | BoolParam(_) | StringParam(_) | DoubleParam(_))) => {}
            _ => return wrong("int64_param, bool_param, or string_param"),
        }
        Ok(())
    }
}

/// How many classes of each row an output's parameters ask for.
///
/// # Errors
/// Triton's text for a value of another type, and for none.
pub(super) fn classes(parameters: &HashMap<String, InferParameter>) -> Result<Option<NonZeroU64>, RequestFailure> {
    match parameters.get("classification").map(|parameter| &parameter.parameter_choice) {
        None => Ok(None),
        Some(Some(ParameterChoice::Int64Param(count))) => {
            let count = u64::try_from(*count).ok().and_then(NonZeroU64::new).map(Some);
            count.ok_or_else(|| malformed("invalid value for 'classification' parameter, expected >= 0".to_owned()))
        }
        Some(_) => Err(malformed("invalid value type for 'classification' parameter, expected int64_param".to_owned())),
    }
}

/// The text in a parameter; `None` where there is none.
///
/// # Errors
/// For a value of another type.
pub(super) fn text_of<'p>(
    parameters: &'p HashMap<String, InferParameter>,
    key: &str,
) -> Result<Option<&'p str>, RequestFailure> {
    match parameters.get(key).map(|parameter| &parameter.parameter_choice) {
        None => Ok(None),
        Some(Some(ParameterChoice::StringParam(text))) => Ok(Some(text)),
        Some(_) => Err(malformed(format!("invalid value type for '{key}' parameter, expected string_param."))),
    }
}

/// A parameter to send.
pub(super) fn parameter(value: ParameterChoice) -> InferParameter {
    InferParameter { parameter_choice: Some(value) }
}

fn malformed(text: String) -> RequestFailure {
    RequestFailure::new(ErrorCode::MalformedRequest, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, Option<ParameterChoice>)]) -> Result<RequestParameters, String> {
        let given =
            given.iter().map(|(key, value)| ((*key).to_owned(), InferParameter { parameter_choice: value.clone() }));
        RequestParameters::read(&given.collect()).map_err(|failure| failure.text)
    }

    #[test]
    fn what_matters_to_the_queue_is_read() {
        use ParameterChoice::{BoolParam, DoubleParam, Int64Param, StringParam, Uint64Param};
        let read = read(&[
            ("priority", Some(Uint64Param(u64::MAX))),
            ("timeout", Some(Int64Param(1_500))),
            ("sequence_id", Some(StringParam("s".to_owned()))),
            ("sequence_start", Some(BoolParam(true))),
            (EMPTY_FINAL_RESPONSE, Some(BoolParam(true))),
            ("temperature", Some(DoubleParam(0.5))),
        ]);
        let expected = RequestParameters { priority: u64::MAX, timeout: Some(Duration::from_micros(1_500)) };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn of_several_mistakes_the_first_key_is_told() {
        let both = [("timeout", None), ("priority", None)];
        let text = "invalid value type for 'priority' parameter, expected int64_param or uint64_param.";
        assert_eq!(read(&both), Err(text.to_owned()));
    }
}
