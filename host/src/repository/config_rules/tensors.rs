//! `input` and `output`: names, types and dimensions, as Triton checks them, and what of them Airlock cannot serve.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{AutoComplete, Backend, DataType, ModelConfig, TensorConfig};

use super::Rules;
use super::block::Block;

#[derive(Clone, Copy)]
pub(super) enum Side {
    Input,
    Output,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// The names of the declared inputs that have this flag.
pub(super) fn flagged(root: &Block<'_>, flag: &str) -> BTreeSet<Arc<str>> {
    let blocks = root.blocks(Side::Input.field());
    blocks.iter().filter(|block| block.flag(flag)).map(|block| block.text("name").into()).collect()
}

pub(super) fn read(root: &Block<'_>, side: Side, rules: &mut Rules<'_, '_>) -> Vec<TensorConfig> {
    let mut names = BTreeSet::new();
    let mut tensors = Vec::new();
    for block in root.blocks(side.field()) {
        let name = block.text("name");
        if !name.is_empty() && !names.insert(name) {
            let message = format!("{} '{name}' is declared twice for {}", side.field(), rules.model);
            rules.refuse(&block, "name", message, "remove one of them".to_owned());
        }
        tensors.extend(read_one(&block, side, rules));
    }
    tensors
}

/// Refuses a configuration that leaves a side to the model file, where nothing is taken from it.
pub(super) fn check_declared(root: &Block<'_>, config: &ModelConfig, rules: &mut Rules<'_, '_>) {
    if rules.defaults.auto_complete != AutoComplete::Off || config.backend != Backend::OnnxRuntime {
        return;
    }
    for side in [Side::Input, Side::Output] {
        let field = side.field();
        if !root.has(field) {
            let message =
                format!("model {} declares no {field}, and nothing is taken from the model file", rules.model);
            let fix = format!("declare every {field}, or leave --disable-auto-complete-config out");
            rules.refuse(root, field, message, fix);
        }
    }
}

fn read_one(block: &Block<'_>, side: Side, rules: &mut Rules<'_, '_>) -> Option<TensorConfig> {
    let name = block.text("name");
    let model = rules.model.clone();
    let dims: Vec<i64> = block.integers("dims").into_iter().filter_map(|dim| i64::try_from(dim).ok()).collect();
    if name.is_empty() {
        let message = format!("model {} must specify 'name' for {model}", side.field());
        rules.refuse(block, "name", message, None);
    }
    let subject = format!("model {} '{name}'", side.field());
    let data_type = block.enum_name("data_type").and_then(|name| DataType::from_config_name(&name));
    if data_type.is_none() {
        let message = format!("{subject} must specify 'data_type' for {model}");
        rules.refuse(block, "data_type", message, "write data_type: TYPE_FP32, or the type it has".to_owned());
    }
    if dims.is_empty() {
        let message = format!("{subject} must specify 'dims' for {model}");
        let fix = "list the dimensions without the batch dimension; -1 where free".to_owned();
        rules.refuse(block, "dims", message, fix);
    }
    if let Some(dim) = dims.iter().find(|&&dim| dim < 1 && dim != -1) {
        let rule = "dimension must be integer >= 1, or -1 to indicate a variable-size dimension";
        rules.refuse(block, "dims", format!("{subject} {rule} for {model}"), format!("replace {dim}"));
    }
    let reshape = read_reshape(block, &dims, &subject, rules);
    check_platform(block, rules);
    if let Side::Input = side {
        check_input(block, &dims, rules);
    }
    Some(TensorConfig { name: name.into(), data_type: data_type?, dims, reshape })
}

/// The model's own dimensions, where they are given and may be.
fn read_reshape(block: &Block<'_>, dims: &[i64], subject: &str, rules: &mut Rules<'_, '_>) -> Option<Vec<i64>> {
    let reshape = block.block("reshape")?;
    let shape: Vec<i64> = reshape.integers("shape").into_iter().filter_map(|dim| i64::try_from(dim).ok()).collect();
    let rule = if shape.is_empty() && !rules.batches {
        Some("cannot have empty reshape for non-batching model as scalar tensors are not supported")
    } else if shape.iter().any(|&dim| dim < 1 && dim != -1) {
        Some("reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension")
    } else {
        reshape_rule(dims, &shape)
    };
    let Some(rule) = rule else { return Some(shape) };
    let message = format!("{subject} {rule} for {}", rules.model);
    rules.refuse(block, "reshape", message, None);
    None
}

/// The rule that `shape` breaks as another way to see `dims`: the same free dimensions, in order, and as many elements
/// between them.
fn reshape_rule(dims: &[i64], shape: &[i64]) -> Option<&'static str> {
    const SIZE: &str = "has different size for dims and reshape";
    let products = |dims: &[i64]| -> Vec<Option<i64>> {
        let parts = dims.split(|dim| *dim == -1);
        parts.map(|part| part.iter().try_fold(1_i64, |product, &dim| product.checked_mul(dim))).collect()
    };
    let (dims, shape) = (products(dims), products(shape));
    match (dims.len(), shape.len()) {
        (1, 2..) | (2.., 1) => Some(SIZE),
        (a, b) if a != b => Some("has different number of variable-size dimensions for dims and reshape"),
        _ => (dims != shape).then_some(SIZE),
    }
}

/// What only TensorRT has.
fn check_platform(block: &Block<'_>, rules: &mut Rules<'_, '_>) {
    let rules_of_platform = [
        ("is_shape_tensor", "shape tensors are only supported for TensorRT platform"),
        ("is_non_linear_format_io", "Non-linear IO format is only supported for the TensorRT platform"),
    ];
    for (field, message) in rules_of_platform {
        if block.flag(field) {
            rules.refuse(block, field, message, format!("leave {field} out"));
        }
    }
}

fn check_input(block: &Block<'_>, dims: &[i64], rules: &mut Rules<'_, '_>) {
    let (model, name) = (rules.model.clone(), block.text("name"));
    if block.integer("format") != 0 && dims.len() != 3 {
        let message = format!("model input NHWC/NCHW require 3 dims for {model}");
        rules.refuse(block, "format", message, "leave format out".to_owned());
    }
    if block.flag("optional") && rules.batches {
        let message = format!(
            "unable to load model '{model}', optional input '{name}' is not supported for models that support batching"
        );
        let fix = "leave the input out, so that the model uses the value in its file, or leave optional out".to_owned();
        rules.refuse(block, "optional", message, fix);
    }
}
