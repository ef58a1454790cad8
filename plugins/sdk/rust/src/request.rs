//! What is known of a request beside its body.

use crate::{Call, PluginError};

impl Call {
    /// Whether the body is of this media type, parameters (`; charset=…`) aside. A request without a content type
    /// passes: it says nothing that could be wrong.
    #[must_use]
    pub fn is_media(&self, media_type: &str) -> bool {
        self.content_type.as_deref().is_none_or(|content_type| essence(content_type).eq_ignore_ascii_case(media_type))
    }

    /// Refuses bodies that say they are something else than JSON.
    ///
    /// # Errors
    /// `unsupported-media`, with what is read instead.
    pub fn expect_json(&self) -> Result<(), PluginError> {
        if self.is_media("application/json") {
            return Ok(());
        }
        let given = self.content_type.as_deref().unwrap_or_default();
        Err(PluginError::UnsupportedMedia(format!("content type `{given}` is not read here; send application/json")))
    }

    /// A header that the operator granted, by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.name == name).map(|header| header.value.as_str())
    }
}

fn essence(content_type: &str) -> &str {
    content_type.split_once(';').map_or(content_type, |(essence, _)| essence).trim()
}

#[cfg(test)]
mod tests {
    use crate::{Header, PluginError, testing};

    #[test]
    fn json_is_told_from_the_rest() {
        let mut call = testing::call();
        for good in
            [None, Some("application/json"), Some("Application/JSON; charset=utf-8"), Some(" application/json ")]
        {
            call.content_type = good.map(str::to_owned);
            assert_eq!(call.expect_json(), Ok(()), "{good:?}");
        }
        for bad in ["text/plain", "application/jsonl", "", "application/json, text/plain"] {
            call.content_type = Some(bad.to_owned());
            let Err(PluginError::UnsupportedMedia(text)) = call.expect_json() else { panic!("{bad}") };
            assert!(text.contains(&format!("`{bad}`")), "{text}");
        }
    }

    #[test]
    fn headers_are_found_by_name() {
        let mut call = testing::call();
        call.headers.push(Header { name: "x-tenant".to_owned(), value: "a".to_owned() });
        assert_eq!((call.header("x-tenant"), call.header("x-other")), (Some("a"), None));
    }
}
