//! Why a stage of a plugin gave no answer. The first five are the plugin's own words for the client; the rest are faults,
//! and their texts name the model, the stage, the limit and the value.

use std::fmt;
use std::time::Duration;

use model::ErrorCode;

use crate::FieldError;

/// A stage of a request inside a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Making an instance, which runs the guest's start-up code.
    Instantiate,
    /// Bytes to tensors.
    Preprocess,
    /// Tensors to bytes.
    Postprocess,
}

impl Stage {
    /// The stable name, as in metrics and texts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instantiate => "instantiate",
            Self::Preprocess => "preprocess",
            Self::Postprocess => "postprocess",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where in which plugin something failed; the beginning of a fault's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The model.
    pub model: String,
    /// The plugin's generation.
    pub generation: u64,
    /// The stage.
    pub stage: Stage,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin of model '{}' (generation {}) in {}", self.model, self.generation, self.stage)
    }
}

/// Why a stage gave no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PluginFailure {
    /// The plugin says that the body is not in the format it should be.
    #[error("{0}")]
    Malformed(String),
    /// The plugin says that fields are wrong.
    #[error("{}", fields_text(.0))]
    Invalid(Vec<FieldError>),
    /// The plugin does not read this content type.
    #[error("{0}")]
    UnsupportedMedia(String),
    /// The plugin refuses the request.
    #[error("{0}")]
    Rejected(String),
    /// The plugin cannot answer now.
    #[error("{message}")]
    Unavailable {
        /// When the client may try again.
        retry_after_ms: Option<u32>,
        /// The plugin's text.
        message: String,
    },
    /// The plugin reported a fault of its own; the text is for the plugin's log, not for the client.
    #[error("{place} reported a fault of its own: {message}")]
    Internal {
        /// Where.
        place: Place,
        /// The plugin's text.
        message: String,
    },
    /// The guest trapped or broke the ABI; its instance is gone.
    #[error("{place} crashed: {message}; the instance was dropped, the plugin's log has the backtrace")]
    Crashed {
        /// Where.
        place: Place,
        /// What happened.
        message: String,
    },
    /// The guest died after its memory was refused; its instance is gone.
    #[error(
        "{place} ran out of memory: it asked for {asked} bytes where limits.memory_mb allows {limit}; use less memory or \
         raise the limit in plugin.toml"
    )]
    OutOfMemory {
        /// Where.
        place: Place,
        /// The limit over all memories of an instance.
        limit: usize,
        /// Bytes that the instance would have had.
        asked: usize,
    },
    /// The guest ran longer than its own limit; its instance is gone.
    #[error(
        "{place} ran longer than limits.time_ms of {} ms; the instance was dropped, make the stage quicker or raise the \
         limit in plugin.toml", limit.as_millis()
    )]
    Timeout {
        /// Where.
        place: Place,
        /// The plugin's limit.
        limit: Duration,
    },
    /// The request's own deadline passed while the guest ran or before it could start: not the plugin's fault.
    #[error("{place} had {} ms left of the request's deadline and did not finish; send a longer deadline", budget.as_millis())]
    DeadlineExceeded {
        /// Where.
        place: Place,
        /// What was left when the stage began.
        budget: Duration,
    },
    /// What the plugin gave back breaks the contract.
    #[error("{place} broke its contract: {message}")]
    Contract {
        /// Where.
        place: Place,
        /// What was expected and what was given.
        message: String,
    },
    /// No instance was free before the deadline.
    #[error("{place} got no instance: {message}")]
    Exhausted {
        /// Where.
        place: Place,
        /// Which bound was reached, and what to do.
        message: String,
    },
}

impl PluginFailure {
    /// The stable reason, from which the HTTP and gRPC status follow.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Malformed(_) => ErrorCode::MalformedRequest,
            Self::Invalid(_) => ErrorCode::InvalidFields,
            Self::UnsupportedMedia(_) => ErrorCode::UnsupportedMedia,
            Self::Rejected(_) => ErrorCode::Rejected,
            Self::Unavailable { .. } => ErrorCode::PluginUnavailable,
            Self::Internal { .. } => ErrorCode::PluginInternal,
            Self::Crashed { .. } | Self::OutOfMemory { .. } => ErrorCode::PluginCrashed,
            Self::Timeout { .. } => ErrorCode::PluginTimeout,
            Self::DeadlineExceeded { .. } => ErrorCode::DeadlineExceeded,
            Self::Contract { .. } => ErrorCode::PluginContract,
            Self::Exhausted { .. } => ErrorCode::Overloaded,
        }
    }

    /// The label in metrics, one per kind of failure.
    #[must_use]
    pub fn kind_label(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Invalid(_) => "invalid",
            Self::UnsupportedMedia(_) => "unsupported_media",
            Self::Rejected(_) => "rejected",
            Self::Unavailable { .. } => "unavailable",
            Self::Internal { .. } => "internal",
            Self::Crashed { .. } => "crashed",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::Timeout { .. } => "timeout",
            Self::DeadlineExceeded { .. } => "deadline_exceeded",
            Self::Contract { .. } => "contract",
            Self::Exhausted { .. } => "exhausted",
        }
    }
}

fn fields_text(fields: &[FieldError]) -> String {
    let one = |f: &FieldError| {
        let pointer = if f.pointer.is_empty() { "the body" } else { &f.pointer };
        format!("{pointer}: {}", f.message)
    };
    fields.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plugins_faults_are_blamed_on_it() {
        let place = || Place { model: "m".to_owned(), generation: 1, stage: Stage::Preprocess };
        let text = String::new;
        let blamed = [
            PluginFailure::Internal { place: place(), message: text() },
            PluginFailure::Crashed { place: place(), message: text() },
            PluginFailure::OutOfMemory { place: place(), limit: 1, asked: 2 },
            PluginFailure::Timeout { place: place(), limit: Duration::from_millis(5) },
            PluginFailure::Contract { place: place(), message: text() },
        ];
        assert!(blamed.iter().all(|failure| failure.code().blames_plugin()));
        let others = [
            PluginFailure::Malformed(text()),
            PluginFailure::Invalid(Vec::new()),
            PluginFailure::UnsupportedMedia(text()),
            PluginFailure::Rejected(text()),
            PluginFailure::Unavailable { retry_after_ms: None, message: text() },
            PluginFailure::DeadlineExceeded { place: place(), budget: Duration::ZERO },
            PluginFailure::Exhausted { place: place(), message: text() },
        ];
        assert!(others.iter().all(|failure| !failure.code().blames_plugin()));
    }

    #[test]
    fn wrong_fields_read_as_one_line() {
        let field = |pointer: &str| FieldError {
            pointer: pointer.to_owned(),
            code: "out_of_range".to_owned(),
            message: "must be at most 5".to_owned(),
        };
        let failure = PluginFailure::Invalid(vec![field("/age"), field("")]);
        assert_eq!(failure.to_string(), "/age: must be at most 5; the body: must be at most 5");
    }
}
