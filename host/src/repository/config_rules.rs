//! What a `config.pbtxt` that parses may say: every field is turned into its place in [`ModelConfig`], refused with a
//! reason, or accepted and named in a warning. Texts are Triton's wherever Triton has one. Nothing here stops at the
//! first problem; a value that is refused is replaced by its default so that the rest can be checked too.

mod accelerators;
mod agents;
mod backend;
mod block;
mod ignored;
mod instances;
mod labels;
mod metrics;
mod padding;
mod parameters;
mod ragged;
mod rate_limit;
mod scheduling;
mod settings;
mod tensors;
mod version_labels;
mod warmup;

use std::path::{Component, Path};
use std::sync::Arc;

use model::ModelName;
use prost_reflect::DynamicMessage;

use super::config_text::{ConfigContext, ConfigDefaults, Node};
use super::declared_config::{ConfigDocument, DeclaredConfig};
use super::problem::Report;
pub(super) use agents::MD5_PREFIX;
use block::Block;

/// The rules at work on one file.
struct Rules<'r, 'f> {
    model: &'r ModelName,
    /// The model's folder.
    dir: &'r Path,
    defaults: &'r ConfigDefaults,
    /// Whether requests have a batch dimension.
    batches: bool,
    report: &'r mut Report<'f>,
}

impl Rules<'_, '_> {
    /// An error at field `name` of `block`.
    fn refuse(&mut self, block: &Block<'_>, name: &str, message: impl Into<String>, fix: impl Into<Option<String>>) {
        self.report.error(block.at(name), block.path(name), message, fix);
    }
}

/// Builds the configuration `message` asks for; what it must not ask for goes to `report`. `node` is the tree of its
/// text, where it has one.
pub(super) fn build(
    message: DynamicMessage,
    node: Option<&Node>,
    context: &ConfigContext<'_>,
    report: &mut Report<'_>,
) -> DeclaredConfig {
    let root = Block::root(&message, node);
    let batches = root.integer("max_batch_size") > 0;
    let ConfigContext { model, dir, defaults } = *context;
    let mut rules = Rules { model, dir, defaults, batches, report };
    let mut declared = DeclaredConfig::undeclared(model, defaults);
    let config = &mut declared.model;
    config.backend = backend::read(&root, &mut rules);
    config.max_batch_size = settings::max_batch_size(&root, &mut rules);
    config.inputs = tensors::read(&root, tensors::Side::Input, &mut rules);
    config.optional_inputs = tensors::flagged(&root, "optional");
    config.outputs = tensors::read(&root, tensors::Side::Output, &mut rules);
    tensors::check_declared(&root, config, &mut rules);
    config.batching = scheduling::read(&root, config.max_batch_size, &mut rules);
    config.instance_groups = instances::read(&root, &mut rules);
    config.session.graph_optimization = settings::graph_optimization(&root, &mut rules);
    config.session.accelerators = accelerators::read(&root, &mut rules);
    config.session.custom_op_libraries = backend::custom_op_libraries(&root, &mut rules);
    config.version_policy = settings::version_policy(&root, &mut rules);
    config.model_filename = settings::model_filename(&root, &mut rules);
    config.has_response_cache = settings::response_cache(&root, &mut rules);
    parameters::read(&root, config, &mut rules);
    config.padding = padding::read(&root, &mut rules);
    padding::check(&root, config, &mut rules);
    config.ragged = ragged::read(&root, config, &mut rules);
    config.warmup = warmup::read(&root, config, &mut rules);
    declared.labels = labels::read(&root, &mut rules);
    declared.checksums = agents::read(&root, &mut rules);
    declared.version_labels = version_labels::read(&root, &mut rules);
    declared.metrics = Arc::new(metrics::read(&root, &mut rules));
    ignored::warn(&root, &mut rules);
    declared.document = ConfigDocument(message);
    declared
}

/// Whether a configured file name stays in the folder it is relative to.
pub(super) fn stays_inside(name: &str) -> bool {
    let plain = |component| matches!(component, Component::Normal(_));
    !name.is_empty() && !name.contains(['\\', '\0']) && Path::new(name).components().all(plain)
}

#[cfg(test)]
mod tests;
