//! Messages and services as generated from `proto/`, and the one message that is written by hand.

use bytes::Bytes;

/// `inference`: Triton's service.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::too_many_lines, reason = "generated")]
pub mod inference {
    include!(concat!(env!("OUT_DIR"), "/inference.rs"));
}

/// `grpc.health.v1`: the standard health service.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::too_many_lines, reason = "generated")]
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}

/// Everything that is served, for reflection.
pub(super) const DESCRIPTIONS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/grpc_service.bin")),
    include_bytes!(concat!(env!("OUT_DIR"), "/health.bin")),
];

/// `inference.ModelConfigResponse` with its configuration encoded already: on the wire a message and its bytes are the
/// same.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EncodedConfigResponse {
    /// An `inference.ModelConfig`.
    #[prost(bytes = "bytes", tag = "1")]
    pub config: Bytes,
}
