//! Values that an instance makes once and keeps, such as tables read from assets.

use std::sync::OnceLock;

use crate::PluginError;

/// A value made at its first use in an instance. For what belongs to the plugin, never for what belongs to a request.
#[derive(Debug, Default)]
pub struct PerInstance<T> {
    cell: OnceLock<T>,
}

impl<T> PerInstance<T> {
    /// Not made yet; for a `static`.
    #[must_use]
    pub const fn new() -> Self {
        Self { cell: OnceLock::new() }
    }

    /// The value, made now if this is the first use. After a failure the next use tries again.
    ///
    /// # Errors
    /// What `make` answers.
    pub fn get_or_make(&self, make: impl FnOnce() -> Result<T, PluginError>) -> Result<&T, PluginError> {
        if let Some(value) = self.cell.get() {
            return Ok(value);
        }
        let value = make()?;
        Ok(self.cell.get_or_init(|| value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_a_failure_is_not_kept() {
        let value = PerInstance::new();
        assert!(value.get_or_make(|| Err(PluginError::internal("not yet"))).is_err());
        assert_eq!(value.get_or_make(|| Ok(1)), Ok(&1));
        assert_eq!(value.get_or_make(|| Ok(2)), Ok(&1));
    }
}
