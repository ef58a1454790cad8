//! Headers that become parameters of their request (`--http-header-forward-pattern`).

use axum::http::HeaderMap;
use model::ErrorCode;

use super::v2_json::{ParameterValue, is_reserved_parameter};
use crate::failure::RequestFailure;
use crate::settings::HeaderPattern;

/// Appends the headers that `pattern` matches to `parameters`, as texts under their names in lower case. Where the request
/// itself has a parameter of that name, that one stays.
///
/// # Errors
/// Triton's text for a name that means something to Triton itself.
pub(super) fn forward_headers(
    headers: &HeaderMap,
    pattern: &HeaderPattern,
    parameters: &mut Vec<(String, ParameterValue)>,
) -> Result<(), RequestFailure> {
    for (name, value) in headers.iter().filter(|(name, _)| pattern.matches(name.as_str())) {
        if is_reserved_parameter(name.as_str()) {
            let text = format!("Header '{name}' is reserved for Triton usage and cannot be forwarded.");
            return Err(RequestFailure::new(ErrorCode::MalformedRequest, text));
        }
        if parameters.iter().all(|(known, _)| known != name.as_str()) {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            parameters.push((name.as_str().to_owned(), ParameterValue::Text(value)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn forwarded(
        pattern: &str,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Vec<(String, ParameterValue)>, String> {
        let mut map = HeaderMap::new();
        for &(name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let pattern = HeaderPattern::new("setting", pattern).expect("a pattern");
        let mut parameters = vec![("own".to_owned(), ParameterValue::Signed(1))];
        let outcome = forward_headers(&map, &pattern, &mut parameters).map_err(|failure| failure.text);
        parameters.remove(0);
        outcome.map(|()| parameters)
    }

    #[test]
    fn headers_that_match_become_parameters() {
        let text = |name: &str, value: &str| (name.to_owned(), ParameterValue::Text(value.to_owned()));
        let headers = [("x-a", "1"), ("own", "2"), ("other", "3"), ("x-a", "4")];
        assert_eq!(forwarded("x-|own", &headers), Ok(vec![text("x-a", "1")]));
        assert_eq!(forwarded(".", &headers), Ok(vec![text("x-a", "1"), text("other", "3")]));
        assert_eq!(forwarded("nothing", &headers), Ok(Vec::new()));
    }

    #[test]
    fn names_with_a_meaning_are_refused() {
        for name in ["priority", "sequence_id", "headers", "triton_x"] {
            let text = format!("Header '{name}' is reserved for Triton usage and cannot be forwarded.");
            assert_eq!(forwarded(name, &[(name, "7")]), Err(text));
        }
    }
}
