//! `allow_ragged_batch`, `batch_input` and `batch_output`: batches whose requests have different shapes. What the fields
//! name is checked here, and against the model's file when it is loaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{DataType, GeneratedInput, GeneratedKind, ModelConfig, RaggedConfig};

use super::Rules;
use super::block::Block;
use super::tensors;

/// Reads the fields, and checks them against the declared tensors and the padding of `config`.
pub(super) fn read(root: &Block<'_>, config: &ModelConfig, rules: &mut Rules<'_, '_>) -> RaggedConfig {
    let mut ragged = RaggedConfig { inputs: tensors::flagged(root, "allow_ragged_batch"), ..RaggedConfig::default() };
    for block in root.blocks("batch_input") {
        read_input(&block, config, (&mut ragged.generated, rules));
    }
    for block in root.blocks("batch_output") {
        read_output(&block, config, (&mut ragged.scattered, rules));
    }
    check_reshapes(root, &ragged, rules);
    check_company(root, config, &ragged, rules);
    ragged
}

fn read_input(
    block: &Block<'_>,
    config: &ModelConfig,
    (generated, rules): (&mut BTreeMap<Arc<str>, GeneratedInput>, &mut Rules<'_, '_>),
) {
    let kind_name = block.enum_name("kind");
    let kind = kind_name.as_deref().and_then(GeneratedKind::from_config_name);
    if kind.is_none() {
        let kind = block.integer("kind");
        let message = format!("unknown batch input kind '{kind}' for {}", rules.model);
        rules.refuse(block, "kind", message, "write kind: BATCH_ELEMENT_COUNT, or another kind by its name".to_owned());
    }
    let data_type = block.enum_name("data_type").and_then(|name| DataType::from_config_name(&name));
    let data_type = data_type.filter(|data_type| matches!(data_type, DataType::Int32 | DataType::Fp32));
    if data_type.is_none() {
        let message = format!("batch input data type must be TYPE_INT32 or TYPE_FP32 for {}", rules.model);
        rules.refuse(block, "data_type", message, "write data_type: TYPE_INT32, or TYPE_FP32".to_owned());
    }
    let source = read_source(block, ("input", kind_name), config, rules);
    for target in targets(block, "input", rules) {
        if config.inputs.iter().any(|input| input.name == target) {
            let message =
                format!("'{target}' is an input that requests bring, and one of batch_input, for {}", rules.model);
            rules.refuse(block, "target_name", message, format!("leave input '{target}' out: the server generates it"));
        }
        let (Some(kind), Some(data_type), Some(source)) = (kind, data_type, &source) else { continue };
        let input = GeneratedInput { kind, data_type, source: Arc::clone(source) };
        if generated.insert(Arc::clone(&target), input).is_some() {
            let message = format!("target input name '{target}' can only be specified once for {}", rules.model);
            rules.refuse(block, "target_name", message, "remove one of them".to_owned());
        }
    }
}

fn read_output(
    block: &Block<'_>,
    config: &ModelConfig,
    (scattered, rules): (&mut BTreeMap<Arc<str>, Arc<str>>, &mut Rules<'_, '_>),
) {
    let kind = block.enum_name("kind");
    if kind.is_none() {
        let message = format!("unknown batch output kind '{}' for {}", block.integer("kind"), rules.model);
        rules.refuse(block, "kind", message, "write kind: BATCH_SCATTER_WITH_INPUT_SHAPE".to_owned());
    }
    let source = read_source(block, ("output", kind), config, rules);
    for target in targets(block, "output", rules) {
        if !config.outputs.iter().any(|output| output.name == target) {
            let message = format!("unknown target output name '{target}' for {}", rules.model);
            let fix = "declare it as an output, with the dims that a request gets".to_owned();
            rules.refuse(block, "target_name", message, fix);
        }
        let Some(source) = &source else { continue };
        check_rank(block, config, (&target, source), rules);
        if scattered.insert(Arc::clone(&target), Arc::clone(source)).is_some() {
            let message = format!("target output name '{target}' can only be specified once for {}", rules.model);
            rules.refuse(block, "target_name", message, "remove one of them".to_owned());
        }
    }
}

/// The names in `target_name`.
fn targets(block: &Block<'_>, side: &str, rules: &mut Rules<'_, '_>) -> Vec<Arc<str>> {
    let names = block.texts("target_name");
    if names.is_empty() {
        let message = format!("batch {side} must specify 'target_name' for {}", rules.model);
        rules.refuse(block, "target_name", message, format!("name the model's {side}"));
    }
    names.into_iter().map(Arc::from).collect()
}

/// The one name in `source_input`, if the configuration declares it.
fn read_source(
    block: &Block<'_>,
    (side, kind): (&str, Option<String>),
    config: &ModelConfig,
    rules: &mut Rules<'_, '_>,
) -> Option<Arc<str>> {
    let names = block.texts("source_input");
    let &[name] = &names[..] else {
        let (kind, got) = (kind.unwrap_or_default(), names.len());
        let message = format!("batch {side} kind '{kind}' expects 1 source input, got {got} for {}", rules.model);
        rules.refuse(block, "source_input", message, "name one input that requests bring".to_owned());
        return None;
    };
    let source = config.inputs.iter().find(|input| *input.name == *name);
    if source.is_none() {
        let message = format!("unknown source input name '{name}' for {}", rules.model);
        rules.refuse(block, "source_input", message, "declare it as an input, or name one that is".to_owned());
    }
    source.map(|input| Arc::clone(&input.name))
}

/// A free dimension of a scattered output is the source's of the same position.
fn check_rank(
    block: &Block<'_>,
    config: &ModelConfig,
    (output, source): (&Arc<str>, &Arc<str>),
    rules: &mut Rules<'_, '_>,
) {
    let output = config.outputs.iter().find(|tensor| tensor.name == *output);
    let source = config.inputs.iter().find(|tensor| tensor.name == *source);
    let (Some(output), Some(source)) = (output, source) else { return };
    let last_free = output.dims.iter().rposition(|dim| *dim == -1);
    if let Some(position) = last_free.filter(|position| *position >= source.dims.len()) {
        let message = format!(
            "output '{}' is free in its dims[{position}], which source input '{}' does not have, for {}",
            output.name, source.name, rules.model
        );
        rules.refuse(block, "source_input", message, "give the output a size there, or name another input".to_owned());
    }
}

/// Ragged tensors and what is derived from them have one shape only: the one in dims.
fn check_reshapes(root: &Block<'_>, ragged: &RaggedConfig, rules: &mut Rules<'_, '_>) {
    let is_source = |name: &str| {
        let mut sources = ragged.generated.values().map(|input| &input.source).chain(ragged.scattered.values());
        sources.any(|source| **source == *name)
    };
    let inputs = root.blocks("input").into_iter().filter(|block| {
        let name = block.text("name");
        ragged.inputs.contains(name) || is_source(name)
    });
    let outputs = root.blocks("output").into_iter().filter(|block| ragged.scattered.contains_key(block.text("name")));
    for block in inputs.chain(outputs).filter(|block| block.has("reshape")) {
        let message =
            format!("'{}' is part of a ragged batch and has a reshape, for {}", block.text("name"), rules.model);
        rules.refuse(&block, "reshape", message, "leave reshape out, and write the dims of a request".to_owned());
    }
}

/// What does not go together with ragged batches.
fn check_company(root: &Block<'_>, config: &ModelConfig, ragged: &RaggedConfig, rules: &mut Rules<'_, '_>) {
    if ragged.is_empty() {
        return;
    }
    let model = rules.model.clone();
    if !config.padding.is_empty() {
        let message = format!("ragged batches and the parameters airlock.padding do not go together, for {model}");
        rules.refuse(root, "parameters", message, "keep one of the two ways to batch different shapes".to_owned());
    }
    for block in root.blocks("input").iter().filter(|block| block.flag("optional")) {
        let name = block.text("name");
        let message = if ragged.inputs.contains(name) {
            format!(
                "unable to load model '{model}', configuration expects model provides input with shape [-1] for ragged \
                 input '{name}', which is not supported for optional input"
            )
        } else {
            format!("optional input '{name}' and ragged batches do not go together, for {model}")
        };
        rules.refuse(block, "optional", message, "leave optional out".to_owned());
    }
}
