//! What an answer is held to, and how it differs. Pure: the same answer always gives the same differences.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Number, Value as Json};

use super::pointer::{self, Pointer};
use super::{Form, essence};

/// Most differences named for one answer.
const DIFFERENCES_MAX: usize = 64;
/// Most characters of a value shown in a difference.
const SHOWN_MAX: usize = 200;

/// One difference between an answer and its expectation. Shown as `/score: expected 0.5, got 0.7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// A JSON pointer into the body, or `status`, `content-type` or `body`.
    pub place: String,
    /// What the sample promises.
    pub expected: String,
    /// What the answer holds.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.place, self.expected, self.got)
    }
}

/// What an answer is held to: its status, its content type and its body, exactly, within tolerances, or in shape.
#[derive(Clone, Debug)]
pub struct Expectation {
    pub(super) status: u16,
    /// Named in `expect.toml`; without it, the expected file's extension decides.
    pub(super) content_type: Option<String>,
    pub(super) mode: Mode,
    pub(super) tolerances: Vec<(Pointer, Tolerance)>,
    pub(super) ranges: Vec<(Pointer, Range)>,
    pub(super) body: ExpectedBody,
}

/// How closely a body is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Exact,
    Tolerances,
    Shape,
}

/// How far a number may be from the expected one: within either bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    pub(super) absolute: f64,
    /// A share of the expected number.
    pub(super) relative: f64,
}

impl Tolerance {
    /// For floats that no rule names.
    const DEFAULT: Self = Self { absolute: 1e-4, relative: 1e-4 };

    fn allows(self, expected: f64, got: f64) -> bool {
        let distance = (expected - got).abs();
        distance <= self.absolute || distance <= self.relative * expected.abs()
    }
}

/// Bounds of a number, both allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The recorded body.
#[derive(Clone, Debug)]
pub(super) enum ExpectedBody {
    Unrecorded,
    Json(Arc<Json>),
    Octets { form: Form, bytes: Bytes },
}

impl Expectation {
    pub(super) fn by_default(body: ExpectedBody) -> Self {
        Self {
            status: 200,
            content_type: None,
            mode: Mode::Tolerances,
            tolerances: Vec::new(),
            ranges: Vec::new(),
            body,
        }
    }

    /// The same expectation held to its shape: status, content type, fields, types and ranges, but no values. Arrays may
    /// change their length; their elements then look like the first expected one.
    #[must_use]
    pub fn as_shape(&self) -> Self {
        Self { mode: Mode::Shape, ..self.clone() }
    }

    /// Compares an answer. JSON is compared as values, not as text: the order of fields and white space do not count.
    /// Without a recorded answer, only a shape can be met, by the status alone.
    ///
    /// # Errors
    /// Every [`Difference`], up to a limit.
    pub fn compare(&self, status: u16, content_type: &str, body: &[u8]) -> Result<(), Vec<Difference>> {
        if status != self.status {
            // The body of an answer with another status is an error's text, which is what one wants to see.
            let got = format!("{status} with body {}", shown_bytes(body));
            return Err(vec![difference("status", self.status, got)]);
        }
        let mut differences = self.content_type_difference(content_type);
        match &self.body {
            ExpectedBody::Unrecorded if self.mode == Mode::Shape => return Ok(()),
            ExpectedBody::Unrecorded => {
                let expected = "a recorded answer (run `airlock check --update-samples` and review it)";
                return Err(vec![difference("body", expected, shown_bytes(body))]);
            }
            ExpectedBody::Json(expected) => match serde_json::from_slice(body) {
                Ok(got) => differences.extend(self.json_differences(expected, &got)),
                Err(error) => {
                    let got = format!("{} ({error})", shown_bytes(body));
                    differences.push(difference("body", "JSON", got));
                }
            },
            ExpectedBody::Octets { .. } if self.mode == Mode::Shape => {}
            ExpectedBody::Octets { bytes, .. } => {
                if bytes != body {
                    differences.push(difference("body", shown_bytes(bytes), shown_bytes(body)));
                }
            }
        }
        if differences.is_empty() { Ok(()) } else { Err(differences) }
    }

    fn content_type_difference(&self, got: &str) -> Vec<Difference> {
        let expected = match (&self.content_type, &self.body) {
            (Some(named), _) => (essence(named) != essence(got)).then_some(named.as_str()),
            (None, ExpectedBody::Json(_)) => (Form::of_content_type(got) != Form::Json).then_some("application/json"),
            (None, ExpectedBody::Octets { form: Form::Text, .. }) => {
                (Form::of_content_type(got) != Form::Text).then_some("text/plain")
            }
            (None, ExpectedBody::Octets { .. } | ExpectedBody::Unrecorded) => None,
        };
        expected.map(|expected| difference("content-type", expected, got)).into_iter().collect()
    }

    fn json_differences(&self, expected: &Json, got: &Json) -> Vec<Difference> {
        let mut comparison = Comparison { rules: self, path: Vec::new(), differences: Vec::new() };
        comparison.values(expected, got);
        comparison.differences
    }

    fn tolerance(&self, path: &[String]) -> Option<Tolerance> {
        let covering = self.tolerances.iter().filter(|(pointer, _)| pointer.covers(path));
        covering.max_by_key(|(pointer, _)| pointer.precision()).map(|(_, tolerance)| *tolerance)
    }
}

struct Comparison<'e> {
    rules: &'e Expectation,
    path: Vec<String>,
    differences: Vec<Difference>,
}

impl Comparison<'_> {
    fn differ(&mut self, expected: impl fmt::Display, got: impl fmt::Display) {
        if self.differences.len() < DIFFERENCES_MAX {
            let place = if self.path.is_empty() { "body".to_owned() } else { pointer::shown(&self.path) };
            self.differences.push(difference(&place, expected, got));
        }
    }

    fn below(&mut self, segment: impl Into<String>, compare: impl FnOnce(&mut Self)) {
        self.path.push(segment.into());
        compare(self);
        self.path.pop();
    }

    /// How deep this goes is bounded by the JSON parser.
    fn values(&mut self, expected: &Json, got: &Json) {
        let is_shape = self.rules.mode == Mode::Shape;
        match (expected, got) {
            (Json::Object(expected), Json::Object(got)) => self.objects(expected, got),
            (Json::Array(expected), Json::Array(got)) => self.arrays(expected, got),
            (Json::Number(expected), Json::Number(got)) => self.numbers(expected, got),
            (expected, got) if kind(expected) != kind(got) => {
                let expected_shown = if is_shape { kind(expected).to_owned() } else { shown_with_kind(expected) };
                self.differ(expected_shown, shown_with_kind(got));
            }
            (expected, got) if !is_shape && expected != got => self.differ(shown(expected), shown(got)),
            _ => {}
        }
    }

    fn objects(&mut self, expected: &serde_json::Map<String, Json>, got: &serde_json::Map<String, Json>) {
        let keys: BTreeSet<_> = expected.keys().chain(got.keys()).collect();
        for key in keys {
            self.below(key, |this| match (expected.get(key), got.get(key)) {
                (Some(expected), Some(got)) => this.values(expected, got),
                (Some(expected), None) => this.differ(shown(expected), "nothing"),
                (None, Some(got)) => this.differ("nothing", shown(got)),
                (None, None) => {}
            });
        }
    }

    fn arrays(&mut self, expected: &[Json], got: &[Json]) {
        let same_length = expected.len() == got.len();
        let is_shape = self.rules.mode == Mode::Shape;
        if !same_length && !is_shape {
            let elements = |of: &[Json]| format!("{} elements", of.len());
            self.differ(elements(expected), elements(got));
        }
        for (index, got) in got.iter().enumerate() {
            let like = if is_shape && !same_length { expected.first() } else { expected.get(index) };
            if let Some(like) = like {
                self.below(index.to_string(), |this| this.values(like, got));
            }
        }
    }

    fn numbers(&mut self, expected: &Number, got: &Number) {
        let value = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
        for (pointer, range) in &self.rules.ranges {
            if pointer.covers(&self.path) && !(range.low..=range.high).contains(&value(got)) {
                return self.differ(format_args!("a number from {} to {}", range.low, range.high), got);
            }
        }
        let is_float = expected.is_f64() || got.is_f64();
        let tolerance = match self.rules.mode {
            Mode::Shape => return,
            Mode::Exact => None,
            Mode::Tolerances => self.rules.tolerance(&self.path).or(is_float.then_some(Tolerance::DEFAULT)),
        };
        match tolerance {
            None if expected == got => {}
            None if is_float && value(expected) == value(got) => {}
            None => self.differ(expected, got),
            Some(tolerance) if tolerance.allows(value(expected), value(got)) => {}
            Some(Tolerance { absolute, relative }) => {
                let bounds = match (absolute > 0.0, relative > 0.0) {
                    (true, true) => format!("{expected} ± {absolute} or {relative} of it"),
                    (false, true) => format!("{expected} ± {relative} of it"),
                    _ => format!("{expected} ± {absolute}"),
                };
                self.differ(bounds, got);
            }
        }
    }
}

fn difference(place: &str, expected: impl fmt::Display, got: impl fmt::Display) -> Difference {
    Difference { place: place.to_owned(), expected: expected.to_string(), got: got.to_string() }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn shown_with_kind(value: &Json) -> String {
    if value.is_null() { "null".to_owned() } else { format!("{} {}", kind(value), shown(value)) }
}

fn shown(value: &Json) -> String {
    shortened(&value.to_string())
}

fn shown_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("{:?}", shortened(text)),
        Err(_) => format!("{} bytes that are not text", bytes.len()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
