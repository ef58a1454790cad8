//! Fields that are accepted and have no effect here: of other backends, of GPUs, or about what Airlock does elsewhere.
//! They are named in one warning, each once.

use std::collections::BTreeMap;

use super::Rules;
use super::block::Block;

/// By message type: the fields without effect.
const IGNORED: [(&str, &[&str]); 5] = [
    (
        "ModelConfig",
        &[
            "runtime",
            "cc_model_filenames",
            "metric_tags",
            "model_transaction_policy",
            "response_cache",
            "model_metrics",
        ],
    ),
    ("ModelInput", &["format", "is_shape_tensor", "is_non_linear_format_io"]),
    ("ModelOutput", &["label_filename", "is_shape_tensor", "is_non_linear_format_io"]),
    ("ModelInstanceGroup", &["profile", "passive", "secondary_devices", "host_policy"]),
    (
        "ModelOptimizationPolicy",
        &[
            "priority",
            "cuda",
            "execution_accelerators",
            "input_pinned_memory",
            "output_pinned_memory",
            "gather_kernel_buffer_threshold",
            "eager_batching",
        ],
    ),
];

/// ONNX Runtime settings Triton takes from `parameters` and Airlock does not.
const IGNORED_PARAMETERS: [&str; 6] = [
    "arena_extend_strategy",
    "cudnn_conv_algo_search",
    "do_copy_in_default_stream",
    "gpu_mem_limit",
    "memory.enable_memory_arena_shrinkage",
    "session.use_device_allocator_for_initializers",
];

pub(super) fn warn(root: &Block<'_>, rules: &mut Rules<'_, '_>) {
    let mut found = BTreeMap::new();
    collect(root, "", &mut found);
    for (key, parameter) in root.entries("parameters") {
        if IGNORED_PARAMETERS.contains(&key.as_str()) {
            found.insert(format!("parameters.{key}"), parameter.own_at());
        }
    }
    if let Some(first) = found.values().min().copied() {
        let names: Vec<_> = found.into_keys().collect();
        rules.report.warning(first, "", format!("accepted and ignored: {}", names.join(", ")));
    }
}

fn collect(block: &Block<'_>, path: &str, found: &mut BTreeMap<String, Option<usize>>) {
    let type_name = block.type_name();
    let ignored = IGNORED.iter().find(|(name, _)| *name == type_name).map_or(&[][..], |(_, fields)| fields);
    for name in block.set_fields() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if ignored.contains(&name.as_str()) {
            found.entry(path).or_insert_with(|| block.at(&name));
            continue;
        }
        for inner in block.block(&name).into_iter().chain(block.blocks(&name)) {
            collect(&inner, &path, found);
        }
    }
}
