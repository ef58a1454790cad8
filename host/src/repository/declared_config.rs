//! What a model's folder declares: the checked configuration that the engine side acts on, everything that was written,
//! acted on or not, and what the files say that it names. Made once by `config_rules`, immutable, shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ModelConfig, ModelName, VersionNumber, VersionPolicy};
use prost_reflect::{DynamicMessage, MapKey, Value};

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
    /// Names that clients may call versions by.
    pub version_labels: BTreeMap<String, VersionNumber>,
    /// How its series are shown.
    pub metrics: Arc<ModelMetrics>,
}

/// The parameter that holds [`DeclaredConfig::version_labels`].
pub const VERSION_LABELS: &str = "airlock.version_labels";

impl DeclaredConfig {
    /// The configuration of a folder that declares nothing.
    #[must_use]
    pub fn undeclared(name: &ModelName, defaults: &ConfigDefaults) -> Self {
        Self {
            model: default_model_config(name, defaults),
            document: ConfigDocument(DynamicMessage::new(descriptor())),
            labels: Labels::default(),
            checksums: Vec::new(),
            version_labels: BTreeMap::new(),
            metrics: Arc::default(),
        }
    }

    /// Whether a version loaded with `other` is what this configuration asks for, too. The version policy only chooses
    /// among versions, and labels only name them.
    #[must_use]
    pub fn makes_the_same_version_as(&self, other: &Self) -> bool {
        let is_kept = |declared: &Self| declared.of_a_version();
        is_kept(self) == is_kept(other)
    }

    /// Whether a version loaded with `other` only needs more or fewer instances to be what this configuration asks for.
    /// Instances that take turns are made anew: what they need is agreed with those of other models.
    #[must_use]
    pub fn differs_only_in_instances(&self, other: &Self) -> bool {
        let is_kept = |declared: &Self| declared.of_a_version().without_instances();
        let is_free = |declared: &Self| declared.model.rate_limits().is_empty();
        is_free(self) && is_free(other) && is_kept(self) == is_kept(other)
    }

    /// The same without what is about the model as a whole, as if it were not written.
    fn of_a_version(&self) -> Self {
        let mut declared = self.clone();
        declared.document.0.clear_field_by_name("version_policy");
        declared.document.remove_parameter(VERSION_LABELS);
        declared.model.version_policy = VersionPolicy::All;
        declared.version_labels.clear();
        declared
    }

    fn without_instances(mut self) -> Self {
        self.document.0.clear_field_by_name("instance_group");
        self.model.instance_groups.clear();
        self
    }
}

/// A configuration as it was written, in protobuf text or JSON: every field of Triton's `ModelConfig`, whether Airlock
/// acts on it or not.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigDocument(pub(super) DynamicMessage);

impl ConfigDocument {
    /// Forgets an entry of `parameters`, and the field with its last.
    fn remove_parameter(&mut self, key: &str) {
        const FIELD: &str = "parameters";
        if !self.0.has_field_by_name(FIELD) {
            return;
        }
        let Some(Value::Map(parameters)) = self.0.get_field_by_name_mut(FIELD) else { return };
        parameters.remove(&MapKey::String(key.to_owned()));
        if parameters.is_empty() {
            self.0.clear_field_by_name(FIELD);
        }
    }
}

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
