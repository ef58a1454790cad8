//! Gathering every wrong field of a request before answering.

use crate::{FieldError, PluginError};

/// How many field errors are kept. What is past it is counted in one last entry, so that a body of a million wrong
/// elements does not make an answer of a million errors.
pub const FIELD_ERRORS_MAX: usize = 64;

/// The wrong fields found so far, in the order they were found.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    errors: Vec<FieldError>,
    left_out: usize,
}

impl Fields {
    /// No wrong field so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one wrong field: its RFC 6901 pointer, a stable code for programs, a message for people.
    pub fn add(&mut self, pointer: impl Into<String>, code: impl Into<String>, message: impl Into<String>) {
        if self.errors.len() == FIELD_ERRORS_MAX {
            self.left_out += 1;
            return;
        }
        self.errors.push(FieldError { pointer: pointer.into(), code: code.into(), message: message.into() });
    }

    /// Whether nothing was found wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Ends the gathering.
    ///
    /// # Errors
    /// `invalid` with every wrong field, where there is one.
    pub fn finish(mut self) -> Result<(), PluginError> {
        if self.errors.is_empty() {
            return Ok(());
        }
        if self.left_out > 0 {
            self.errors.push(FieldError {
                pointer: String::new(),
                code: "more_errors".to_owned(),
                message: format!("{} more errors were left out", self.left_out),
            });
        }
        Err(PluginError::Invalid(self.errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wrong_is_ok_and_everything_wrong_is_listed() {
        assert_eq!(Fields::new().finish(), Ok(()));
        let mut fields = Fields::new();
        fields.add("/a", "missing", "is missing");
        fields.add("/b/0", "wrong_type", "expected a number, got text");
        assert!(!fields.is_empty());
        let Err(PluginError::Invalid(errors)) = fields.finish() else { panic!() };
        assert_eq!(errors.iter().map(|e| e.pointer.as_str()).collect::<Vec<_>>(), ["/a", "/b/0"]);
    }

    #[test]
    fn errors_past_the_limit_are_counted() {
        let mut fields = Fields::new();
        for index in 0..FIELD_ERRORS_MAX + 3 {
            fields.add(format!("/{index}"), "wrong_type", "no");
        }
        let Err(PluginError::Invalid(errors)) = fields.finish() else { panic!() };
        assert_eq!(errors.len(), FIELD_ERRORS_MAX + 1);
        let last = errors.last().unwrap();
        assert_eq!((last.code.as_str(), last.message.as_str()), ("more_errors", "3 more errors were left out"));
    }
}
