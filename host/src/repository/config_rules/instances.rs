//! `instance_group`: how many executors, and what each takes from the server's resources. Devices are checked; everything
//! runs on the CPU. Where nothing is said there is one executor, and not Triton's two for ONNX Runtime on the CPU: an
//! executor is a slot on a session that all share, and batches grow while it is busy.

use std::num::NonZeroUsize;

use model::{InstanceGroup, RateResource};

use super::block::Block;
use super::{Rules, rate_limit};

/// Most instances of one model version, all groups together.
const INSTANCES_MAX: usize = 1024;

pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> Vec<InstanceGroup> {
    let blocks = root.blocks("instance_group");
    if blocks.is_empty() {
        return vec![InstanceGroup::named(rules.model.as_str())];
    }
    let groups: Vec<_> = blocks.iter().enumerate().map(|(index, block)| group(block, index, rules)).collect();
    let total = groups.iter().map(|group| group.count.get()).fold(0, usize::saturating_add);
    if total > INSTANCES_MAX {
        let message = format!("{total} instances in all; a model version has at most {INSTANCES_MAX}");
        rules.refuse(root, "instance_group", message, None);
    }
    check_resources(&blocks, &groups, rules);
    groups
}

fn group(block: &Block<'_>, index: usize, rules: &mut Rules<'_, '_>) -> InstanceGroup {
    let own_name = block.text("name");
    let name = if own_name.is_empty() { format!("{}_{index}", rules.model) } else { own_name.to_owned() };
    let subject = format!("instance group {name} of model {}", rules.model);
    check_device(block, &subject, rules);
    let count = count(block, &subject, rules);
    InstanceGroup { name, count, rate_limit: rate_limit::limit(block, rules) }
}

fn count(block: &Block<'_>, subject: &str, rules: &mut Rules<'_, '_>) -> NonZeroUsize {
    let count = block.integer("count");
    if count < 0 {
        let message = format!("{subject} has count {count}; it must be from 1 to {INSTANCES_MAX}");
        rules.refuse(block, "count", message, "write count: 1".to_owned());
    }
    usize::try_from(count).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

fn check_device(block: &Block<'_>, subject: &str, rules: &mut Rules<'_, '_>) {
    let has_gpus = !block.integers("gpus").is_empty();
    let cpu = || Some("write kind: KIND_CPU and leave gpus out".to_owned());
    match block.enum_name("kind").as_deref() {
        None => {
            let message = format!("{} is not a kind of instance group", block.integer("kind"));
            rules.refuse(block, "kind", message, cpu());
        }
        Some("KIND_GPU") => {
            let message = format!("{subject} has kind KIND_GPU but no GPUs are available");
            rules.refuse(block, "kind", message, cpu());
        }
        Some(kind) if has_gpus => {
            // Without GPUs, KIND_AUTO means KIND_CPU.
            let kind = if kind == "KIND_AUTO" { "KIND_CPU" } else { kind };
            let message = format!("{subject} has kind {kind} but specifies one or more GPUs");
            rules.refuse(block, "gpus", message, "leave gpus out".to_owned());
        }
        Some(_) => {}
    }
}

/// A resource is counted either over the server or on each device, in all groups of a model alike.
fn check_resources(blocks: &[Block<'_>], groups: &[InstanceGroup], rules: &mut Rules<'_, '_>) {
    let mut seen: Vec<&RateResource> = Vec::new();
    for (block, group) in blocks.iter().zip(groups) {
        for resource in &group.rate_limit.resources {
            match seen.iter().find(|earlier| earlier.name == resource.name) {
                Some(earlier) if earlier.scope != resource.scope => {
                    let message = format!(
                        "Resource \"{}\" is present as both global and device-specific resource in the model configuration.",
                        resource.name
                    );
                    rules.refuse(
                        block,
                        "rate_limiter",
                        message,
                        "write global: true in both places, or in none".to_owned(),
                    );
                }
                _ => seen.push(resource),
            }
        }
    }
}

#[cfg(test)]
mod tests;
