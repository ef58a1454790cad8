//! What can go wrong with regions. Texts are Triton's where it has one, with the values at fault in parentheses behind.

use model::ErrorCode;

use super::{PartClaim, RegionPlace};
use crate::failure::{RequestFailure, clipped};

/// Why a region, or a part of one, cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "what the texts say")]
pub enum RegionError {
    /// The server does without shared memory.
    #[error("Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.")]
    Disabled,
    /// A region is to be registered under no name.
    #[error("'region name' is necessary to register system shared memory region")]
    Unnamed,
    /// A name is longer than any may be.
    #[error("a shared memory region's name has {max} bytes at most, got {len}")]
    NameTooLong { len: usize, max: usize },
    /// The name is taken.
    #[error("shared memory region '{0}' already in manager")]
    Exists(String),
    /// There are as many as there may be.
    #[error("{max} shared memory regions are registered; unregister one, or raise --shared-memory-regions")]
    TooMany { max: usize },
    /// The regions would be larger than they may be.
    #[error(
        "failed to register shared memory region '{name}': its {byte_size} bytes and the {taken} registered ones are more \
         than {max}; unregister one, or raise --shared-memory-mb"
    )]
    TooLarge { name: String, byte_size: u64, taken: u64, max: u64 },
    /// A prefix that belongs to Triton's Python backend.
    #[error(
        "cannot register shared memory region '{name}' with key '{key}' as the key contains the reserved prefix '{prefix}'"
    )]
    Reserved { name: String, key: String, prefix: &'static str },
    /// There is no such object, or none that is served.
    #[error("Unable to open shared memory region: '{key}' ({reason})")]
    Open { key: String, reason: String },
    /// The object is shorter than the region, or the region is empty.
    #[error("failed to register shared memory region '{name}': invalid args ({reason})")]
    Place { name: String, reason: String },
    /// A status is asked for that there is none of.
    #[error("Unable to find system shared memory region: '{0}'")]
    NotRegistered(String),
    /// A request names a region that is not known.
    #[error("Unable to find shared memory region: '{0}'")]
    Unknown(String),
    /// A part starts beyond its region.
    #[error("Invalid offset for shared memory region: '{name}' (offset {offset} in {byte_size} bytes)")]
    Offset { name: String, offset: u64, byte_size: u64 },
    /// A part ends where no number tells.
    #[error(
        "Integer overflow detected: byte_size ({byte_size}) + offset ({offset}) exceeds maximum value ({}) for region \
         '{name}'",
        u64::MAX
    )]
    Overflow { name: String, offset: u64, byte_size: u64 },
    /// A part ends beyond its region.
    #[error(
        "Invalid offset + byte size for shared memory region: '{name}' (offset {offset} and {part} bytes in {byte_size})"
    )]
    End { name: String, offset: u64, part: u64, byte_size: u64 },
    /// A request's inputs take more out of regions than they may.
    #[error(
        "the request's inputs take more than {max} bytes out of shared memory; raise --shared-memory-request-mb to allow it"
    )]
    RequestTooLarge { max: u64 },
    /// An output has more bytes than its part.
    #[error(
        "shared memory size specified with the request for output '{output}' ({part} bytes) should be at least {needed} bytes \
         to hold the results"
    )]
    OutputTooLarge { output: String, part: u64, needed: u64 },
    /// The object does not hold what it held when it was registered.
    #[error("shared memory region '{name}' cannot be used: its object '{key}' is shorter than when it was registered")]
    Truncated { name: String, key: String },
    /// The system refuses.
    #[error("shared memory region '{name}' cannot be used: its object '{key}': {reason}")]
    Failed { name: String, key: String, reason: String },
}

impl RegionError {
    pub(super) fn not_registered(name: &str) -> Self {
        Self::NotRegistered(shown(name))
    }

    pub(super) fn unknown(claim: &PartClaim) -> Self {
        Self::Unknown(shown(&claim.region))
    }

    pub(super) fn place(name: &str, place: &RegionPlace, file_bytes: u64) -> Self {
        let RegionPlace { offset, byte_size, .. } = place;
        let reason = match byte_size {
            0 => "byte_size is 0".to_owned(),
            _ => format!("offset {offset} and byte_size {byte_size} in an object of {file_bytes} bytes"),
        };
        Self::Place { name: shown(name), reason }
    }

    /// The stable reason.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Disabled => ErrorCode::SharedMemoryDisabled,
            Self::Exists(_) => ErrorCode::RegionExists,
            Self::NotRegistered(_) | Self::Unknown(_) => ErrorCode::RegionNotFound,
            // That will not fit later either.
            Self::TooLarge { byte_size, max, .. } if byte_size > max => ErrorCode::InvalidRegion,
            Self::TooMany { .. } | Self::TooLarge { .. } => ErrorCode::RegionsExhausted,
            Self::RequestTooLarge { .. } => ErrorCode::BodyTooLarge,
            Self::Unnamed
            | Self::NameTooLong { .. }
            | Self::Reserved { .. }
            | Self::Open { .. }
            | Self::OutputTooLarge { .. }
            | Self::Truncated { .. }
            | Self::Place { .. }
            | Self::Offset { .. }
            | Self::Overflow { .. }
            | Self::End { .. } => ErrorCode::InvalidRegion,
            Self::Failed { .. } => ErrorCode::RegionFailed,
        }
    }
}

impl From<RegionError> for RequestFailure {
    fn from(error: RegionError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// A client's text as far as a message repeats it.
pub(super) fn shown(text: &str) -> String {
    clipped(text).into_owned()
}
