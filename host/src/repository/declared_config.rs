//! What a model's folder declares: the checked configuration that the engine side acts on, everything that was written,
//! acted on or not, and what the files say that it names. Made once by `config_rules`, immutable, shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ModelConfig, ModelName, VersionPolicy};
use prost_reflect::DynamicMessage;

use super::checksum::Checksum;
use super::config_text::{ConfigDefaults, default_model_config, descriptor};
use crate::metrics::ModelMetrics;

/// A model's configuration as its folder has it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredConfig {
    /// What the engine side acts on.
    pub model: ModelConfig,
    /// Everything that was written.
    pub document: ConfigDocument,
    /// The labels of its outputs.
    pub labels: Labels,
    /// What files of the folder must hash to.
    pub checksums: Vec<Checksum>,
    /// How its series are shown.
    pub metrics: Arc<ModelMetrics>,
}

impl DeclaredConfig {
    /// The configuration of a folder that declares nothing.
    #[must_use]
    pub fn undeclared(name: &ModelName, defaults: &ConfigDefaults) -> Self {
        Self {
            model: default_model_config(name, defaults),
            document: ConfigDocument(DynamicMessage::new(descriptor())),
            labels: Labels::default(),
            checksums: Vec::new(),
            metrics: Arc::default(),
        }
    }

    /// Whether a version loaded with `other` is what this configuration asks for, too. The version policy only chooses
    /// among versions.
    #[must_use]
    pub fn makes_the_same_version_as(&self, other: &Self) -> bool {
        let is_kept = |declared: &Self| declared.without(&["version_policy"]);
        is_kept(self) == is_kept(other)
    }

    /// Whether a version loaded with `other` only needs more or fewer instances to be what this configuration asks for.
    /// Instances that take turns are made anew: what they need is agreed with those of other models.
    #[must_use]
    pub fn differs_only_in_instances(&self, other: &Self) -> bool {
        let is_kept = |declared: &Self| declared.without(&["version_policy", "instance_group"]);
        let is_free = |declared: &Self| declared.model.rate_limits().is_empty();
        is_free(self) && is_free(other) && is_kept(self) == is_kept(other)
    }

    /// The same without these fields: as if they were not written.
    fn without(&self, fields: &[&str]) -> Self {
        let mut declared = self.clone();
        for field in fields {
            declared.document.0.clear_field_by_name(field);
            match *field {
                "version_policy" => declared.model.version_policy = VersionPolicy::All,
                _ => declared.model.instance_groups.clear(),
            }
        }
        declared
    }
}

/// A configuration as it was written, in protobuf text or JSON: every field of Triton's `ModelConfig`, whether Airlock
/// acts on it or not.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigDocument(pub(super) DynamicMessage);

/// The labels of a model's outputs: what the positions of their last dimension stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    by_output: BTreeMap<String, Arc<[String]>>,
}

impl Labels {
    /// The labels of one output, by position; `None` where it has none.
    #[must_use]
    pub fn of(&self, output: &str) -> Option<&Arc<[String]>> {
        self.by_output.get(output)
    }

    /// These, and those of `others` for outputs that have none here.
    #[must_use]
    pub fn over(&self, others: BTreeMap<Arc<str>, Arc<[String]>>) -> Self {
        let mut by_output: BTreeMap<_, _> =
            others.into_iter().map(|(output, labels)| (output.to_string(), labels)).collect();
        by_output.extend(self.by_output.clone());
        Self { by_output }
    }
}

impl FromIterator<(String, Arc<[String]>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, Arc<[String]>)>>(labels: I) -> Self {
        Self { by_output: labels.into_iter().collect() }
    }
}
