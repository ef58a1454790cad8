//! The shared memory extensions over gRPC.

use std::collections::HashMap;

use model::ErrorCode;

use super::proto::inference::infer_parameter::ParameterChoice;
use super::proto::inference::system_shared_memory_status_response::RegionStatus;
use super::proto::inference::{
    CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse, InferParameter, SystemSharedMemoryRegisterRequest,
    SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse, SystemSharedMemoryUnregisterRequest,
};
use crate::failure::{RequestFailure, clipped};
use crate::serving::ServingState;
use crate::shared_memory::{PartClaim, RegionError, RegionPlace, cuda};

/// The parameter that names a region.
pub(super) const REGION: &str = "shared_memory_region";
const OFFSET: &str = "shared_memory_offset";
const BYTE_SIZE: &str = "shared_memory_byte_size";

/// One region, or all where no name is given.
pub(super) fn status(
    state: &ServingState,
    request: SystemSharedMemoryStatusRequest,
) -> Result<SystemSharedMemoryStatusResponse, RegionError> {
    let entry = |name: String, place: RegionPlace| {
        let RegionPlace { key, offset, byte_size } = place;
        (name.clone(), RegionStatus { name, key, offset, byte_size })
    };
    let name = request.name;
    let regions = if name.is_empty() {
        state.shared_memory.places().into_iter().map(|(name, place)| entry(name.to_string(), place)).collect()
    } else {
        let place = state.shared_memory.place(&name)?;
        HashMap::from([entry(name, place)])
    };
    Ok(SystemSharedMemoryStatusResponse { regions })
}

pub(super) fn register(state: &ServingState, request: SystemSharedMemoryRegisterRequest) -> Result<(), RegionError> {
    let SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } = request;
    state.shared_memory.register(&name, RegionPlace { key, offset, byte_size })
}

/// One region, or all where no name is given.
pub(super) fn unregister(
    state: &ServingState,
    request: &SystemSharedMemoryUnregisterRequest,
) -> Result<(), RegionError> {
    match request.name.as_str() {
        "" => state.shared_memory.unregister_all(),
        name => state.shared_memory.unregister(name),
    }
}

/// There is none.
pub(super) fn cuda_status(
    state: &ServingState,
    request: &CudaSharedMemoryStatusRequest,
) -> Result<CudaSharedMemoryStatusResponse, RequestFailure> {
    match request.name.as_str() {
        "" => Ok(CudaSharedMemoryStatusResponse { regions: HashMap::new() }),
        name => Err(cuda::no_status(&state.shared_memory, name)),
    }
}

/// The part of a region that the parameters of the input or output `tensor` name. Texts are Triton's.
///
/// # Errors
/// For a value of another type, and a part without a size.
pub(super) fn claim(
    parameters: &HashMap<String, InferParameter>,
    tensor: &str,
) -> Result<Option<PartClaim>, RequestFailure> {
    let choice = |key: &str| parameters.get(key).map(|parameter| parameter.parameter_choice.as_ref());
    let shown = clipped(tensor);
    let malformed = |text: String| RequestFailure::new(ErrorCode::MalformedRequest, text);
    let wrong = |key: &str, wanted: &str| {
        malformed(format!("invalid value type for '{key}' parameter for tensor '{shown}', expected {wanted}."))
    };
    let Some(region) = choice(REGION) else {
        let stray = [OFFSET, BYTE_SIZE].into_iter().find(|key| parameters.contains_key(*key));
        return stray.map_or(Ok(None), |key| {
            let text = format!("'{key}' can not be specified without '{REGION}' parameter for tensor '{shown}'");
            Err(malformed(text))
        });
    };
    let Some(ParameterChoice::StringParam(region)) = region else { return Err(wrong(REGION, "string_param")) };
    // As in Triton a number below 0 is one beyond every region.
    let number = |key: &str| match choice(key) {
        None => Ok(None),
        Some(Some(ParameterChoice::Int64Param(number))) => Ok(Some(number.cast_unsigned())),
        Some(_) => Err(wrong(key, "int64_param")),
    };
    let offset = number(OFFSET)?.unwrap_or(0);
    let byte_size = number(BYTE_SIZE)?.ok_or_else(|| {
        malformed(format!("'{BYTE_SIZE}' must be specified along with '{REGION}' parameter for tensor '{shown}'"))
    })?;
    Ok(Some(PartClaim { region: region.clone(), offset, byte_size }))
}
