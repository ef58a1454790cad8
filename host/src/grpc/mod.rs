//! The gRPC surface: Triton's `inference.GRPCInferenceService`, the standard health service and reflection. It decodes,
//! calls `pipeline`, `registry` or the repository's API, and encodes; there is no business rule here. [`GrpcFront`] is the
//! whole application as one async function from request to answer, and [`server`] puts it on a port.
//!
//! Tensors are not copied on the way in: what the client sent as raw contents is a view of the message as it was read,
//! and what it gets back is the engine's bytes, copied once into the outgoing frames.

mod contents;
mod decode;
mod encode;
mod forward;
mod front;
mod health;
mod infer;
mod metadata;
mod parameters;
mod predict;
pub mod proto;
mod repository;
pub mod server;
mod service;
mod settings;
mod shared_memory;
mod statistics;
mod status;
mod stream;
pub mod tls;
mod traffic;

pub use decode::{DecodeContext, InferRequest, OutputForm, RequestedOutput, decode_infer};
pub use front::{FrontParts, GrpcFront};
