//! What `GET /v2` and `GET /v2/models/{model}` answer.

use model::{Signature, TensorSpec, VersionNumber};
use serde::Serialize;

use crate::http::json::write;

/// The extensions of the protocol that this server has. Clients decide by this list what they may ask for, so an entry
/// is added together with what it promises.
pub const EXTENSIONS: [&str; 10] = [
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
];

/// A model's metadata to encode.
#[derive(Clone, Copy, Debug)]
pub struct ModelMetadata<'a> {
    /// The model's name.
    pub name: &'a str,
    /// The versions that serve, or the one asked for.
    pub versions: &'a [VersionNumber],
    /// What Triton calls whatever runs it, such as `onnxruntime_onnx`.
    pub platform: &'static str,
    /// Inputs and outputs, with full shapes.
    pub signature: &'a Signature,
}

#[derive(Serialize)]
struct ModelObject<'a> {
    name: &'a str,
    versions: Vec<String>,
    platform: &'static str,
    inputs: Vec<TensorObject<'a>>,
    outputs: Vec<TensorObject<'a>>,
}

#[derive(Serialize)]
struct TensorObject<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [i64],
}

#[derive(Serialize)]
struct ServerObject<'a> {
    name: &'a str,
    version: &'a str,
    extensions: &'static [&'static str],
}

/// Appends a model's metadata to `out`. Source: Open Inference Protocol v2, "Model Metadata Response JSON Object".
pub fn render_metadata(out: &mut Vec<u8>, metadata: &ModelMetadata<'_>) {
    let object = ModelObject {
        name: metadata.name,
        versions: metadata.versions.iter().map(ToString::to_string).collect(),
        platform: metadata.platform,
        inputs: metadata.signature.inputs.iter().map(tensor_object).collect(),
        outputs: metadata.signature.outputs.iter().map(tensor_object).collect(),
    };
    write(out, &object);
}

/// Appends the server's metadata to `out`; `name` and `version` are the server's. Source: Open Inference Protocol v2, "Server
/// Metadata Response JSON Object".
pub fn render_server_metadata(out: &mut Vec<u8>, name: &str, version: &str) {
    write(out, &ServerObject { name, version, extensions: &EXTENSIONS });
}

fn tensor_object(spec: &TensorSpec) -> TensorObject<'_> {
    TensorObject { name: &spec.name, datatype: spec.data_type.v2_name(), shape: &spec.shape }
}
