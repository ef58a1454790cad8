//! Known mistakes in a `config.pbtxt` that does not parse, found in the tree of what is written: JSON spelling, lists
//! where there is one block, values without quotes or with them, and fields that are unknown, mistyped or in the wrong
//! block. The strict parser stops at its first error; this finds the others, each with its place and its fix.

use std::ops::Range;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};

use super::config_text::{Field, Node, Value, descriptor};
use super::problem::{Report, did_you_mean, nearest};

/// Most mistakes shown for one file; after a missing brace the rest follow from it.
const MISTAKES_MAX: usize = 32;

/// Reports the mistakes in `node` and returns the places they explain.
pub(super) fn find(node: &Node, report: &mut Report<'_>) -> Vec<Range<usize>> {
    let mut search = Search { report, found: Vec::new(), json_keys: 0 };
    if let Some(at) = node.nameless_block {
        let message = "the file is in braces, as in JSON; it is protobuf text, whose fields stand at the top level";
        search.add(at..at + 1, "", message, "remove the outer braces".to_owned());
    }
    search.block(node, &descriptor(), "");
    search.found
}

struct Search<'s, 'f> {
    report: &'s mut Report<'f>,
    found: Vec<Range<usize>>,
    json_keys: usize,
}

impl Search<'_, '_> {
    fn add(&mut self, span: Range<usize>, path: &str, message: impl Into<String>, fix: impl Into<Option<String>>) {
        if self.found.len() < MISTAKES_MAX {
            self.report.error(span.start, path, message, fix);
        }
        self.found.push(span);
    }

    fn block(&mut self, node: &Node, message: &MessageDescriptor, path: &str) {
        for field in &node.fields {
            let path = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
            self.quoted_name(field, &path);
            match message.get_field_by_name(&field.name) {
                Some(descriptor) => self.value(field, &descriptor, &path),
                None => self.unknown(field, message, &path),
            }
        }
    }

    /// One mention is enough: whoever quotes one name quotes them all.
    fn quoted_name(&mut self, field: &Field, path: &str) {
        if !field.quoted {
            return;
        }
        let span = field.at..field.value_at;
        self.json_keys += 1;
        if self.json_keys > 1 {
            return self.found.push(span);
        }
        let message = "the field's name is in quotes, as in JSON; in protobuf text names have none";
        self.add(span, path, message, format!("write {}: …", field.name));
    }

    fn value(&mut self, field: &Field, descriptor: &FieldDescriptor, path: &str) {
        let span = field.at..field.value_at + 1;
        let repeated = descriptor.is_list() || descriptor.is_map();
        match &field.value {
            Value::Missing => {}
            Value::List(elements) if repeated => {
                for (at, element) in elements {
                    self.single(element, descriptor, (*at..*at + 1, path));
                }
                self.colon(field, descriptor, path);
            }
            Value::List(_) => {
                let is_block = matches!(descriptor.kind(), Kind::Message(_));
                let (what, form) = if is_block { ("block", " { … }") } else { ("value", ": …") };
                let message = format!("'{}' is one {what}, not a list", field.name);
                self.add(span, path, message, format!("write {}{form}", field.name));
            }
            single => {
                self.single(single, descriptor, (span, path));
                self.colon(field, descriptor, path);
            }
        }
    }

    fn colon(&mut self, field: &Field, descriptor: &FieldDescriptor, path: &str) {
        if !field.colon && !matches!(descriptor.kind(), Kind::Message(_)) && !matches!(field.value, Value::Block(_)) {
            let span = field.at..field.value_at + 1;
            self.add(span, path, "':' is missing after the name", format!("write {}: …", field.name));
        }
    }

    fn single(&mut self, value: &Value, descriptor: &FieldDescriptor, (span, path): (Range<usize>, &str)) {
        let name = descriptor.name();
        match (value, descriptor.kind()) {
            (Value::Block(node), Kind::Message(message)) => self.block(node, &message, path),
            (Value::Block(_), _) => {
                self.add(span, path, format!("'{name}' is a value, not a block"), format!("write {name}: …"));
            }
            (Value::Text(_) | Value::Word(_), Kind::Message(message)) => {
                let example = unquoted(name, value, &message).unwrap_or_else(|| block_example(name, &message));
                self.add(span, path, format!("'{name}' is a block, not a value"), format!("write {example}"));
            }
            (Value::Text(text), Kind::Enum(_)) => {
                let message = format!("'{text}' is in quotes; '{name}' takes a name without quotes");
                self.add(span, path, message, format!("write {name}: {text}"));
            }
            (Value::Word(word), Kind::Enum(values)) if !is_number(word) && values.get_value_by_name(word).is_none() => {
                let names: Vec<_> = values.values().map(|value| value.name().to_owned()).collect();
                self.unknown_enum_value(word, &names, (span, path));
            }
            (Value::Word(word), Kind::String) => {
                let message = format!("'{name}' takes text in quotes");
                self.add(span, path, message, format!("write {name}: \"{word}\""));
            }
            (Value::Text(text), kind) if kind != Kind::String => {
                let message = format!("'{text}' is in quotes; '{name}' takes a number, true or false without quotes");
                self.add(span, path, message, format!("write {name}: {text}"));
            }
            _ => {}
        }
    }

    fn unknown_enum_value(&mut self, word: &str, names: &[String], (span, path): (Range<usize>, &str)) {
        let fix = match meant_enum_value(word, names) {
            Some(name) => format!("write {name}"),
            None => format!("one of {}", names.join(", ")),
        };
        self.add(span, path, format!("'{word}' is not a value of this field"), fix);
    }

    fn unknown(&mut self, field: &Field, message: &MessageDescriptor, path: &str) {
        let owner = path.rsplit_once('.').map_or("the model", |(owner, _)| owner);
        let name = &field.name;
        let fix = fix_for_unknown(name, message, path);
        self.add(field.at..field.value_at + 1, path, format!("'{name}' is not a field of {owner}"), fix);
    }
}

/// What to write instead of a field that `message` does not have.
pub(super) fn fix_for_unknown(name: &str, message: &MessageDescriptor, path: &str) -> Option<String> {
    let fix = special_fix(message.name(), name).map(str::to_owned);
    fix.or_else(|| place_fix(name, message, path)).or_else(|| {
        let fields: Vec<_> = message.fields().map(|field| field.name().to_owned()).collect();
        did_you_mean(name, fields.iter().map(String::as_str))
    })
}

/// The enum's name that `word` stands for, compared without the prefix all of them share.
pub(super) fn meant_enum_value<'n>(word: &str, names: &'n [String]) -> Option<&'n String> {
    const OTHER_NAMES: [(&str, &str); 9] = [
        ("BYTES", "STRING"),
        ("DOUBLE", "FP64"),
        ("FLOAT", "FP32"),
        ("FLOAT16", "FP16"),
        ("FLOAT32", "FP32"),
        ("FLOAT64", "FP64"),
        ("HALF", "FP16"),
        ("INT", "INT32"),
        ("LONG", "INT64"),
    ];
    let prefix = names.first()?.split_inclusive('_').next()?;
    let own = |name: &'n String| name.strip_prefix(prefix).unwrap_or(name);
    let upper = word.to_ascii_uppercase();
    let upper = upper.strip_prefix(prefix).unwrap_or(&upper);
    let upper = OTHER_NAMES.iter().find(|(other, _)| *other == upper).map_or(upper, |(_, name)| name);
    let meant = nearest(upper, names.iter().map(own))?;
    names.iter().find(|name| own(name) == meant)
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '-')
}

/// A block whose content was put in quotes, without them.
fn unquoted(name: &str, value: &Value, message: &MessageDescriptor) -> Option<String> {
    let Value::Text(text) = value else { return None };
    let is_content = !text.trim().is_empty() && DynamicMessage::parse_text_format(message.clone(), text).is_ok();
    is_content.then(|| format!("{name} {{ {} }}", text.trim()))
}

/// How a block that was written as a value should look.
fn block_example(name: &str, message: &MessageDescriptor) -> String {
    match message.name() {
        "ModelVersionPolicy" => format!("{name}: {{ latest: {{ num_versions: 1 }} }}"),
        "ModelParameter" => format!("{name}: {{ string_value: \"…\" }}"),
        _ if message.is_map_entry() => format!("{name} {{ key: \"…\" value: … }}"),
        _ => format!("{name} {{ … }}"),
    }
}

/// The fix for a field people expect in a message that does not have it.
fn special_fix(message: &str, field: &str) -> Option<&'static str> {
    let fix = match (message, field) {
        ("ModelConfig", "priority") => {
            "remove it: optimization { priority: … } is for TensorRT, and requests carry their own priority"
        }
        ("ModelConfig", "model_control_mode" | "model_repository" | "repository_poll_secs" | "strict_model_config") => {
            "remove it: that is a setting of the server, not of a model"
        }
        ("ModelConfig", "inputs") => "did you mean 'input'?",
        ("ModelConfig", "outputs") => "did you mean 'output'?",
        ("ModelWarmup", "key" | "value" | "input" | "data_type" | "dims") | ("InputsEntry", _) => {
            "write inputs { key: \"<the input's name>\" value { data_type: … dims: … zero_data: true } }"
        }
        ("Input", data) if data.ends_with("_data") => {
            "write zero_data: true, random_data: true or input_data_file: \"<a file in warmup/>\""
        }
        ("ModelInput" | "ModelOutput", "shape") => "write dims: [ … ], without the batch dimension",
        ("ModelInput" | "ModelOutput", "type" | "dtype" | "datatype") => "write data_type: TYPE_…",
        ("ModelParameter", _) => "write string_value: \"…\"; parameters are text",
        ("ModelVersionPolicy", "num_versions") => "write latest { num_versions: … }",
        ("ModelVersionPolicy", "versions") => "write specific { versions: [ … ] }",
        _ => return None,
    };
    Some(fix)
}

/// Where a field that is right elsewhere belongs: the top level, or a block in this message.
fn place_fix(name: &str, message: &MessageDescriptor, path: &str) -> Option<String> {
    let top = descriptor();
    if *message != top && top.get_field_by_name(name).is_some() {
        let block = path.split('.').next().unwrap_or_default();
        return Some(format!("move it to the top level, or close the braces of {block} before it"));
    }
    let holds =
        |field: &FieldDescriptor| matches!(field.kind(), Kind::Message(m) if m.get_field_by_name(name).is_some());
    let holder = message.fields().find(|field| !field.is_map() && holds(field))?;
    Some(format!("write {} {{ {name} … }}", holder.name()))
}

#[cfg(test)]
mod tests;
