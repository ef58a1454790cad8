//! `instance_group`: how many executors. Devices are checked; everything runs on the CPU.

use std::num::NonZeroUsize;

use super::Rules;
use super::block::Block;

/// Most instances of one model version, all groups together.
pub(super) const INSTANCES_MAX: i128 = 1024;

pub(super) fn count(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> NonZeroUsize {
    let groups = root.blocks("instance_group");
    let total = groups.iter().enumerate().map(|(index, group)| group_count(group, index, rules)).sum::<i128>();
    if total > INSTANCES_MAX {
        let message = format!("{total} instances in all; a model version has at most {INSTANCES_MAX}");
        rules.refuse(root, "instance_group", message, None);
    }
    usize::try_from(total).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

fn group_count(group: &Block<'_>, index: usize, rules: &mut Rules<'_, '_>) -> i128 {
    let model = rules.model.clone();
    let own_name = group.text("name");
    let name = if own_name.is_empty() { format!("{model}_{index}") } else { own_name.to_owned() };
    let subject = format!("instance group {name} of model {model}");
    check_device(group, &subject, rules);
    match group.integer("count") {
        0 => 1,
        count if count < 0 => {
            let message = format!("{subject} has count {count}; it must be from 1 to {INSTANCES_MAX}");
            rules.refuse(group, "count", message, "write count: 1".to_owned());
            1
        }
        count => count,
    }
}

fn check_device(group: &Block<'_>, subject: &str, rules: &mut Rules<'_, '_>) {
    let has_gpus = !group.integers("gpus").is_empty();
    let cpu = || Some("write kind: KIND_CPU and leave gpus out".to_owned());
    match group.enum_name("kind").as_deref() {
        None => {
            let message = format!("{} is not a kind of instance group", group.integer("kind"));
            rules.refuse(group, "kind", message, cpu());
        }
        Some("KIND_GPU") => {
            let message = format!("{subject} has kind KIND_GPU but no GPUs are available");
            rules.refuse(group, "kind", message, cpu());
        }
        Some("KIND_AUTO") if has_gpus => {
            let message = format!("{subject} has kind KIND_GPU but no GPUs are available");
            rules.refuse(group, "gpus", message, cpu());
        }
        Some(kind) if has_gpus => {
            let message = format!("{subject} has kind {kind} but specifies one or more GPUs");
            rules.refuse(group, "gpus", message, "leave gpus out".to_owned());
        }
        Some(_) => {}
    }
}
