//! Every way a request can fail, with its stable name and its HTTP and gRPC status: the one place where they are
//! decided. Texts and causes belong to the rooms that fail.

use std::fmt;

/// A stable reason for a failed request: `code` in error bodies, a label in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The body or a header is not what the route reads.
    MalformedRequest,
    /// Tensors do not fit the model's signature.
    InvalidTensors,
    /// The plugin found wrong fields.
    InvalidFields,
    /// The plugin does not read this media type.
    UnsupportedMedia,
    /// The plugin refuses the request.
    Rejected,
    /// The plugin cannot answer now.
    PluginUnavailable,
    /// The plugin reported a fault of its own.
    PluginInternal,
    /// The plugin trapped, ran out of memory or broke the ABI.
    PluginCrashed,
    /// The plugin ran out of time.
    PluginTimeout,
    /// The plugin's tensors or response break its contract with the model or the host.
    PluginContract,
    /// No such model.
    ModelNotFound,
    /// No such version.
    VersionNotFound,
    /// The model is known and no version of it serves.
    NoAvailableVersion,
    /// The version, or the plugin, exists and does not serve.
    ModelNotReady,
    /// A load request failed: the model does not load.
    LoadFailed,
    /// A load request failed: there is no such model, or its configuration is wrong.
    RepositoryFailed,
    /// Load and unload requests are not answered in this mode.
    ModelControlDisabled,
    /// A header that this kind of requests must bring is not there, or is another one.
    Restricted,
    /// The model's queue is full.
    QueueFull,
    /// The request expired in the queue.
    QueueTimeout,
    /// The request's deadline passed elsewhere than in the queue.
    DeadlineExceeded,
    /// The server holds as many requests as it may.
    Overloaded,
    /// The server is stopping.
    ShuttingDown,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// Shared memory is off.
    SharedMemoryDisabled,
    /// No such shared memory region.
    RegionNotFound,
    /// A shared memory region of this name is registered.
    RegionExists,
    /// A shared memory region, or a part of one, cannot lie where it is said to, or does not hold what it has to.
    InvalidRegion,
    /// There are as many, or as large, shared memory regions as there may be.
    RegionsExhausted,
    /// The system refuses to read or write a shared memory object.
    RegionFailed,
    /// The client left.
    Cancelled,
    /// The engine failed.
    EngineFailed,
    /// No such route.
    RouteNotFound,
    /// The route exists for other methods.
    MethodNotAllowed,
    /// This model has no plugin, or is of the other kind.
    NotSupported,
    /// Part of a protocol that this server does not have.
    NotImplemented,
    /// A fault of the server itself.
    Internal,
}

/// gRPC status codes, as numbers so that no transport is needed here. Source: grpc.io, "Status codes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are gRPC's")]
pub enum GrpcStatus {
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

impl ErrorCode {
    /// All of them, in their order.
    pub const ALL: [Self; 37] = [
        Self::MalformedRequest,
        Self::InvalidTensors,
        Self::InvalidFields,
        Self::UnsupportedMedia,
        Self::Rejected,
        Self::PluginUnavailable,
        Self::PluginInternal,
        Self::PluginCrashed,
        Self::PluginTimeout,
        Self::PluginContract,
        Self::ModelNotFound,
        Self::VersionNotFound,
        Self::NoAvailableVersion,
        Self::ModelNotReady,
        Self::LoadFailed,
        Self::RepositoryFailed,
        Self::ModelControlDisabled,
        Self::Restricted,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::DeadlineExceeded,
        Self::Overloaded,
        Self::ShuttingDown,
        Self::BodyTooLarge,
        Self::SharedMemoryDisabled,
        Self::RegionNotFound,
        Self::RegionExists,
        Self::InvalidRegion,
        Self::RegionsExhausted,
        Self::RegionFailed,
        Self::Cancelled,
        Self::EngineFailed,
        Self::RouteNotFound,
        Self::MethodNotAllowed,
        Self::NotSupported,
        Self::NotImplemented,
        Self::Internal,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    #[must_use]
    pub fn http_status(self) -> u16 {
        self.row().1
    }

    /// The HTTP status on the routes of TF Serving: what is not served is not found, known or not, and a request that
    /// expires is late wherever it does, as on every predict.
    #[must_use]
    pub fn tf_serving_status(self) -> u16 {
        match self {
            Self::ModelNotFound => Self::VersionNotFound.http_status(),
            Self::QueueTimeout => Self::DeadlineExceeded.http_status(),
            other => other.http_status(),
        }
    }

    /// The gRPC status.
    #[must_use]
    pub fn grpc_status(self) -> GrpcStatus {
        self.row().2
    }

    /// Whether the plugin is to blame: such failures count against it.
    #[must_use]
    pub fn blames_plugin(self) -> bool {
        matches!(self, Self::PluginInternal | Self::PluginCrashed | Self::PluginTimeout | Self::PluginContract)
    }

    fn row(self) -> (&'static str, u16, GrpcStatus) {
        match self {
            Self::MalformedRequest => ("malformed_request", 400, GrpcStatus::InvalidArgument),
            Self::InvalidTensors => ("invalid_tensors", 400, GrpcStatus::InvalidArgument),
            Self::InvalidFields => ("invalid_fields", 422, GrpcStatus::InvalidArgument),
            Self::UnsupportedMedia => ("unsupported_media", 415, GrpcStatus::Unimplemented),
            Self::Rejected => ("rejected", 403, GrpcStatus::PermissionDenied),
            Self::PluginUnavailable => ("plugin_unavailable", 503, GrpcStatus::Unavailable),
            Self::PluginInternal => ("plugin_internal", 500, GrpcStatus::Internal),
            Self::PluginCrashed => ("plugin_crashed", 500, GrpcStatus::Internal),
            Self::PluginTimeout => ("plugin_timeout", 504, GrpcStatus::DeadlineExceeded),
            Self::PluginContract => ("plugin_contract", 500, GrpcStatus::Internal),
            Self::ModelNotFound => ("model_not_found", 400, GrpcStatus::InvalidArgument),
            Self::VersionNotFound => ("version_not_found", 404, GrpcStatus::NotFound),
            Self::NoAvailableVersion => ("no_available_version", 404, GrpcStatus::NotFound),
            Self::ModelNotReady => ("model_not_ready", 503, GrpcStatus::Unavailable),
            Self::LoadFailed => ("load_failed", 400, GrpcStatus::InvalidArgument),
            Self::RepositoryFailed => ("repository_failed", 400, GrpcStatus::Internal),
            Self::ModelControlDisabled => ("model_control_disabled", 503, GrpcStatus::Unavailable),
            Self::Restricted => ("restricted", 403, GrpcStatus::Unavailable),
            Self::QueueFull => ("queue_full", 503, GrpcStatus::Unavailable),
            Self::QueueTimeout => ("queue_timeout", 503, GrpcStatus::Unavailable),
            Self::DeadlineExceeded => ("deadline_exceeded", 504, GrpcStatus::DeadlineExceeded),
            Self::Overloaded => ("overloaded", 503, GrpcStatus::Unavailable),
            Self::ShuttingDown => ("shutting_down", 503, GrpcStatus::Unavailable),
            Self::BodyTooLarge => ("body_too_large", 413, GrpcStatus::ResourceExhausted),
            Self::SharedMemoryDisabled => ("shared_memory_disabled", 501, GrpcStatus::Unimplemented),
            Self::RegionNotFound => ("region_not_found", 404, GrpcStatus::NotFound),
            Self::RegionExists => ("region_exists", 400, GrpcStatus::AlreadyExists),
            Self::InvalidRegion => ("invalid_region", 400, GrpcStatus::InvalidArgument),
            Self::RegionsExhausted => ("regions_exhausted", 503, GrpcStatus::ResourceExhausted),
            Self::RegionFailed => ("region_failed", 500, GrpcStatus::Internal),
            Self::Cancelled => ("cancelled", 499, GrpcStatus::Cancelled),
            Self::EngineFailed => ("engine_failed", 500, GrpcStatus::Internal),
            Self::RouteNotFound => ("not_found", 404, GrpcStatus::Unimplemented),
            Self::MethodNotAllowed => ("method_not_allowed", 405, GrpcStatus::Unimplemented),
            Self::NotSupported => ("not_supported", 400, GrpcStatus::InvalidArgument),
            Self::NotImplemented => ("not_implemented", 501, GrpcStatus::Unimplemented),
            Self::Internal => ("internal", 500, GrpcStatus::Internal),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_is_every_code_once() {
        // `row` has an arm for every code, or this would not compile.
        let is_arm = |line: &&str| line.contains("=> (\"");
        let arms = include_str!("error_code.rs").lines().filter(is_arm).count();
        assert_eq!(arms, ErrorCode::ALL.len());
        assert_eq!(BTreeSet::from(ErrorCode::ALL.map(ErrorCode::as_str)).len(), arms);
    }
}
