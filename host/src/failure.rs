//! A failed request as every surface sees it: a stable code, the text for the client, and what only some failures carry.
//! The causes behind it have been logged where they happened.

use std::borrow::Cow;
use std::time::Duration;

use batching::BatchError;
use model::ErrorCode;
use plugin::{FieldError, PluginFailure};
use serde::Serialize;

/// Most bytes of a client's value that a text repeats.
const SHOWN_BYTES_MAX: usize = 128;

/// Why a request was not answered with a result.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestFailure {
    /// The stable reason; decides the status.
    pub code: ErrorCode,
    /// For people.
    pub text: String,
    /// Wrong fields, for [`ErrorCode::InvalidFields`].
    pub fields: Vec<FieldError>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// Whether Triton begins the text with the request's id; see [`Self::with_request_id`].
    pub names_request: bool,
}

impl RequestFailure {
    /// A failure that carries nothing further.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), fields: Vec::new(), retry_after: None, names_request: false }
    }

    /// The same with a time to try again.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// The same, marked as one whose text Triton begins with the request's id.
    #[must_use]
    pub fn naming_request(mut self) -> Self {
        self.names_request = true;
        self
    }

    /// The same with the request's id before its text, where Triton puts it there.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<&str>) -> Self {
        if std::mem::take(&mut self.names_request) {
            self.text.insert_str(0, &request_prefix(id));
        }
        self
    }
}

/// What Triton puts before the texts of its core: `[request id: 7] `, or `[request id: <id_unknown>] ` without an id.
#[must_use]
pub fn request_prefix(id: Option<&str>) -> String {
    let id = id.filter(|id| !id.is_empty()).unwrap_or("<id_unknown>");
    format!("[request id: {}] ", clipped(id))
}

/// `text`, cut at a character where it is long.
#[must_use]
pub fn clipped(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]))
}

impl From<BatchError> for RequestFailure {
    fn from(error: BatchError) -> Self {
        let text = error.to_string();
        match error {
            BatchError::QueueFull { .. } => Self::new(ErrorCode::QueueFull, text).retry_after(Duration::from_secs(1)),
            BatchError::Expired => Self::new(ErrorCode::QueueTimeout, text),
            BatchError::Stopped => Self::new(ErrorCode::ModelNotReady, text).retry_after(Duration::from_secs(1)),
            BatchError::Engine(_) => Self::new(ErrorCode::EngineFailed, text),
        }
    }
}

impl From<PluginFailure> for RequestFailure {
    fn from(failure: PluginFailure) -> Self {
        let code = failure.code();
        let mut answer = Self::new(code, public_text(&failure));
        match failure {
            PluginFailure::Invalid(fields) => answer.fields = fields,
            PluginFailure::Unavailable { retry_after_ms, .. } => {
                answer.retry_after = Some(Duration::from_millis(u64::from(retry_after_ms.unwrap_or(1000))));
            }
            PluginFailure::Exhausted { .. } => answer.retry_after = Some(Duration::from_secs(1)),
            _ => {}
        }
        answer
    }
}

/// What a client may read of a plugin's failure: a plugin's own words about its faults, and backtraces, stay in its log.
fn public_text(failure: &PluginFailure) -> String {
    match failure {
        PluginFailure::Internal { place, .. } => {
            format!("{place} reported a fault of its own; the plugin's log has the reason")
        }
        PluginFailure::Crashed { place, .. } => format!("{place} crashed; the plugin's log has the reason"),
        told => told.to_string(),
    }
}

/// A failure as it goes over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFailure {
    /// The status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The JSON body.
    pub body: Vec<u8>,
}

#[derive(Serialize)]
struct FailureBody<'a> {
    error: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<FieldBody<'a>>>,
}

#[derive(Serialize)]
struct TfServingBody<'a> {
    error: &'a str,
}

#[derive(Serialize)]
struct FieldBody<'a> {
    pointer: &'a str,
    code: &'a str,
    message: &'a str,
}

impl RequestFailure {
    /// Status and body: `{"error", "code"}`, and for wrong fields `errors` with a pointer each, as
    /// `application/problem+json`.
    #[must_use]
    pub fn render(&self) -> RenderedFailure {
        let invalid = self.code == ErrorCode::InvalidFields;
        let fields = self.fields.iter();
        let fields = fields.map(|f| FieldBody { pointer: &f.pointer, code: &f.code, message: &f.message });
        let body =
            FailureBody { error: &self.text, code: self.code.as_str(), errors: invalid.then(|| fields.collect()) };
        RenderedFailure {
            status: self.code.http_status(),
            content_type: if invalid { "application/problem+json" } else { "application/json" },
            body: serde_json::to_vec(&body).expect("strings always serialize"),
        }
    }

    /// Status and body as TF Serving's clients know them: `{"error"}` and nothing else.
    #[must_use]
    pub fn render_for_tf_serving(&self) -> RenderedFailure {
        RenderedFailure {
            status: self.code.tf_serving_status(),
            content_type: "application/json",
            body: serde_json::to_vec(&TfServingBody { error: &self.text }).expect("strings always serialize"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(failure: &RequestFailure) -> String {
        let rendered = failure.render();
        let body = String::from_utf8(rendered.body).expect("UTF-8");
        format!("{} {} {body}", rendered.status, rendered.content_type)
    }

    #[test]
    fn error_bodies() {
        let full = RequestFailure::from(BatchError::QueueFull { max: 7 });
        assert_eq!(full.retry_after, Some(Duration::from_secs(1)));
        let field = FieldError { pointer: "/age".into(), code: "out_of_range".into(), message: "is 130".into() };
        let shown = [
            rendered(&full),
            rendered(&BatchError::Expired.into()),
            rendered(&PluginFailure::Malformed("not \"JSON\"".to_owned()).into()),
            rendered(&PluginFailure::Invalid(vec![field]).into()),
            rendered(&PluginFailure::Rejected("no".to_owned()).into()),
        ];
        insta::assert_snapshot!(shown.join("\n"), @r#"
        503 application/json {"error":"Exceeds maximum queue size","code":"queue_full"}
        503 application/json {"error":"Request timeout expired","code":"queue_timeout"}
        400 application/json {"error":"not \"JSON\"","code":"malformed_request"}
        422 application/problem+json {"error":"/age: is 130","code":"invalid_fields","errors":[{"pointer":"/age","code":"out_of_range","message":"is 130"}]}
        403 application/json {"error":"no","code":"rejected"}
        "#);
    }

    #[test]
    fn the_prefix_of_core_texts() {
        let failure = || RequestFailure::new(ErrorCode::InvalidTensors, "text");
        for (id, prefixed) in [(Some("7"), "[request id: 7] text"), (None, "[request id: <id_unknown>] text")] {
            assert_eq!(failure().naming_request().with_request_id(id).text, prefixed);
            assert_eq!(failure().with_request_id(id).text, "text");
        }
        assert_eq!(request_prefix(Some("")), "[request id: <id_unknown>] ");
    }

    #[test]
    fn a_plugins_own_words_about_its_faults_stay_in_its_log() {
        let place = plugin::Place { model: "m".to_owned(), generation: 3, stage: plugin::Stage::Preprocess };
        for failure in [
            PluginFailure::Internal { place: place.clone(), message: "secret".to_owned() },
            PluginFailure::Crashed { place, message: "secret backtrace".to_owned() },
        ] {
            let answer = RequestFailure::from(failure);
            assert_eq!(answer.code.http_status(), 500);
            assert!(!answer.text.contains("secret"), "{}", answer.text);
            assert!(answer.text.contains("model 'm' (generation 3)"), "{}", answer.text);
        }
    }
}
