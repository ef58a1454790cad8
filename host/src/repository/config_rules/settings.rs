//! The single-valued fields: batch size, graph optimization, version policy, file name and `parameters`.

use model::{Execution, GraphOptimization, ModelConfig, VersionNumber, VersionPolicy};

use super::super::problem::did_you_mean;
use super::block::Block;
use super::{Rules, padding, stays_inside};

/// Most threads a model may ask for in one instance.
const THREADS_MAX: u16 = 1024;

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

pub(super) fn parameters(root: &Block<'_>, config: &mut ModelConfig, rules: &mut Rules<'_, '_>) {
    for (key, parameter) in root.entries("parameters") {
        let value = parameter.text("string_value");
        match key.as_str() {
            "intra_op_thread_count" => config.threads.intra_op = threads(&key, value, &parameter, rules),
            "inter_op_thread_count" => config.threads.inter_op = threads(&key, value, &parameter, rules),
            "airlock.execution" => config.execution = execution(value, &parameter, rules),
            "airlock.split_large_requests" => {
                config.batching.split_large_requests = flag(&key, value, &parameter, rules);
            }
            "TRITON_BATCH_STRATEGY_PATH" => {
                let message = "batching strategies are native code from the repository and are never loaded";
                rules.refuse(&parameter, "string_value", message, "remove the parameter".to_owned());
            }
            _ if key.starts_with(padding::PREFIX) => {}
            _ if key.starts_with("airlock.") => {
                let known = ["airlock.execution", "airlock.padding.…", "airlock.split_large_requests"];
                let fix = did_you_mean(&key, known).unwrap_or_else(|| format!("known: {}", known.join(", ")));
                let place = parameter.own_path();
                rules.report.error(parameter.own_at(), place, format!("unknown parameter '{key}'"), fix);
            }
            _ => {
                config.parameters.insert(key, value.to_owned());
            }
        }
    }
}

fn threads(key: &str, value: &str, parameter: &Block<'_>, rules: &mut Rules<'_, '_>) -> u16 {
    let count = value.trim().parse::<u16>().ok().filter(|count| *count <= THREADS_MAX);
    count.unwrap_or_else(|| {
        let message = format!("'{key}' is '{value}'; it must be a whole number from 0 to {THREADS_MAX}");
        let fix = "write a number in quotes; 0 leaves the choice to ONNX Runtime".to_owned();
        rules.refuse(parameter, "string_value", message, fix);
        0
    })
}

fn flag(key: &str, value: &str, parameter: &Block<'_>, rules: &mut Rules<'_, '_>) -> bool {
    match value {
        "true" | "1" => true,
        "false" | "0" => false,
        _ => {
            let message = format!("'{key}' is '{value}'; it must be true or false");
            rules.refuse(parameter, "string_value", message, "write \"true\" or \"false\"".to_owned());
            false
        }
    }
}

fn execution(value: &str, parameter: &Block<'_>, rules: &mut Rules<'_, '_>) -> Execution {
    match value {
        "auto" => Execution::Auto,
        "inline" => Execution::Inline,
        "worker" => Execution::Worker,
        _ => {
            let message = format!("'airlock.execution' is '{value}'; it must be auto, inline or worker");
            rules.refuse(parameter, "string_value", message, did_you_mean(value, ["auto", "inline", "worker"]));
            Execution::Auto
        }
    }
}
