//! What the server and its models say of themselves.

use bytes::Bytes;
use model::{TensorSpec, VersionNumber};

use super::infer::version_of;
use super::proto::EncodedConfigResponse;
use super::proto::inference::model_metadata_response::TensorMetadata;
use super::proto::inference::{
    ModelConfigRequest, ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ServerMetadataResponse,
};
use crate::failure::RequestFailure;
use crate::repository::config_json::model_config_message;
use crate::serving::ServingState;
use model::ErrorCode;

pub(super) fn server(state: &ServingState) -> ServerMetadataResponse {
    ServerMetadataResponse {
        name: state.server.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: state.server.extensions.iter().map(|&extension| extension.to_owned()).collect(),
    }
}

/// Whether a model serves.
///
/// # Errors
/// For a model or version that is not known.
pub(super) fn is_ready(state: &ServingState, request: &ModelReadyRequest) -> Result<bool, RequestFailure> {
    match state.registry.pin(&request.name, version_of(&request.version)) {
        Ok(_) => Ok(true),
        Err(failure) if matches!(failure.code, ErrorCode::ModelNotReady | ErrorCode::NoAvailableVersion) => Ok(false),
        Err(failure) => Err(failure),
    }
}

pub(super) fn model(
    state: &ServingState,
    request: &ModelMetadataRequest,
) -> Result<ModelMetadataResponse, RequestFailure> {
    let map = state.registry.snapshot();
    let served = map.model(&request.name)?;
    let version = version_of(&request.version);
    let release = served.release(version)?;
    let versions: Vec<VersionNumber> = match version {
        None => served.releases.keys().copied().collect(),
        Some(_) => vec![release.version.number],
    };
    let signature = &release.version.signature;
    Ok(ModelMetadataResponse {
        name: served.name.to_string(),
        versions: versions.iter().map(ToString::to_string).collect(),
        platform: release.version.config().completed.backend.platform().to_owned(),
        inputs: signature.inputs.iter().map(tensor).collect(),
        outputs: signature.outputs.iter().map(tensor).collect(),
    })
}

fn tensor(spec: &TensorSpec) -> TensorMetadata {
    TensorMetadata {
        name: spec.name.to_string(),
        datatype: spec.data_type.v2_name().to_owned(),
        shape: spec.shape.clone(),
    }
}

/// A model's configuration, encoded.
pub(super) fn config(
    state: &ServingState,
    request: &ModelConfigRequest,
) -> Result<EncodedConfigResponse, RequestFailure> {
    let map = state.registry.snapshot();
    let served = map.model(&request.name)?;
    let release = served.release(version_of(&request.version))?;
    let config = model_config_message(served, &release.version);
    Ok(EncodedConfigResponse { config: Bytes::from(config) })
}
