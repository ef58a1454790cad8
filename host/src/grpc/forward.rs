//! Metadata that become parameters of their request (`--grpc-header-forward-pattern`).

use std::collections::HashMap;

use http::HeaderMap;
use model::ErrorCode;

use super::parameters::parameter;
use super::proto::inference::InferParameter;
use super::proto::inference::infer_parameter::ParameterChoice;
use crate::failure::RequestFailure;
use crate::http::v2_json::is_reserved_parameter;
use crate::settings::HeaderPattern;

/// Metadata of a request or of a stream, and which of them are to be parameters.
#[derive(Clone)]
pub(super) struct Forwarding {
    pub(super) pattern: HeaderPattern,
    pub(super) headers: HeaderMap,
}

impl Forwarding {
    /// Adds the metadata that match to `parameters`.
    ///
    /// # Errors
    /// Triton's text for a name that means something to Triton itself.
    pub(super) fn add_to(&self, parameters: &mut HashMap<String, InferParameter>) -> Result<(), RequestFailure> {
        forward_metadata(&self.headers, &self.pattern, parameters)
    }
}

/// As texts. Where the request itself has a parameter of that
/// name, that one stays.
fn forward_metadata(
    headers: &HeaderMap,
    pattern: &HeaderPattern,
    parameters: &mut HashMap<String, InferParameter>,
) -> Result<(), RequestFailure> {
    for (name, value) in headers.iter().filter(|(name, _)| pattern.matches(name.as_str())) {
        if is_reserved_parameter(name.as_str()) {
            let text = format!("Header '{name}' is reserved for Triton usage and cannot be forwarded.");
            return Err(RequestFailure::new(ErrorCode::MalformedRequest, text));
        }
        let value = || parameter(ParameterChoice::StringParam(String::from_utf8_lossy(value.as_bytes()).into_owned()));
        parameters.entry(name.as_str().to_owned()).or_insert_with(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn forwarded(pattern: &str, headers: &[(&'static str, &'static str)]) -> Result<Vec<(String, String)>, String> {
        let headers: HeaderMap = headers
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let own = parameter(ParameterChoice::StringParam("kept".to_owned()));
        let mut parameters = HashMap::from([("own".to_owned(), own)]);
        let pattern = HeaderPattern::new("setting", pattern).expect("a pattern");
        forward_metadata(&headers, &pattern, &mut parameters).map_err(|failure| failure.text)?;
        let text = |parameter: InferParameter| match parameter.parameter_choice {
            Some(ParameterChoice::StringParam(text)) => text,
            other => panic!("{other:?}"),
        };
        let mut list: Vec<_> = parameters.into_iter().map(|(name, value)| (name, text(value))).collect();
        list.sort_unstable();
        Ok(list)
    }

    #[test]
    fn metadata_that_match_become_parameters() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = [("x-tenant", "7"), ("own", "lost"), ("other", "3")];
        assert_eq!(forwarded("X-|own", &headers), Ok(vec![pair("own", "kept"), pair("x-tenant", "7")]));
        assert_eq!(forwarded("nothing", &headers), Ok(vec![pair("own", "kept")]));
    }

    #[test]
    fn names_with_a_meaning_are_refused() {
        for name in ["priority", "sequence_id", "headers", "triton_x"] {
            let text = format!("Header '{name}' is reserved for Triton usage and cannot be forwarded.");
            assert_eq!(forwarded(name, &[(name, "7")]), Err(text));
        }
    }
}
