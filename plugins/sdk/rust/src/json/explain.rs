//! The slow path of [`super::parse`]: from a serde error to a plugin error with a pointer and a stable code.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_path_to_error::{Path, Segment};

use crate::PluginError;

/// How serde's messages begin, and the code each kind gets.
const CODES: [(&str, &str); 6] = [
    ("missing field", "missing_field"),
    ("unknown field", "unknown_field"),
    ("duplicate field", "duplicate_field"),
    ("invalid type", "wrong_type"),
    ("invalid length", "wrong_length"),
    ("trailing characters", "trailing_characters"),
];

/// What any other message gets.
const CODE_OTHERWISE: &str = "invalid_value";

#[cold]
pub(super) fn explain<'de, T: Deserialize<'de>>(body: &'de [u8], first: &serde_json::Error) -> PluginError {
    if let Some(error) = not_json(body) {
        return error;
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(error) => {
            let message = without_position(error.inner());
            let code = code(&message);
            PluginError::field(pointer(error.path(), code, &message), code, message)
        }
        // Not seen from any Deserialize of ours: it failed the first time only.
        Ok(_) => PluginError::field("", CODE_OTHERWISE, without_position(first)),
    }
}

/// `malformed` where the body is not JSON. Numbers too large for any type and deep nesting are JSON.
pub(super) fn not_json(body: &[u8]) -> Option<PluginError> {
    if let Err(error) = std::str::from_utf8(body) {
        return Some(PluginError::malformed(format!("the body is not JSON: it is not UTF-8: {error}")));
    }
    let error = serde_json::from_slice::<IgnoredAny>(body).err()?;
    Some(PluginError::malformed(format!("the body is not JSON: {error}")))
}

fn code(message: &str) -> &'static str {
    CODES.iter().find(|(start, _)| message.starts_with(start)).map_or(CODE_OTHERWISE, |(_, code)| code)
}

fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).map(str::to_owned).unwrap_or(text)
}

fn pointer(path: &Path, code: &str, message: &str) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer_segment(&mut pointer, &index.to_string()),
            Segment::Map { key } => pointer_segment(&mut pointer, key),
            Segment::Enum { variant } => pointer_segment(&mut pointer, variant),
            Segment::Unknown => {}
        }
    }
    // serde knows these by the object around them; a pointer names the field itself.
    if matches!(code, "missing_field" | "duplicate_field")
        && let Some(name) = message.split('`').nth(1)
    {
        pointer_segment(&mut pointer, name);
    }
    pointer
}

/// Appends one reference token to an RFC 6901 pointer, escaped.
pub fn pointer_segment(pointer: &mut String, token: &str) {
    pointer.push('/');
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::parse;
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Body {
        user: String,
        #[serde(default)]
        values: Vec<f32>,
        #[serde(default, rename = "a/b~c")]
        odd: Option<Inner>,
        #[serde(default)]
        kind: Kind,
        #[serde(default)]
        same: Option<Same>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Same {
        same: u8,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        n: u8,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        #[default]
        Small,
    }

    #[test]
    fn a_good_body_is_read() {
        let body: Body = parse(br#"{"user": "a", "values": [1, 2.5]}"#).unwrap();
        let expected = Body { user: "a".to_owned(), values: vec![1.0, 2.5], odd: None, kind: Kind::Small, same: None };
        assert_eq!(body, expected);
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        let bodies: [&[u8]; 8] =
            [b"", b"{", b"{\"user\": NaN}", b"{} {}", b"'a'", b"\xff", b"{\"user\": \"\xff\"}", b"[1,]"];
        for body in bodies {
            let error = parse::<Body>(body).unwrap_err();
            assert!(matches!(&error, PluginError::Malformed(text) if text.starts_with("the body is not JSON: ")));
        }
    }

    #[test]
    fn a_wrong_field_is_pointed_at() {
        let cases = [
            (r#"{}"#, "/user", "missing_field"),
            (r#"{"user": "a", "more": 1}"#, "/more", "unknown_field"),
            (r#"{"user": "a", "user": "b"}"#, "/user", "duplicate_field"),
            (r#"{"user": 1}"#, "/user", "wrong_type"),
            (r#"{"user": "a", "values": [1, 2, "3"]}"#, "/values/2", "wrong_type"),
            (r#"{"user": "a", "values": [1e999]}"#, "/values/0", "invalid_value"),
            (r#"{"user": "a", "a/b~c": {"n": 300}}"#, "/a~1b~0c/n", "invalid_value"),
            (r#"{"user": "a", "a/b~c": {}}"#, "/a~1b~0c/n", "missing_field"),
            (r#"{"user": "a", "a/b~c": {"n": 1, "n": 2}}"#, "/a~1b~0c/n", "duplicate_field"),
            (r#"{"user": "a", "same": {}}"#, "/same/same", "missing_field"),
            (r#"{"user": "a", "kind": "large"}"#, "/kind", "invalid_value"),
            (r#"[]"#, "", "wrong_length"),
            (r#"7"#, "", "wrong_type"),
        ];
        for (body, pointer, code) in cases {
            let error = parse::<Body>(body.as_bytes()).unwrap_err();
            let PluginError::Invalid(errors) = &error else { panic!("{body}: {error:?}") };
            assert_eq!((errors[0].pointer.as_str(), errors[0].code.as_str()), (pointer, code), "{body}: {errors:?}");
            assert!(!errors[0].message.contains(" at line "), "{errors:?}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_as_a_wrong_field() {
        let body = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let error = parse::<Body>(body.as_bytes()).unwrap_err();
        assert!(matches!(error, PluginError::Invalid(_)), "{error:?}");
    }
}
