//! What the routes beside predict answer: a model's versions, and its inputs and outputs. Numbers of 64 bits are strings,
//! as protobuf writes them. Source: TensorFlow Serving's get_model_status.proto and get_model_metadata.proto.

use std::collections::BTreeMap;

use model::{Signature, TensorSpec, VersionNumber};
use serde::Serialize;

use super::SIGNATURE_NAME;
use super::types::enum_name;
use crate::http::json::write;

/// A version as TF Serving sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct VersionState {
    /// Its number; `None` where it is not known yet.
    pub(in crate::http) version: Option<VersionNumber>,
    /// TF Serving's name of its state.
    pub(in crate::http) state: &'static str,
    /// Why it does not serve, where something failed.
    pub(in crate::http) failure: Option<String>,
}

#[derive(Serialize)]
struct StatusObject<'a> {
    model_version_status: Vec<VersionObject<'a>>,
}

#[derive(Serialize)]
struct VersionObject<'a> {
    version: String,
    state: &'static str,
    status: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    error_code: &'static str,
    error_message: &'a str,
}

/// Writes what is known of a model's versions, in this order.
pub(in crate::http) fn render_status(versions: &[VersionState]) -> Vec<u8> {
    let model_version_status = versions.iter().map(version_object).collect();
    let mut out = Vec::new();
    write(&mut out, &StatusObject { model_version_status });
    out
}

fn version_object(version: &VersionState) -> VersionObject<'_> {
    let status = match &version.failure {
        None => ErrorObject { error_code: "OK", error_message: "" },
        Some(reason) => ErrorObject { error_code: "UNKNOWN", error_message: reason },
    };
    let number = version.version.map_or(0, VersionNumber::get);
    VersionObject { version: number.to_string(), state: version.state, status }
}

#[derive(Serialize)]
struct MetadataObject<'a> {
    model_spec: ModelSpec<'a>,
    metadata: SignatureDef<SignatureDef<BTreeMap<&'static str, SignatureObject<'a>>>>,
}

#[derive(Serialize)]
struct ModelSpec<'a> {
    name: &'a str,
    signature_name: &'static str,
    version: &'a str,
}

#[derive(Serialize)]
struct SignatureDef<T> {
    signature_def: T,
}

#[derive(Serialize)]
struct SignatureObject<'a> {
    inputs: BTreeMap<&'a str, TensorObject>,
    outputs: BTreeMap<&'a str, TensorObject>,
    method_name: &'static str,
}

#[derive(Serialize)]
struct TensorObject {
    dtype: &'static str,
    tensor_shape: ShapeObject,
    name: String,
}

#[derive(Serialize)]
struct ShapeObject {
    dim: Vec<DimensionObject>,
    unknown_rank: bool,
}

#[derive(Serialize)]
struct DimensionObject {
    size: String,
    name: &'static str,
}

/// Writes a version's inputs and outputs.
pub(in crate::http) fn render_metadata(model: &str, version: &str, signature: &Signature) -> Vec<u8> {
    let object = SignatureObject {
        inputs: signature.inputs.iter().map(|spec| (&*spec.name, tensor_object(spec))).collect(),
        outputs: signature.outputs.iter().map(|spec| (&*spec.name, tensor_object(spec))).collect(),
        method_name: "tensorflow/serving/predict",
    };
    let signatures = BTreeMap::from([(SIGNATURE_NAME, object)]);
    let metadata = SignatureDef { signature_def: SignatureDef { signature_def: signatures } };
    let mut out = Vec::new();
    write(&mut out, &MetadataObject { model_spec: ModelSpec { name: model, signature_name: "", version }, metadata });
    out
}

fn tensor_object(spec: &TensorSpec) -> TensorObject {
    let dim = spec.shape.iter().map(|size| DimensionObject { size: size.to_string(), name: "" }).collect();
    TensorObject {
        dtype: enum_name(spec.data_type),
        tensor_shape: ShapeObject { dim, unknown_rank: false },
        name: format!("{}:0", spec.name),
    }
}
