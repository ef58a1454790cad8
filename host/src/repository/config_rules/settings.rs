//! The single-valued fields: batch size, graph optimization, version policy, file name and response cache.

use model::{GraphOptimization, VersionNumber, VersionPolicy};

use super::block::Block;
use super::{Rules, stays_inside};

pub(super) fn max_batch_size(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> u32 {
    u32::try_from(root.integer("max_batch_size")).unwrap_or_else(|_| {
        let message = format!("'max_batch_size' must be non-negative value for {}", rules.model);
        rules.refuse(root, "max_batch_size", message, "write 0 for a model without a batch dimension".to_owned());
        0
    })
}

pub(super) fn graph_optimization(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> GraphOptimization {
    let graph = root.block("optimization").and_then(|optimization| optimization.block("graph"));
    let Some(graph) = graph else { return GraphOptimization::All };
    match graph.integer("level") {
        0 => GraphOptimization::All,
        -1 => GraphOptimization::Basic,
        1 => GraphOptimization::Extended,
        2 => GraphOptimization::Disabled,
        level => {
            let message = format!("level is {level}; it must be -1 (basic), 0 (all), 1 (extended) or 2 (none)");
            rules.refuse(&graph, "level", message, None);
            GraphOptimization::All
        }
    }
}

pub(super) fn version_policy(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> VersionPolicy {
    let Some(policy) = root.block("version_policy") else { return VersionPolicy::Latest(1) };
    if policy.has("all") {
        return VersionPolicy::All;
    }
    if let Some(specific) = policy.block("specific") {
        return VersionPolicy::Specific(versions(&specific, rules));
    }
    let Some(latest) = policy.block("latest") else { return VersionPolicy::Latest(1) };
    let count = u32::try_from(latest.integer("num_versions")).unwrap_or(0);
    if count == 0 {
        let message = "num_versions is 0, which serves nothing; it must be at least 1";
        rules.refuse(&latest, "num_versions", message, "write num_versions: 1".to_owned());
    }
    VersionPolicy::Latest(count)
}

fn versions(specific: &Block<'_>, rules: &mut Rules<'_, '_>) -> Vec<VersionNumber> {
    let given = specific.integers("versions");
    if given.is_empty() {
        let message = "no versions are named, which serves nothing";
        rules.refuse(specific, "versions", message, "write versions: [ 1 ]".to_owned());
    }
    let mut versions = Vec::new();
    for number in given {
        match u64::try_from(number).ok().and_then(VersionNumber::new) {
            Some(version) => versions.push(version),
            None => {
                let message = format!("{number} is not a version; versions are numbered from 1");
                rules.refuse(specific, "versions", message, None);
            }
        }
    }
    versions
}

pub(super) fn model_filename(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> String {
    const FIELD: &str = "default_model_filename";
    let name = root.text(FIELD);
    if name.is_empty() {
        return "model.onnx".to_owned();
    }
    if !stays_inside(name) {
        let message = format!("'{name}' leaves the version's folder");
        rules.refuse(root, FIELD, message, "name a file inside it, such as \"model.onnx\"".to_owned());
    }
    name.to_owned()
}

/// Whether the model's answers are to be kept.
pub(super) fn response_cache(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> bool {
    const FIELD: &str = "response_cache";
    if !root.block(FIELD).is_some_and(|cache| cache.flag("enable")) {
        return false;
    }
    let is_decoupled = root.block("model_transaction_policy").is_some_and(|policy| policy.flag("decoupled"));
    let conflicts = [
        (root.has("sequence_batching"), "sequence batching scheduler"),
        (is_decoupled, "'decoupled' transaction policy"),
    ];
    for (_, other) in conflicts.into_iter().filter(|(conflicts, _)| *conflicts) {
        let message = format!(
            "Response Cache does not currently support model {} with {other}. Please disable the response cache.",
            rules.model
        );
        rules.refuse(root, FIELD, message, "leave response_cache out".to_owned());
    }
    true
}
