//! Configurations as JSON: what is served, printed as Triton prints it (`GET /v2/models/<m>/config`), and configurations
//! given as JSON (the `config` parameter of a load request), which keep to the same rules as `config.pbtxt`.

mod normal;
mod read;
mod write;

use std::path::Path;

use model::{ModelConfig, VersionPolicy};
use prost::Message as _;

use super::config_rules;
use super::config_text::{CONFIG_BYTES_MAX, ConfigContext};
use super::declared_config::{ConfigDocument, DeclaredConfig};
use super::problem::{Problem, Report};
use crate::registry::{LoadedVersion, ServedModel};

/// The configuration that `version` of `served` serves with, for `GET /v2/models/<m>[/versions/<v>]/config`.
#[must_use]
pub fn model_config_json(served: &ServedModel, version: &LoadedVersion) -> Vec<u8> {
    // The policy can have changed since the version was loaded.
    let config = version.config();
    let in_force = served.config.as_ref().unwrap_or(&config.declared);
    normal_json(&config.declared.document, &config.completed, &in_force.model.version_policy)
}

/// The same as an encoded `inference.ModelConfig`.
#[must_use]
pub fn model_config_message(served: &ServedModel, version: &LoadedVersion) -> Vec<u8> {
    let config = version.config();
    let in_force = served.config.as_ref().unwrap_or(&config.declared);
    normal::normal_form(&config.declared.document, &config.completed, &in_force.model.version_policy).encode_to_vec()
}

/// Triton's normal form: all that was written, completed from the model file as `loaded` is, with Triton's defaults filled
/// in. Printed as Triton prints it: fields in the order of the protobuf description, defaults included, and 64-bit
/// integers as numbers wherever Triton has them so.
#[must_use]
pub fn normal_json(document: &ConfigDocument, loaded: &ModelConfig, policy: &VersionPolicy) -> Vec<u8> {
    write::to_json(&normal::normal_form(document, loaded, policy))
}

/// Reads a configuration given as JSON, of the model and folder that `context` names. `file` is what problems are shown
/// to be of; their fields are paths into the JSON.
///
/// # Errors
/// Every problem. Where Triton has a text for it, the message is Triton's.
pub fn parse_model_config_json(
    file: &Path,
    text: &str,
    context: &ConfigContext<'_>,
) -> Result<(DeclaredConfig, Vec<Problem>), Vec<Problem>> {
    if text.len() > CONFIG_BYTES_MAX {
        let message = format!("the configuration has {} bytes; it may have at most {CONFIG_BYTES_MAX}", text.len());
        return Err(vec![Problem::of_file(file, message)]);
    }
    let mut report = Report::new(file, text);
    let message = read::message(text, &mut report);
    let declared = config_rules::build(message, None, context, &mut report);
    report.finish(declared)
}

#[cfg(test)]
mod tests;
