//! Making answers.

use serde::Serialize;

use crate::{Header, PluginError, Response};

impl Response {
    /// Status 200 with a body of any media type.
    #[must_use]
    pub fn new(content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type: content_type.into(), headers: Vec::new(), body: body.into() }
    }

    /// Status 200 with a value as JSON.
    ///
    /// # Errors
    /// `internal` where the value has no JSON form, such as a map whose keys are no text.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, PluginError> {
        let body = serde_json::to_vec(value)
            .map_err(|error| PluginError::internal(format!("the answer has no JSON form: {error}")))?;
        Ok(Self::new("application/json", body))
    }

    /// Status 200 with text.
    #[must_use]
    pub fn text(body: impl Into<String>) -> Self {
        Self::new("text/plain; charset=utf-8", body.into())
    }

    /// Another status, 200 to 599.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header; names are lower case.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(Header { name: name.into(), value: value.into() });
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn answers_say_what_they_are() {
        let response = Response::json(&[1, 2]).unwrap().status(201).header("x-a", "b");
        assert_eq!((response.status, response.content_type.as_str()), (201, "application/json"));
        assert_eq!(response.body, b"[1,2]");
        assert_eq!((response.headers[0].name.as_str(), response.headers[0].value.as_str()), ("x-a", "b"));
        assert_eq!(Response::text("hi").content_type, "text/plain; charset=utf-8");
    }

    #[test]
    fn what_has_no_json_form_is_the_plugins_fault() {
        let error = Response::json(&HashMap::from([([1u8], 2)])).unwrap_err();
        assert!(matches!(&error, PluginError::Internal(text) if text.contains("no JSON form")), "{error:?}");
    }
}
