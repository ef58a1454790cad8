//! Failures as gRPC sees them. Which status a failure has is decided by `model::ErrorCode` alone.

use http::HeaderMap;
use model::ErrorCode;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::failure::RequestFailure;

/// The stable code of a failure, as in the JSON bodies of HTTP.
const ERROR_CODE: &str = "airlock-code";
/// When to try again, as clients with a retry policy read it. Source: gRPC's proposal A6, "Client retries".
const RETRY_PUSHBACK: &str = "grpc-retry-pushback-ms";
/// What the server says that takes nothing new. The text is Triton's.
const SHUTTING_DOWN: &str = "GRPC server is shutting down and has stopped accepting new requests.";
/// How tonic says that a message, as it is or unpacked, is larger than it may be.
const TOO_LARGE: [&str; 2] = ["Error, decoded message length too large", "Error decompressing: size limit"];

impl From<RequestFailure> for Status {
    fn from(failure: RequestFailure) -> Self {
        let RequestFailure { code, text, retry_after, .. } = failure;
        let text = if code == ErrorCode::ShuttingDown { SHUTTING_DOWN.to_owned() } else { text };
        let mut status = Self::new(Code::from_i32(code.grpc_status() as i32), text);
        let metadata = status.metadata_mut();
        metadata.insert(ERROR_CODE, MetadataValue::from_static(code.as_str()));
        if let Some(delay) = retry_after {
            let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            metadata.insert(RETRY_PUSHBACK, MetadataValue::from(millis));
        }
        status
    }
}

/// The server takes nothing new.
pub(super) fn shutting_down() -> Status {
    RequestFailure::new(ErrorCode::ShuttingDown, SHUTTING_DOWN).into()
}

/// An rpc that this server does not have.
pub(super) fn unknown_rpc(path: &str) -> Status {
    RequestFailure::new(ErrorCode::RouteNotFound, format!("there is no rpc {path}")).into()
}

/// A message that is larger than it may be.
pub(super) fn too_large(bytes_max: usize) -> RequestFailure {
    let text = format!("the message is larger than {bytes_max} bytes; raise --grpc-max-message-size to allow it");
    RequestFailure::new(ErrorCode::BodyTooLarge, text)
}

/// Whether tonic refused a message for its size.
pub(super) fn is_too_large(status: &Status) -> bool {
    TOO_LARGE.iter().any(|text| status.message().starts_with(text))
}

/// The name of a code. Source: grpc.io, "Status codes".
pub(super) fn code_name(code: Code) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES[code as usize]
}

/// The status of an answer that is nothing but one.
pub(super) fn of_headers(headers: &HeaderMap) -> Option<Status> {
    Status::from_header_map(headers)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_keeps_its_code_and_says_when_to_try_again() {
        let failure = RequestFailure::new(ErrorCode::QueueFull, "full").retry_after(Duration::from_secs(1));
        let status = Status::from(failure);
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "full"));
        assert_eq!(status.metadata().get(ERROR_CODE).expect("a code"), "queue_full");
        assert_eq!(status.metadata().get(RETRY_PUSHBACK).expect("a time"), "1000");
    }
}
