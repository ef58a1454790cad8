//! Who a configuration is for: the name, the platform and backend, and the schedulers and native code that Airlock does
//! not run.

use std::path::PathBuf;

use model::Backend;

use super::Rules;
use super::block::Block;

const PLATFORM: &str = "onnxruntime_onnx";
const BACKEND: &str = "onnxruntime";
const IDENTITY: &str = "identity";

/// What runs the model; everything that Airlock does not run is refused.
pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> Backend {
    check_name(root, rules);
    check_refused(root, rules);
    if root.text("backend") == IDENTITY && root.text("platform").is_empty() {
        return Backend::Identity;
    }
    check_pair(root, rules);
    Backend::OnnxRuntime
}

/// The libraries with operators of their own that the model needs. Whether the server's operator allows them is looked at
/// when the model loads.
pub(super) fn custom_op_libraries(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> Vec<PathBuf> {
    const FIELD: &str = "op_library_filename";
    let Some(operations) = root.block("model_operations") else { return Vec::new() };
    let libraries = operations.texts(FIELD);
    if libraries.iter().any(|library| library.is_empty() || library.contains('\0')) {
        let message = "a custom operator library has no usable name";
        rules.refuse(&operations, FIELD, message, "name its file, or remove the entry".to_owned());
    }
    libraries.into_iter().map(PathBuf::from).collect()
}

fn check_name(root: &Block<'_>, rules: &mut Rules<'_, '_>) {
    let (name, folder) = (root.text("name"), rules.model.as_str());
    if name.is_empty() || name == folder {
        return;
    }
    let message =
        format!("unexpected directory name '{folder}' for model '{name}', directory name must equal model name");
    rules.refuse(root, "name", message, format!("write name: \"{folder}\", leave name out, or rename the folder"));
}

fn check_pair(root: &Block<'_>, rules: &mut Rules<'_, '_>) {
    let (platform, backend) = (root.text("platform"), root.text("backend"));
    if platform == "ensemble" || root.has("ensemble_scheduling") {
        let field = if root.has("ensemble_scheduling") { "ensemble_scheduling" } else { "platform" };
        let fix = "write the steps as a plugin with kind = \"pipeline\" in plugin.toml, which calls the models itself";
        return rules.refuse(root, field, "ensembles are not served", fix.to_owned());
    }
    let known_platform = platform.is_empty() || platform == PLATFORM;
    let known_backend = backend.is_empty() || backend == BACKEND;
    if known_platform && known_backend {
        return;
    }
    if known_platform != known_backend && !platform.is_empty() && !backend.is_empty() {
        let message = format!("unexpected 'platform' and 'backend' pair, got:{platform}, {backend}");
        let fix = format!("write backend: \"{BACKEND}\" and leave platform out");
        return rules.refuse(root, "platform", message, fix);
    }
    let (field, value) = if known_backend { ("platform", platform) } else { ("backend", backend) };
    let fix = if backend == "python" {
        "export the model to ONNX and move the Python around it into a plugin"
    } else {
        "export the model to ONNX and save it as model.onnx"
    };
    rules.refuse(root, field, format!("{field} '{value}' is not served: models are ONNX files"), fix.to_owned());
}

fn check_refused(root: &Block<'_>, rules: &mut Rules<'_, '_>) {
    const FIELD: &str = "sequence_batching";
    if root.has(FIELD) {
        let message = "sequence batching is not supported: the model would lose its state between requests";
        let fix = "pass the state as inputs and outputs, and keep it in the client or in a plugin's key-value store";
        rules.refuse(root, FIELD, message, fix.to_owned());
    }
}
