//! `optimization.execution_accelerators`: which there are, and which parameters they take. The texts are Triton's. Whether
//! the loaded ONNX Runtime has them is found out when the model loads.

use model::Accelerator;

use super::super::problem::did_you_mean;
use super::Rules;
use super::block::Block;

pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> Vec<Accelerator> {
    let optimization = root.block("optimization");
    let Some(block) = optimization.and_then(|optimization| optimization.block("execution_accelerators")) else {
        return Vec::new();
    };
    let mut accelerators = Vec::new();
    for (field, known) in [
        ("gpu_execution_accelerator", &[Accelerator::TensorRt, Accelerator::Cuda][..]),
        ("cpu_execution_accelerator", &[Accelerator::OpenVino]),
    ] {
        for block in block.blocks(field) {
            let accelerator = accelerator(&block, known, rules);
            accelerators.extend(accelerator.filter(|accelerator| !accelerators.contains(accelerator)));
        }
    }
    accelerators
}

fn accelerator(block: &Block<'_>, known: &[Accelerator], rules: &mut Rules<'_, '_>) -> Option<Accelerator> {
    let name = block.text("name");
    let Some(&accelerator) = known.iter().find(|accelerator| accelerator.config_name() == name) else {
        let names: Vec<_> = known.iter().map(|accelerator| accelerator.config_name()).collect();
        let fix = format!("write {} here, or remove the accelerator", names.join(" or "));
        rules.refuse(block, "name", format!("unknown Execution Accelerator '{name}' is requested"), fix);
        return None;
    };
    for (key, value, _) in block.text_entries("parameters") {
        let problem = match accelerator {
            Accelerator::TensorRt => tensorrt_problem(key, value),
            Accelerator::Cuda => cuda_problem(key, value),
            Accelerator::OpenVino => {
                let message = format!("unknown parameter '{key}' is provided for OpenVINO Execution Accelerator");
                Some((message, "remove it: openvino takes no parameters".to_owned()))
            }
        };
        if let Some((message, fix)) = problem {
            rules.refuse(block, "parameters", message, fix);
        }
    }
    Some(accelerator)
}

/// What a parameter's value must be.
#[derive(Clone, Copy)]
enum Value {
    Text,
    Flag,
    Integer,
    Unsigned,
}

impl Value {
    /// What is wrong with a value of this kind, in Triton's words, and what to do.
    fn problem(self, key: &str, value: &str) -> Option<(String, String)> {
        let (fits, what) = match self {
            Self::Text => (true, ""),
            Self::Flag => (matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "1" | "0"), "boolean"),
            Self::Integer => (value.parse::<i32>().is_ok(), "integral number"),
            Self::Unsigned => (value.parse::<u64>().is_ok(), "unsigned long long integral number"),
        };
        let fix = match self {
            Self::Flag => "write \"true\" or \"false\"",
            _ => "write a whole number in quotes",
        };
        (!fits).then(|| (format!("failed to convert '{value}' to {what} for parameter '{key}'"), fix.to_owned()))
    }
}

/// The parameters of `tensorrt` beside `precision_mode`.
const TENSORRT: [(&str, Value); 30] = [
    ("int8_calibration_table_name", Value::Text),
    ("int8_use_native_calibration_table", Value::Flag),
    ("max_workspace_size_bytes", Value::Unsigned),
    ("trt_auxiliary_streams", Value::Integer),
    ("trt_build_heuristics_enable", Value::Flag),
    ("trt_builder_optimization_level", Value::Integer),
    ("trt_context_memory_sharing_enable", Value::Flag),
    ("trt_cuda_graph_enable", Value::Flag),
    ("trt_detailed_build_log", Value::Flag),
    ("trt_dla_core", Value::Integer),
    ("trt_dla_enable", Value::Flag),
    ("trt_dump_ep_context_model", Value::Flag),
    ("trt_dump_subgraphs", Value::Flag),
    ("trt_engine_cache_enable", Value::Flag),
    ("trt_engine_cache_path", Value::Text),
    ("trt_engine_cache_prefix", Value::Text),
    ("trt_ep_context_embed_mode", Value::Integer),
    ("trt_ep_context_file_path", Value::Text),
    ("trt_force_sequential_engine_build", Value::Flag),
    ("trt_force_timing_cache", Value::Flag),
    ("trt_layer_norm_fp32_fallback", Value::Flag),
    ("trt_max_partition_iterations", Value::Integer),
    ("trt_min_subgraph_size", Value::Integer),
    ("trt_profile_max_shapes", Value::Text),
    ("trt_profile_min_shapes", Value::Text),
    ("trt_profile_opt_shapes", Value::Text),
    ("trt_sparsity_enable", Value::Flag),
    ("trt_tactic_sources", Value::Text),
    ("trt_timing_cache_enable", Value::Flag),
    ("trt_timing_cache_path", Value::Text),
];

const PRECISION_MODES: [&str; 4] = ["FP32", "FP16", "BF16", "INT8"];

fn tensorrt_problem(key: &str, value: &str) -> Option<(String, String)> {
    if key == "trt_extra_plugin_lib_paths" {
        let message = format!("'{key}' names native code from the repository, which is never loaded");
        return Some((message, "remove it".to_owned()));
    }
    if key == "precision_mode" {
        let fix = || format!("write one of {}", PRECISION_MODES.join(", "));
        return (!PRECISION_MODES.contains(&value))
            .then(|| (format!("unsupported precision mode '{value}' is requested"), fix()));
    }
    let names = || TENSORRT.iter().map(|(name, _)| *name).chain(["precision_mode"]);
    match TENSORRT.iter().find(|(name, _)| *name == key) {
        Some((_, kind)) => kind.problem(key, value),
        None => {
            let message = format!("unknown parameter '{key}' is provided for TensorRT Execution Accelerator");
            Some((message, did_you_mean(key, names()).unwrap_or_else(|| "remove it".to_owned())))
        }
    }
}

/// Whatever else there is goes to the provider, which knows its own options.
fn cuda_problem(key: &str, value: &str) -> Option<(String, String)> {
    matches!(key, "do_copy_in_default_stream" | "use_ep_level_unified_stream")
        .then(|| Value::Flag.problem(key, value))
        .flatten()
}

#[cfg(test)]
mod tests;
