//! A JSON object taken apart into its fields, each still text, so that a plugin can look at all of them and report
//! everything that is wrong.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::explain::{not_json, pointer_segment};
use crate::{Fields, PluginError};

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number of any size.
    Number,
    /// A string.
    Text,
    /// `[…]`.
    Array,
    /// `{…}`.
    Object,
}

impl Kind {
    /// The kind of a JSON value given as text.
    #[must_use]
    pub fn of(value: &RawValue) -> Self {
        match value.get().as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'"') => Self::Text,
            Some(b'[') => Self::Array,
            Some(b'{') => Self::Object,
            _ => Self::Number,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

/// The fields of a JSON object in the order they came, duplicates included.
#[derive(Debug)]
pub struct Object<'a> {
    entries: Vec<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Takes a body apart.
    ///
    /// # Errors
    /// `malformed` where the body is not JSON, `invalid` where it is no object.
    pub fn parse(body: &'a [u8]) -> Result<Self, PluginError> {
        if let Some(error) = not_json(body) {
            return Err(error);
        }
        serde_json::from_slice(body).map_err(|error| PluginError::field("", "wrong_type", error.to_string()))
    }

    /// The first field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.entries.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Reports fields that are not among `names`, that are there twice, or that are missing.
    pub fn check_names(&self, names: &[&str], fields: &mut Fields) {
        for (index, (key, _)) in self.entries.iter().enumerate() {
            if !names.contains(&key.as_str()) {
                fields.add(field(key), "unknown_field", format!("is not a field here; there are {}", names.join(", ")));
            } else if self.entries[..index].iter().any(|(earlier, _)| earlier == key) {
                fields.add(field(key), "duplicate_field", "is there more than once");
            }
        }
        for name in names.iter().filter(|name| self.get(name).is_none()) {
            fields.add(field(name), "missing_field", "is missing");
        }
    }

    /// A string field. Reports it where it is there and something else.
    #[must_use]
    pub fn text(&self, name: &str, fields: &mut Fields) -> Option<String> {
        let value = self.get(name)?;
        if Kind::of(value) != Kind::Text {
            fields.add(field(name), "wrong_type", format!("expected a string, got {}", Kind::of(value)));
            return None;
        }
        match serde_json::from_str(value.get()) {
            Ok(text) => Some(text),
            Err(_) => {
                fields.add(field(name), "invalid_value", "is no Unicode text: it has half of a surrogate pair");
                None
            }
        }
    }

    /// The elements of an array field, each still text. Reports it where it is there and something else.
    #[must_use]
    pub fn array(&self, name: &str, fields: &mut Fields) -> Option<Vec<&'a RawValue>> {
        let value = self.get(name)?;
        if Kind::of(value) != Kind::Array {
            fields.add(field(name), "wrong_type", format!("expected an array, got {}", Kind::of(value)));
            return None;
        }
        serde_json::from_str(value.get()).ok()
    }
}

fn field(name: &str) -> String {
    let mut pointer = String::with_capacity(name.len() + 1);
    pointer_segment(&mut pointer, name);
    pointer
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Object { entries })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(body: &str) -> Vec<(String, String)> {
        let object = Object::parse(body.as_bytes()).unwrap();
        let mut fields = Fields::new();
        object.check_names(&["name", "list"], &mut fields);
        let _ = (object.text("name", &mut fields), object.array("list", &mut fields));
        match fields.finish() {
            Err(PluginError::Invalid(errors)) => errors.into_iter().map(|e| (e.pointer, e.code)).collect(),
            other => {
                assert_eq!(other, Ok(()));
                Vec::new()
            }
        }
    }

    #[test]
    fn every_wrong_field_is_found() {
        let cases: [(&str, &[(&str, &str)]); 5] = [
            (r#"{"name": "a", "list": []}"#, &[]),
            (r#"{"n~/": 1}"#, &[("/n~0~1", "unknown_field"), ("/name", "missing_field"), ("/list", "missing_field")]),
            (r#"{"name": 1, "list": {}}"#, &[("/name", "wrong_type"), ("/list", "wrong_type")]),
            (r#"{"name": "a", "list": [], "name": "b"}"#, &[("/name", "duplicate_field")]),
            (r#"{"name": "\ud800", "list": [1]}"#, &[("/name", "invalid_value")]),
        ];
        for (body, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(p, c)| ((*p).to_owned(), (*c).to_owned())).collect();
            assert_eq!(problems(body), expected, "{body}");
        }
    }

    #[test]
    fn values_are_handed_out_as_text() {
        let object = Object::parse(br#" {"list" : [ 1e999, "x" ], "name": "\u0061"} "#).unwrap();
        let mut fields = Fields::new();
        assert_eq!(object.text("name", &mut fields).as_deref(), Some("a"));
        let list = object.array("list", &mut fields).unwrap();
        assert_eq!(list.iter().map(|value| value.get()).collect::<Vec<_>>(), ["1e999", "\"x\""]);
        assert_eq!((Kind::of(list[0]), Kind::of(list[1])), (Kind::Number, Kind::Text));
        assert!(fields.is_empty());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (body, text) in [("[1, [2]]", "invalid type: sequence"), ("1", "invalid type: integer"), ("null", "null")] {
            let error = Object::parse(body.as_bytes()).unwrap_err();
            let PluginError::Invalid(errors) = &error else { panic!("{error:?}") };
            assert!(errors[0].pointer.is_empty() && errors[0].message.contains(text), "{errors:?}");
        }
        assert!(matches!(Object::parse(b"{"), Err(PluginError::Malformed(_))));
    }
}
