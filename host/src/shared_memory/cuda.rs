//! CUDA shared memory: there is none, and what every surface says of it. Texts are Triton's for a server without GPUs.

use model::ErrorCode;

use super::SharedMemory;
use super::error::shown;
use crate::failure::RequestFailure;

/// Why the region `name` cannot be registered.
#[must_use]
pub fn refuse(memory: &SharedMemory, name: &str) -> RequestFailure {
    if let Err(error) = memory.check_enabled() {
        return error.into();
    }
    let text = format!("failed to register CUDA shared memory region: '{}', GPUs not supported", shown(name));
    RequestFailure::new(ErrorCode::InvalidRegion, text)
}

/// Why the region `name` has no status.
#[must_use]
pub fn no_status(memory: &SharedMemory, name: &str) -> RequestFailure {
    let text = match memory.place(name) {
        Ok(_) => {
            let name = shown(name);
            format!("The region named '{name}' is registered as system shared memory, not CUDA shared memory")
        }
        Err(_) => format!("Unable to find cuda shared memory region: '{}'", shown(name)),
    };
    RequestFailure::new(ErrorCode::RegionNotFound, text)
}
