//! What `GET /v2` and `GET /v2/models/{model}` answer.

use model::{Signature, TensorSpec, VersionNumber};
use serde::Serialize;

use crate::http::json::write;
use crate::shared_memory::SharedMemory;

/// Not had where shared memory is off.
const SYSTEM_SHARED_MEMORY: &str = "system_shared_memory";

/// The extensions of the protocol that this server can have. Clients decide by this list what they may ask for, so an entry
/// is added together with what it promises.
const EXTENSIONS: [&str; 11] = [
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    SYSTEM_SHARED_MEMORY,
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
];

/// The extensions that a server with this shared memory has.
#[must_use]
pub fn extensions(shared_memory: &SharedMemory) -> Vec<&'static str> {
    let is_had = |extension: &&str| *extension != SYSTEM_SHARED_MEMORY || shared_memory.check_enabled().is_ok();
    EXTENSIONS.into_iter().filter(is_had).collect()
}

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
    extensions: &'a [&'static str],
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

/// Appends the server's metadata to `out`; `name`, `version` and `extensions` are the server's. Source: Open Inference Protocol v2, "Server
/// Metadata Response JSON Object".
pub fn render_server_metadata(out: &mut Vec<u8>, name: &str, version: &str, extensions: &[&'static str]) {
    write(out, &ServerObject { name, version, extensions });
}

fn tensor_object(spec: &TensorSpec) -> TensorObject<'_> {
    TensorObject { name: &spec.name, datatype: spec.data_type.v2_name(), shape: &spec.shape }
}
