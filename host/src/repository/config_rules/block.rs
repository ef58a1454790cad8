//! A parsed message together with the place of each of its fields: what the rules read. Field names given here are those
//! of `proto/model_config.proto`.

use std::borrow::Cow;
use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, ReflectMessage as _, Value};

use super::super::config_text;

/// Where something is written, and the tree of its text.
type Place<'m> = (Option<usize>, Option<&'m config_text::Node>);

/// One message of a configuration.
pub(super) struct Block<'m> {
    message: &'m DynamicMessage,
    node: Option<&'m config_text::Node>,
    at: Option<usize>,
    path: String,
}

impl<'m> Block<'m> {
    /// The whole configuration; `node` is the tree of its text, where it has one.
    pub(super) fn root(message: &'m DynamicMessage, node: Option<&'m config_text::Node>) -> Self {
        Self { message, node, at: None, path: String::new() }
    }

    /// Where field `name` is written, or else where this block is.
    pub(super) fn at(&self, name: &str) -> Option<usize> {
        self.node.and_then(|node| node.position(name)).or(self.at)
    }

    /// The field's path from the top, such as `input[0].dims`.
    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn own_path(&self) -> &str {
        &self.path
    }

    pub(super) fn own_at(&self) -> Option<usize> {
        self.at
    }

    /// The message's type, without its package.
    pub(super) fn type_name(&self) -> String {
        let descriptor = self.message.descriptor();
        descriptor.full_name().trim_start_matches("inference.").to_owned()
    }

    /// The names of the fields that are set to something else than their default.
    pub(super) fn set_fields(&self) -> Vec<String> {
        self.message.fields().map(|(field, _)| field.name().to_owned()).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A number, of whatever width; 0 where the field is not set.
    pub(super) fn integer(&self, name: &str) -> i128 {
        self.value(name).map_or(0, integer)
    }

    pub(super) fn integers(&self, name: &str) -> Vec<i128> {
        self.list(name).iter().map(integer).collect()
    }

    /// The numbers of a list with fractions.
    pub(super) fn numbers(&self, name: &str) -> Vec<f64> {
        self.list(name).iter().filter_map(Value::as_f64).collect()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A string; empty where the field is not set.
    pub(super) fn text(&self, name: &str) -> &'m str {
        self.value(name).and_then(Value::as_str).unwrap_or("")
    }

    /// The strings of a list.
    pub(super) fn texts(&self, name: &str) -> Vec<&'m str> {
        self.list(name).iter().filter_map(Value::as_str).collect()
    }

    /// The name of an enum's value; `None` for a number the enum does not have.
    pub(super) fn enum_name(&self, name: &str) -> Option<String> {
        let field = self.field(name);
        let number = i32::try_from(self.integer(name)).ok()?;
        Some(field.kind().as_enum()?.get_value(number)?.name().to_owned())
    }

    pub(super) fn block(&self, name: &str) -> Option<Self> {
        let message = self.value(name)?.as_message()?;
        let (at, node) = self.place(&self.written(name), 0);
        Some(Self { message, node, at, path: self.path(name) })
    }

    pub(super) fn blocks(&self, name: &str) -> Vec<Self> {
        let messages = self.list(name).iter().filter_map(Value::as_message).enumerate();
        let written = self.written(name);
        messages
            .map(|(index, message)| {
                let (at, node) = self.place(&written, index);
                Self { message, node, at, path: format!("{}[{index}]", self.path(name)) }
            })
            .collect()
    }

    /// The entries of a map of messages, by ascending key; numbers as text.
    pub(super) fn entries(&self, name: &str) -> Vec<(String, Self)> {
        let Some(Value::Map(map)) = self.value(name) else { return Vec::new() };
        let places = self.entry_places(name);
        let mut entries: Vec<_> = map
            .iter()
            .filter_map(|(key, value)| {
                let key = match key {
                    MapKey::String(key) => key.clone(),
                    MapKey::U32(number) => number.to_string(),
                    MapKey::U64(number) => number.to_string(),
                    _ => return None,
                };
                let (at, node) = places.get(&*key).copied().unwrap_or((self.at, None));
                let path = format!("{}[{key}]", self.path(name));
                Some((key, Self { message: value.as_message()?, node, at, path }))
            })
            .collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries
    }

    /// The entries of a map of strings, by ascending key, with their places.
    pub(super) fn text_entries(&self, name: &str) -> Vec<(&'m str, &'m str, Option<usize>)> {
        let Some(Value::Map(map)) = self.value(name) else { return Vec::new() };
        let entries = map.iter().filter_map(|(key, value)| Some((key.as_str()?, value.as_str()?)));
        let places = self.entry_places(name);
        let place = |key: &str| places.get(key).map_or(self.at, |place| place.0);
        let mut entries: Vec<_> = entries.map(|(key, value)| (key, value, place(key))).collect();
        entries.sort_unstable();
        entries
    }

    fn field(&self, name: &str) -> FieldDescriptor {
        let message = self.message.descriptor();
        message.get_field_by_name(name).expect("the rules name fields of model_config.proto")
    }

    fn value(&self, name: &str) -> Option<&'m Value> {
        let field = self.field(name);
        match self.message.has_field(&field).then(|| self.message.get_field(&field))? {
            Cow::Borrowed(value) => Some(value),
            Cow::Owned(_) => None,
        }
    }

    fn list(&self, name: &str) -> &'m [Value] {
        self.value(name).and_then(Value::as_list).unwrap_or(&[])
    }

    /// The values of field `name` as they are written.
    fn written(&self, name: &str) -> Vec<(usize, &'m config_text::Value)> {
        self.node.map(|node| node.values(name)).unwrap_or_default()
    }

    fn place(&self, written: &[(usize, &'m config_text::Value)], index: usize) -> Place<'m> {
        written.get(index).map_or((self.at, None), |&(at, value)| (Some(at), inner(value)))
    }

    /// The places of a map's entries by their keys, gathered in one walk; of a key that is written twice, the last.
    fn entry_places(&self, name: &str) -> HashMap<&'m str, Place<'m>> {
        let mut places = HashMap::new();
        for (at, entry) in self.written(name) {
            let Some(node) = inner(entry) else { continue };
            let value = node.values("value").first().and_then(|(_, value)| inner(value));
            for (_, key) in node.values("key") {
                if let config_text::Value::Text(key) = key {
                    places.insert(key.as_str(), (Some(at), value));
                }
            }
        }
        places
    }
}

fn inner(value: &config_text::Value) -> Option<&config_text::Node> {
    match value {
        config_text::Value::Block(node) => Some(node),
        _ => None,
    }
}

fn integer(value: &Value) -> i128 {
    match value {
        Value::I32(number) | Value::EnumNumber(number) => i128::from(*number),
        Value::I64(number) => i128::from(*number),
        Value::U32(number) => i128::from(*number),
        Value::U64(number) => i128::from(*number),
        _ => 0,
    }
}
