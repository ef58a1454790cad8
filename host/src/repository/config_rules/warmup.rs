//! `model_warmup`: requests to run on every instance before it serves, with their data from `warmup/` beside the file.

use std::io;
use std::path::Path;

use bytes::Bytes;
use model::{DataType, ModelConfig, Tensor, WarmupData, WarmupInput, WarmupSample, element_count};

use super::super::regular;
use super::block::Block;
use super::{Rules, stays_inside};

/// Most bytes of one warm-up data file.
const WARMUP_FILE_BYTES_MAX: u64 = 256 << 20;
/// Most warm-up samples of a model.
const SAMPLES_MAX: usize = 64;
/// Most runs of one sample.
const RUNS_MAX: u32 = 10_000;
/// Most rows of a sample where the configuration leaves the batch size to the file.
const ROWS_MAX: u32 = 65_536;

pub(super) fn read(root: &Block<'_>, config: &ModelConfig, rules: &mut Rules<'_, '_>) -> Vec<WarmupSample> {
    let blocks = root.blocks("model_warmup");
    if blocks.len() > SAMPLES_MAX {
        let message = format!("{} warm-up samples; a model has at most {SAMPLES_MAX}", blocks.len());
        rules.refuse(root, "model_warmup", message, None);
        return Vec::new();
    }
    let (asleep, samples): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.integer("batch_size") == 0);
    for block in asleep {
        // As in Triton.
        let message =
            format!("warm-up sample '{}' has batch_size 0 and does not run; write 1 or more", block.text("name"));
        rules.report.warning(block.own_at(), block.path("batch_size"), message);
    }
    samples.into_iter().map(|block| sample(block, config, rules)).collect()
}

fn sample(block: &Block<'_>, config: &ModelConfig, rules: &mut Rules<'_, '_>) -> WarmupSample {
    let left_to_file = config.max_batch_size == 0 && config.inputs.is_empty() && config.outputs.is_empty();
    let rows_max = if left_to_file { ROWS_MAX } else { config.max_batch_size.max(1) };
    let batch_size = bounded(block, ("batch_size", 1, rows_max), rules);
    let count = if block.has("count") { bounded(block, ("count", 1, RUNS_MAX), rules) } else { 1 };
    let entries = block.entries("inputs");
    check_complete(block, &entries, config, rules);
    let inputs = entries.iter().filter_map(|(name, input)| input_of(name, input, config, rules)).collect();
    WarmupSample { name: block.text("name").to_owned(), batch_size, inputs, count }
}

fn bounded(block: &Block<'_>, (field, min, max): (&str, u32, u32), rules: &mut Rules<'_, '_>) -> u32 {
    let value = block.integer(field);
    let fits = u32::try_from(value).ok().filter(|value| (min..=max).contains(value));
    fits.unwrap_or_else(|| {
        rules.refuse(block, field, format!("{field} is {value}; it must be from {min} to {max}"), None);
        min
    })
}

/// Every declared input must be there that no request may leave out: the engine runs nothing less.
fn check_complete(block: &Block<'_>, inputs: &[(String, Block<'_>)], config: &ModelConfig, rules: &mut Rules<'_, '_>) {
    for declared in config.inputs.iter().filter(|input| !config.optional_inputs.contains(&input.name)) {
        if !inputs.iter().any(|(name, _)| **name == *declared.name) {
            let message = format!("warm-up sample '{}' leaves out input '{}'", block.text("name"), declared.name);
            rules.refuse(block, "inputs", message, format!("add it: inputs {{ key: \"{}\" … }}", declared.name));
        }
    }
}

fn input_of(name: &str, block: &Block<'_>, config: &ModelConfig, rules: &mut Rules<'_, '_>) -> Option<WarmupInput> {
    let data_type = block.enum_name("data_type").and_then(|name| DataType::from_config_name(&name));
    let dims: Option<Vec<u64>> = block.integers("dims").into_iter().map(|dim| u64::try_from(dim).ok()).collect();
    if data_type.is_none() {
        rules.refuse(block, "data_type", format!("warm-up input '{name}' must specify 'data_type'"), None);
    }
    if dims.is_none() {
        let message = format!("warmup setting expects all variable-size dimensions are specified for input '{name}'");
        rules.refuse(block, "dims", message, "replace -1 by the size to warm up with".to_owned());
    }
    let (data_type, dims) = (data_type?, dims?);
    check_declared(name, data_type, (block, config), rules);
    let data = data_of(name, (data_type, &dims), block, rules)?;
    Some(WarmupInput { name: name.into(), data_type, dims, data })
}

fn check_declared(
    name: &str,
    data_type: DataType,
    (block, config): (&Block<'_>, &ModelConfig),
    rules: &mut Rules<'_, '_>,
) {
    if config.inputs.is_empty() {
        return;
    }
    match config.inputs.iter().find(|declared| &*declared.name == name) {
        None => {
            let names: Vec<_> = config.inputs.iter().map(|declared| &*declared.name).collect();
            let message = format!("'{name}' is not an input of the model, which has {}", names.join(", "));
            rules.report.error(block.own_at(), block.own_path(), message, None);
        }
        Some(declared) if declared.data_type != data_type => {
            let (got, expected) = (data_type.config_name(), declared.data_type.config_name());
            let message = format!("warm-up input '{name}' is {got}, but the model's input is {expected}");
            rules.refuse(block, "data_type", message, format!("write data_type: {expected}"));
        }
        Some(_) => {}
    }
}

fn data_of(
    name: &str,
    (data_type, dims): (DataType, &[u64]),
    block: &Block<'_>,
    rules: &mut Rules<'_, '_>,
) -> Option<WarmupData> {
    const FIELD: &str = "input_data_file";
    if block.has("zero_data") {
        return Some(WarmupData::Zero);
    }
    if block.has("random_data") {
        // As in Triton, random strings are empty ones.
        return Some(if data_type == DataType::Bytes { WarmupData::Zero } else { WarmupData::Random });
    }
    if !block.has(FIELD) {
        let message = format!("warmup setting expects input '{name}' to have input_data_type set");
        let fix = "add zero_data: true, random_data: true or input_data_file: \"…\"".to_owned();
        rules.report.error(block.own_at(), block.own_path(), message, fix);
        return None;
    }
    let file = block.text(FIELD);
    if !stays_inside(file) {
        let fix = "name a file inside it".to_owned();
        rules.refuse(block, FIELD, format!("'{file}' leaves the model's warmup folder"), fix);
        return None;
    }
    let folder = rules.dir.join("warmup");
    let row = read_file(&folder.join(file)).and_then(|bytes| one_row(name, (data_type, dims), (file, bytes)));
    row.map_err(|message| rules.refuse(block, FIELD, message, None)).ok().map(WarmupData::Given)
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let shown = |error: io::Error| format!("cannot read '{}': {error}", path.display());
    let bytes = regular::read_up_to(path, WARMUP_FILE_BYTES_MAX).map_err(shown)?;
    if bytes.len() as u64 > WARMUP_FILE_BYTES_MAX {
        return Err(format!("'{}' is larger than {WARMUP_FILE_BYTES_MAX} bytes", path.display()));
    }
    Ok(bytes)
}

/// The bytes of one row; a file may hold more, as in Triton.
fn one_row(name: &str, (data_type, dims): (DataType, &[u64]), (file, bytes): (&str, Vec<u8>)) -> Result<Bytes, String> {
    let count = element_count(dims).ok_or_else(|| format!("warm-up input '{name}' has too many elements"))?;
    let mut bytes = Bytes::from(bytes);
    if let Some(size) = data_type.element_size() {
        let expected = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size);
        if bytes.len() < expected {
            return Err(format!(
                "warmup setting expects {expected} bytes, but the data provided from {file}only has {} bytes",
                bytes.len()
            ));
        }
        bytes.truncate(expected);
    }
    let tensor = Tensor::new(name.into(), data_type, dims.to_vec(), bytes).map_err(|error| error.to_string())?;
    Ok(tensor.into_parts().3)
}

#[cfg(test)]
mod tests;
