//! Triton's normal form of a configuration: what was written, completed by what the model file told, and every default
//! that Triton fills in.

use model::{ModelConfig, TensorConfig, VersionPolicy};
use prost_reflect::{DynamicMessage, Kind, ReflectMessage as _, Value};

use super::super::declared_config::ConfigDocument;

/// `loaded` is the configuration as it was completed, `policy` the version policy in force.
pub(super) fn normal_form(document: &ConfigDocument, loaded: &ModelConfig, policy: &VersionPolicy) -> DynamicMessage {
    let mut message = document.0.clone();
    fill(&mut message, "name", text(loaded.name.as_str()));
    fill(&mut message, "backend", text(loaded.backend.name()));
    if loaded.backend.has_file() {
        fill(&mut message, "platform", text(loaded.backend.platform()));
        fill(&mut message, "default_model_filename", text(&loaded.model_filename));
    }
    message.set_field_by_name("max_batch_size", int32(loaded.max_batch_size));
    fill_tensors(&mut message, "input", &loaded.inputs);
    fill_tensors(&mut message, "output", &loaded.outputs);
    set_policy(&mut message, policy);
    fill_batching(&mut message, loaded);
    fill_pinned_memory(block(&mut message, "optimization"));
    fill_instances(&mut message, loaded);
    message
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn int32(value: u32) -> Value {
    Value::I32(i32::try_from(value).unwrap_or(i32::MAX))
}

fn int64s(values: &[i64]) -> Value {
    Value::List(values.iter().copied().map(Value::I64).collect())
}

/// Sets a field that is not set.
fn fill(message: &mut DynamicMessage, field: &str, value: Value) {
    if !message.has_field_by_name(field) {
        message.set_field_by_name(field, value);
    }
}

const KNOWN: &str = "normal_form names fields of model_config.proto";

/// The block in `field`, which is there from now on.
fn block<'m>(message: &'m mut DynamicMessage, field: &str) -> &'m mut DynamicMessage {
    if !message.has_field_by_name(field) {
        let empty = new_block(message, field);
        message.set_field_by_name(field, Value::Message(empty));
    }
    message.get_field_by_name_mut(field).and_then(Value::as_message_mut).expect(KNOWN)
}

fn list<'m>(message: &'m mut DynamicMessage, field: &str) -> &'m mut Vec<Value> {
    message.get_field_by_name_mut(field).and_then(Value::as_list_mut).expect(KNOWN)
}

fn new_block(message: &DynamicMessage, field: &str) -> DynamicMessage {
    let field = message.descriptor().get_field_by_name(field).expect(KNOWN);
    let Kind::Message(inner) = field.kind() else { unreachable!("{KNOWN}, and their kinds") };
    DynamicMessage::new(inner)
}

fn fill_tensors(message: &mut DynamicMessage, field: &str, tensors: &[TensorConfig]) {
    if !list(message, field).is_empty() {
        return;
    }
    for tensor in tensors {
        let mut entry = new_block(message, field);
        entry.set_field_by_name("name", text(&tensor.name));
        let types = entry.descriptor().get_field_by_name("data_type").map(|field| field.kind());
        let number = types
            .as_ref()
            .and_then(Kind::as_enum)
            .and_then(|types| types.get_value_by_name(tensor.data_type.config_name()).map(|value| value.number()));
        entry.set_field_by_name("data_type", Value::EnumNumber(number.expect(KNOWN)));
        entry.set_field_by_name("dims", int64s(&tensor.dims));
        if let Some(shape) = &tensor.reshape {
            block(&mut entry, "reshape").set_field_by_name("shape", int64s(shape));
        }
        list(message, field).push(Value::Message(entry));
    }
}

fn set_policy(message: &mut DynamicMessage, policy: &VersionPolicy) {
    message.clear_field_by_name("version_policy");
    let choice = block(message, "version_policy");
    match policy {
        VersionPolicy::Latest(count) => {
            block(choice, "latest").set_field_by_name("num_versions", Value::U32(*count));
        }
        VersionPolicy::All => drop(block(choice, "all")),
        VersionPolicy::Specific(versions) => {
            let versions: Vec<_> =
                versions.iter().map(|version| i64::try_from(version.get()).unwrap_or(i64::MAX)).collect();
            block(choice, "specific").set_field_by_name("versions", int64s(&versions));
        }
    }
}

fn fill_batching(message: &mut DynamicMessage, loaded: &ModelConfig) {
    if !loaded.batching.is_dynamic {
        return;
    }
    let sizes = list(block(message, "dynamic_batching"), "preferred_batch_size");
    if sizes.is_empty() && loaded.max_batch_size > 0 {
        sizes.push(int32(loaded.max_batch_size));
    }
}

fn fill_pinned_memory(optimization: &mut DynamicMessage) {
    for field in ["input_pinned_memory", "output_pinned_memory"] {
        if !optimization.has_field_by_name(field) {
            block(optimization, field).set_field_by_name("enable", Value::Bool(true));
        }
    }
}

/// Names, kinds and counts of the groups; one group with all instances where none is written.
fn fill_instances(message: &mut DynamicMessage, loaded: &ModelConfig) {
    const KIND_AUTO: i32 = 0;
    const KIND_CPU: i32 = 2;
    let empty = new_block(message, "instance_group");
    let groups = list(message, "instance_group");
    if groups.is_empty() {
        let mut group = empty;
        group.set_field_by_name("name", text(loaded.name.as_str()));
        groups.push(Value::Message(group));
    }
    let only = groups.len() == 1;
    let all = i32::try_from(loaded.instance_count().get()).unwrap_or(i32::MAX);
    for (index, group) in groups.iter_mut().filter_map(Value::as_message_mut).enumerate() {
        fill(group, "name", text(&format!("{}_{index}", loaded.name)));
        fill(group, "count", Value::I32(if only { all } else { 1 }));
        let kind = group.get_field_by_name("kind").and_then(|kind| kind.as_enum_number());
        if kind.is_none_or(|kind| kind == KIND_AUTO) {
            group.set_field_by_name("kind", Value::EnumNumber(KIND_CPU));
        }
    }
}
