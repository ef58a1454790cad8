//! A message as Triton prints it: protobuf's JSON with the names of the description, every field that has no presence
//! printed even where it has its default, and 64-bit integers as numbers, but for a few that Triton leaves as text.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

/// 64-bit fields that Triton prints as text, as protobuf's JSON does.
const PRINTED_AS_TEXT: [&str; 3] = [
    "inference.ModelInstanceGroup.SecondaryDevice.device_id",
    "inference.ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim",
    "inference.ModelSequenceBatching.InitialState.dims",
];

pub(super) fn to_json(message: &DynamicMessage) -> Vec<u8> {
    serde_json::to_vec(&Message(message)).expect("keys are text, and nothing here fails to be written")
}

/// The fields of a message in the order in which its description has them.
fn in_order(message: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> {
    message.descriptor_proto().field.iter().filter_map(|field| message.get_field_by_name(field.name()))
}

struct Message<'m>(&'m DynamicMessage);

impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in in_order(&self.0.descriptor()) {
            if self.0.has_field(&field) || !field.supports_presence() {
                map.serialize_entry(field.name(), &Field { field: &field, value: &self.0.get_field(&field) })?;
            }
        }
        map.end()
    }
}

struct Field<'m> {
    field: &'m FieldDescriptor,
    value: &'m Value,
}

impl Field<'_> {
    fn inner<'v>(&'v self, value: &'v Value) -> Field<'v> {
        Field { field: self.field, value }
    }

    fn is_printed_as_text(&self) -> bool {
        PRINTED_AS_TEXT.contains(&self.field.full_name())
    }

    /// The number's name; the number itself where it has none.
    fn serialize_enum<S: Serializer>(&self, number: i32, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.field.kind();
        match kind.as_enum().and_then(|values| values.get_value(number)) {
            Some(value) => serializer.serialize_str(value.name()),
            None => serializer.serialize_i32(number),
        }
    }

    fn serialize_map<S: Serializer>(
        &self,
        entries: impl Iterator<Item = (String, impl Serialize)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        serializer.collect_map(entries)
    }
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::I32(value) => serializer.serialize_i32(*value),
            Value::U32(value) => serializer.serialize_u32(*value),
            Value::I64(value) if self.is_printed_as_text() => serializer.collect_str(value),
            Value::I64(value) => serializer.serialize_i64(*value),
            Value::U64(value) => serializer.serialize_u64(*value),
            Value::F32(value) if value.is_finite() => serializer.serialize_f32(*value),
            Value::F64(value) if value.is_finite() => serializer.serialize_f64(*value),
            Value::F32(value) => serializer.serialize_str(name_of(f64::from(*value))),
            Value::F64(value) => serializer.serialize_str(name_of(*value)),
            Value::String(value) => serializer.serialize_str(value),
            Value::EnumNumber(number) => self.serialize_enum(*number, serializer),
            Value::Message(message) => Message(message).serialize(serializer),
            Value::List(values) => serializer.collect_seq(values.iter().map(|value| self.inner(value))),
            Value::Map(map) => {
                let kind = self.field.kind();
                let Kind::Message(entry) = kind else { return serializer.serialize_unit() };
                let field = entry.map_entry_value_field();
                let entries = map.iter().map(|(key, value)| (text_of(key), Field { field: &field, value }));
                self.serialize_map(entries, serializer)
            }
            // The description has no such field.
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
        }
    }
}

/// Protobuf's names for the floats that JSON has no numbers for.
fn name_of(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

fn text_of(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}
