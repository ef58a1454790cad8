//! Fields that are accepted and have no effect here: of other backends, of GPUs, or about what Airlock does elsewhere.
//! They are named in one warning, each once, and held to Triton's rules where it has some.

use std::collections::BTreeMap;

use super::block::Block;
use super::{Rules, parameters};

/// By message type: the fields without effect.
const IGNORED: [(&str, &[&str]); 4] = [
    ("ModelConfig", &["runtime", "cc_model_filenames", "model_transaction_policy"]),
    ("ModelInput", &["format"]),
    ("ModelInstanceGroup", &["profile", "passive", "secondary_devices", "host_policy"]),
    (
        "ModelOptimizationPolicy",
        &[
            "priority",
            "cuda",
            "input_pinned_memory",
            "output_pinned_memory",
            "gather_kernel_buffer_threshold",
            "eager_batching",
        ],
    ),
];

pub(super) fn warn(root: &Block<'_>, rules: &mut Rules<'_, '_>) {
    // Of a configuration that is refused nothing is accepted.
    if rules.report.has_errors() {
        return;
    }
    let mut found = BTreeMap::new();
    collect(root, "", &mut found);
    parameters::find_ignored(root, &mut found);
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
