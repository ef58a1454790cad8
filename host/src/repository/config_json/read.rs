//! Protobuf's JSON to a message of our description, with every problem told under its path into the JSON. Names may be
//! the description's or their lower-camel-case forms, 64-bit integers may be numbers or text, and the names of enum
//! values may be written in any case, as Triton reads them.

use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use serde_json::{Map, Value as Json};

use super::super::config_mistakes::{fix_for_unknown, meant_enum_value};
use super::super::config_text::descriptor;
use super::super::problem::Report;

/// The message that `text` is; what of it cannot be read goes to `report` and is left out.
pub(super) fn message(text: &str, report: &mut Report<'_>) -> DynamicMessage {
    let mut reader = Reader { report };
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => reader.message(&object, &descriptor(), ""),
        Ok(other) => {
            let message = format!("a configuration is a JSON object, not {}", word(&other));
            reader.refuse("", message, "write {\"max_batch_size\": …}".to_owned());
            DynamicMessage::new(descriptor())
        }
        Err(error) => {
            reader.refuse("", format!("it is not JSON: {error}"), None);
            DynamicMessage::new(descriptor())
        }
    }
}

struct Reader<'r, 'f> {
    report: &'r mut Report<'f>,
}

impl Reader<'_, '_> {
    fn refuse(&mut self, path: &str, message: impl Into<String>, fix: impl Into<Option<String>>) {
        self.report.error(None, path, message, fix);
    }

    fn message(&mut self, object: &Map<String, Json>, descriptor: &MessageDescriptor, path: &str) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for (name, json) in object {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let field = descriptor.get_field_by_name(name).or_else(|| descriptor.get_field_by_json_name(name));
            let Some(field) = field else {
                let owner = path.rsplit_once('.').map_or("the model", |(owner, _)| owner);
                let fix = fix_for_unknown(name, descriptor, &path);
                self.refuse(&path, format!("'{name}' is not a field of {owner}"), fix);
                continue;
            };
            if json.is_null() || self.is_second_choice(&message, &field, &path) {
                continue;
            }
            if let Some(value) = self.value(json, &field, &path) {
                message.set_field(&field, value);
            }
        }
        message
    }

    /// Whether another field of the same choice has been written.
    fn is_second_choice(&mut self, message: &DynamicMessage, field: &FieldDescriptor, path: &str) -> bool {
        let Some(choice) = field.containing_oneof() else { return false };
        let Some(other) = choice.fields().find(|other| message.has_field(other)) else { return false };
        let fix = format!("remove one of the two: {}", choice.name());
        self.refuse(path, format!("'{}' is there as well as '{}'", field.name(), other.name()), fix);
        true
    }

    fn value(&mut self, json: &Json, field: &FieldDescriptor, path: &str) -> Option<Value> {
        if field.is_map() {
            return self.map(json, field, path);
        }
        if !field.is_list() {
            return self.single(json, field, path);
        }
        let Json::Array(elements) = json else {
            self.refuse(path, format!("'{}' is a list, not {}", field.name(), word(json)), "write [ … ]".to_owned());
            return None;
        };
        let elements = elements.iter().enumerate();
        Some(Value::List(
            elements.filter_map(|(index, json)| self.single(json, field, &format!("{path}[{index}]"))).collect(),
        ))
    }

    fn map(&mut self, json: &Json, field: &FieldDescriptor, path: &str) -> Option<Value> {
        let Kind::Message(entry) = field.kind() else { return None };
        let Json::Object(object) = json else {
            let message = format!("'{}' is an object of keys and values, not {}", field.name(), word(json));
            self.refuse(path, message, "write {\"key\": …}".to_owned());
            return None;
        };
        let (keys, values) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field());
        let entries = object.iter().filter_map(|(key, json)| {
            let path = format!("{path}[{key}]");
            let parsed = match keys {
                Kind::Uint64 => key.parse().ok().map(MapKey::U64),
                _ => Some(MapKey::String(key.clone())),
            };
            if parsed.is_none() {
                self.refuse(&path, format!("the key '{key}' is not a whole number"), None);
            }
            Some((parsed?, self.single(json, &values, &path)?))
        });
        Some(Value::Map(entries.collect()))
    }

    fn single(&mut self, json: &Json, field: &FieldDescriptor, path: &str) -> Option<Value> {
        let kind = field.kind();
        let value = match (&kind, json) {
            (Kind::Message(inner), Json::Object(object)) => Some(Value::Message(self.message(object, inner, path))),
            (Kind::Enum(values), _) => return self.enum_value(json, values, path),
            (Kind::String, Json::String(text)) => Some(Value::String(text.clone())),
            (Kind::Bool, Json::Bool(flag)) => Some(Value::Bool(*flag)),
            (Kind::Float, _) => float(json).map(|value| Value::F32(value as f32)),
            (Kind::Double, _) => float(json).map(Value::F64),
            _ => integer(json).and_then(|number| integer_value(&kind, number)),
        };
        if value.is_none() {
            self.refuse(path, format!("'{}' takes {}, not {}", field.name(), wanted(&kind), word(json)), None);
        }
        value
    }

    fn enum_value(&mut self, json: &Json, values: &EnumDescriptor, path: &str) -> Option<Value> {
        if let Some(number) = integer(json).and_then(|number| i32::try_from(number).ok()) {
            return Some(Value::EnumNumber(number));
        }
        let names: Vec<_> = values.values().map(|value| value.name().to_owned()).collect();
        let Json::String(name) = json else {
            let fix = format!("one of {}", names.join(", "));
            self.refuse(path, format!("the name of a value is wanted, not {}", word(json)), fix);
            return None;
        };
        if let Some(value) = values.values().find(|value| value.name().eq_ignore_ascii_case(name)) {
            return Some(Value::EnumNumber(value.number()));
        }
        let fix = match meant_enum_value(name, &names) {
            Some(meant) => format!("write \"{meant}\""),
            None => format!("one of {}", names.join(", ")),
        };
        self.refuse(path, format!("'{name}' is not a value of this field"), fix);
        None
    }
}

/// A whole number, also written as text or with a fraction of zero.
fn integer(json: &Json) -> Option<i128> {
    match json {
        Json::Number(number) => {
            let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            whole.or_else(|| number.as_f64().filter(|value| value.fract() == 0.0).map(|value| value as i128))
        }
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn float(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => match text.as_str() {
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::NAN),
            number => number.parse().ok().filter(|value: &f64| value.is_finite()),
        },
        _ => None,
    }
}

/// `None` where the number does not fit.
fn integer_value(kind: &Kind, number: i128) -> Option<Value> {
    match kind {
        Kind::Int32 => i32::try_from(number).ok().map(Value::I32),
        Kind::Uint32 => u32::try_from(number).ok().map(Value::U32),
        Kind::Int64 => i64::try_from(number).ok().map(Value::I64),
        Kind::Uint64 => u64::try_from(number).ok().map(Value::U64),
        _ => None,
    }
}

fn wanted(kind: &Kind) -> &'static str {
    match kind {
        Kind::Message(_) => "an object",
        Kind::String => "text",
        Kind::Bool => "true or false",
        Kind::Float | Kind::Double => "a number",
        Kind::Uint32 => "a whole number from 0 to 4294967295",
        Kind::Uint64 => "a whole number from 0 to 18446744073709551615",
        Kind::Int32 => "a whole number from -2147483648 to 2147483647",
        _ => "a whole number of 64 bits",
    }
}

/// The value as it is named in a problem.
fn word(json: &Json) -> String {
    match json {
        Json::Null => "null".to_owned(),
        Json::Bool(flag) => flag.to_string(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => format!("'{text}'"),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    }
}
