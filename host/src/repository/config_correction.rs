//! What to write instead where a configuration and its model file disagree: the fields of `config.pbtxt` that would make
//! the model load, ready to be pasted. Made from the file's inputs and outputs, with all that was declared and fits.

use std::fmt;

use model::{AutoComplete, Declaration, FileTensors, ModelConfig, TensorConfig, WarmupSample};
use prost_reflect::{DynamicMessage, Value};

use super::declared_config::{ConfigDocument, DeclaredConfig};

/// A disagreement and the fields that settle it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    problem: String,
    fields: Vec<FieldText>,
    /// Fields that nothing is left for.
    dropped: Vec<&'static str>,
}

/// A field in protobuf text: `head`, or a list of blocks with that head.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldText {
    head: String,
    elements: Vec<String>,
}

impl Correction {
    /// The correction of `declared`, whose disagreements with `file` are `problems`. `None` where declaring other batch
    /// sizes and tensors would not help.
    #[must_use]
    pub fn of(declared: &DeclaredConfig, problems: &[String], file: &FileTensors) -> Option<Self> {
        let config = &declared.model;
        let fitted = config.fitted(file);
        let completion_is_enough = completion_fits(config, &fitted, file);
        let mut fields = Vec::new();
        if fitted.max_batch_size != config.max_batch_size {
            fields.push(FieldText { head: format!("max_batch_size: {}", fitted.max_batch_size), elements: Vec::new() });
        }
        let sides = [("input", &fitted.inputs, &config.inputs), ("output", &fitted.outputs, &config.outputs)];
        for (side, tensors, own) in sides {
            let differs = tensors != own || side == "input" && has_needed_optional_input(config, file);
            let is_completed = own.is_empty() && completion_is_enough;
            if differs && !is_completed {
                let written = |tensor: &TensorConfig| written(tensor, side, &declared.document);
                let elements = tensors.iter().map(|tensor| element(tensor, written(tensor), file)).collect();
                fields.push(FieldText { head: side.to_owned(), elements });
            }
        }
        if fields.is_empty() {
            return None;
        }
        let repeated = repeated_batch_dims(config, &fitted);
        let problem = problems.iter().cloned().chain(repeated).collect::<Vec<_>>().join("; ");
        Some(Self { problem, fields, dropped: dropped(declared, &fitted, file) })
    }

    /// What disagrees.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// The fields to write, in place of those of the same names, as lines of protobuf text.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for FieldText { head, elements } in &self.fields {
            if elements.is_empty() {
                lines.push(head.clone());
                continue;
            }
            lines.push(format!("{head} ["));
            let last = elements.len() - 1;
            lines.extend(
                elements
                    .iter()
                    .enumerate()
                    .map(|(index, element)| format!("  {element}{}", if index == last { "" } else { "," })),
            );
            lines.push("]".to_owned());
        }
        lines.extend(self.dropped.iter().map(|field| format!("# leave out {field}")));
        lines
    }
}

/// The problem and the fields in one line, for the log and for answers.
impl fmt::Display for Correction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fix: write", self.problem)?;
        for FieldText { head, elements } in &self.fields {
            write!(f, " {head}")?;
            if !elements.is_empty() {
                write!(f, " [ {} ]", elements.join(", "))?;
            }
        }
        for field in &self.dropped {
            write!(f, ", and leave out {field}")?;
        }
        f.write_str(")")
    }
}

/// Whether an input is declared as optional that the file has no value for.
fn has_needed_optional_input(config: &ModelConfig, file: &FileTensors) -> bool {
    config.optional_inputs.iter().any(|name| !file.optional.iter().any(|spec| spec.name == *name))
}

/// Whether sides that are not declared may stay so: completion makes of them what is fitted, or is off.
fn completion_fits(config: &ModelConfig, fitted: &Declaration, file: &FileTensors) -> bool {
    let side = |own: &[TensorConfig], right: &[TensorConfig]| if own.is_empty() { Vec::new() } else { right.to_vec() };
    let mut written = ModelConfig {
        max_batch_size: fitted.max_batch_size,
        inputs: side(&config.inputs, &fitted.inputs),
        outputs: side(&config.outputs, &fitted.outputs),
        ..config.clone()
    };
    let completed = written.complete(file).is_ok();
    let becomes =
        Declaration { max_batch_size: written.max_batch_size, inputs: written.inputs, outputs: written.outputs };
    config.auto_complete == AutoComplete::Off || completed && becomes == *fitted
}

/// Declared tensors whose dims begin with the batch dimension, which `max_batch_size` adds by itself.
fn repeated_batch_dims(config: &ModelConfig, fitted: &Declaration) -> Vec<String> {
    let sides = [("input", &config.inputs, &fitted.inputs), ("output", &config.outputs, &fitted.outputs)];
    let repeats = |own: &&TensorConfig, right: &[TensorConfig]| {
        let right = right.iter().find(|tensor| tensor.name == own.name)?;
        let (_, rest) = own.dims.split_first()?;
        let are_plain = own.reshape.is_none() && right.reshape.is_none();
        (fitted.max_batch_size > 0 && are_plain && rest == right.dims).then(|| right.dims.clone())
    };
    let told = |side: &str, own: &TensorConfig, dims: &[i64]| {
        let name = &own.name;
        format!(
            "{side} '{name}': dims repeats the batch dimension, which max_batch_size adds; write {}",
            dims_text(dims)
        )
    };
    sides
        .into_iter()
        .flat_map(|(side, own, right)| {
            own.iter().filter_map(move |tensor| Some(told(side, tensor, &repeats(&tensor, right)?)))
        })
        .collect()
}

fn dropped(declared: &DeclaredConfig, fitted: &Declaration, file: &FileTensors) -> Vec<&'static str> {
    let batches_no_more = fitted.max_batch_size == 0 && declared.model.max_batch_size > 0;
    let mut dropped = Vec::new();
    if batches_no_more && declared.document.0.has_field_by_name("dynamic_batching") {
        dropped.push("dynamic_batching");
    }
    if declared.model.warmup.iter().any(|sample| !warms_up(sample, fitted, file)) {
        dropped.push("model_warmup");
    }
    dropped
}

/// Whether a warm-up sample is one of the fitted inputs.
fn warms_up(sample: &WarmupSample, fitted: &Declaration, file: &FileTensors) -> bool {
    let may_be_left_out = |declared: &TensorConfig| file.optional.iter().any(|spec| spec.name == declared.name);
    let is_known = |name: &str| fitted.inputs.iter().any(|declared| *declared.name == *name);
    let fits = |declared: &TensorConfig| {
        let given = sample.inputs.iter().find(|input| input.name == declared.name);
        given.map_or_else(
            || may_be_left_out(declared),
            |input| {
                let same = |(&own, &given): (&i64, &u64)| own == -1 || u64::try_from(own) == Ok(given);
                let dims_fit =
                    input.dims.len() == declared.dims.len() && declared.dims.iter().zip(&input.dims).all(same);
                input.data_type == declared.data_type && dims_fit
            },
        )
    };
    sample.batch_size <= fitted.max_batch_size.max(1)
        && sample.inputs.iter().all(|input| is_known(&input.name))
        && fitted.inputs.iter().all(fits)
}

/// One tensor as a block of protobuf text, with what else was `written` of it.
fn element(tensor: &TensorConfig, written: Option<DynamicMessage>, file: &FileTensors) -> String {
    let mut parts = vec![
        format!("name: {}", quoted(&tensor.name)),
        format!("data_type: {}", tensor.data_type.config_name()),
        dims_text(&tensor.dims),
    ];
    if let Some(shape) = &tensor.reshape {
        parts.push(format!("reshape {{ shape: {} }}", list_text(shape)));
    }
    if let Some(written) = written {
        let is_optional = written.get_field_by_name("optional").and_then(|flag| flag.as_bool()).unwrap_or(false);
        if is_optional && file.optional.iter().any(|spec| spec.name == tensor.name) {
            parts.push("optional: true".to_owned());
        }
        let format = written.get_field_by_name("format").and_then(|format| format.as_enum_number());
        let name = ["FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"].get(usize::try_from(format.unwrap_or(0)).unwrap_or(0));
        if let Some(name) = name.filter(|name| **name != "FORMAT_NONE" && tensor.dims.len() == 3) {
            parts.push(format!("format: {name}"));
        }
        if let Some(file) = written.get_field_by_name("label_filename").filter(|file| file.as_str() != Some("")) {
            parts.push(format!("label_filename: {}", quoted(file.as_str().unwrap_or_default())));
        }
    }
    format!("{{ {} }}", parts.join(" "))
}

/// The block in which a tensor is declared, if it is.
fn written(tensor: &TensorConfig, side: &str, document: &ConfigDocument) -> Option<DynamicMessage> {
    let blocks = document.0.get_field_by_name(side)?;
    let mut blocks = blocks.as_list()?.iter().filter_map(Value::as_message);
    let has_name = |block: &&DynamicMessage| {
        block.get_field_by_name("name").is_some_and(|name| name.as_str() == Some(&*tensor.name))
    };
    blocks.find(has_name).cloned()
}

fn dims_text(dims: &[i64]) -> String {
    format!("dims: {}", list_text(dims))
}

fn list_text(dims: &[i64]) -> String {
    let dims: Vec<_> = dims.iter().map(ToString::to_string).collect();
    if dims.is_empty() { "[ ]".to_owned() } else { format!("[ {} ]", dims.join(", ")) }
}

/// A string of protobuf text.
fn quoted(text: &str) -> String {
    let escaped = text.chars().fold(String::new(), |mut escaped, c| {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            c => escaped.push(c),
        }
        escaped
    });
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests;
