//! Making plugin errors.

use crate::{FieldError, PluginError, Unavailability};

impl PluginError {
    /// The body is not in the format it should be.
    #[must_use]
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::Malformed(message.into())
    }

    /// One field is wrong. Use [`crate::Fields`] where several can be.
    #[must_use]
    pub fn field(pointer: impl Into<String>, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError { pointer: pointer.into(), code: code.into(), message: message.into() }])
    }

    /// The plugin cannot answer now; the client may try again after so many milliseconds.
    #[must_use]
    pub fn unavailable(message: impl Into<String>, retry_after_ms: Option<u32>) -> Self {
        Self::Unavailable(Unavailability { retry_after_ms, message: message.into() })
    }

    /// A fault of the plugin itself. The text goes to the plugin's log, never to the client.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal(message.into())
    }
}
