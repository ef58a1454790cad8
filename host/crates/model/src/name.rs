//! Names that appear in paths, URLs and metric labels, checked once at the edge.

use std::borrow::Borrow;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

/// A model's name: the name of its folder. Never empty, no path separator, no traversal, no control character and at
/// most 255 bytes, so it can be joined to a path and printed in a label as it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName(Arc<str>);

/// Why a text is not a [`ModelName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a model name cannot be empty")]
    Empty,
    /// The text is longer than a file name may be.
    #[error("a model name has at most 255 bytes")]
    TooLong,
    /// The text would leave the repository or hide from it.
    #[error("a model name must not start with '.', nor contain '/', '\\' or a control character")]
    Forbidden,
}

impl ModelName {
    /// Checks `text`.
    ///
    /// # Errors
    /// A [`NameError`] that says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > 255 {
            return Err(NameError::TooLong);
        }
        let forbidden = |c: char| matches!(c, '/' | '\\') || c.is_control();
        if text.starts_with('.') || text.contains(forbidden) {
            return Err(NameError::Forbidden);
        }
        Ok(Self(text.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ModelName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for ModelName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A version of a model: the number its folder is named by, from 1 up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionNumber(NonZeroU64);

impl VersionNumber {
    /// `number` as a version; `None` for 0.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Reads a version folder's name. `None` for anything but a positive decimal number without a leading zero or sign
    /// (Triton ignores such folders too).
    #[must_use]
    pub fn from_folder(name: &str) -> Option<Self> {
        let plain = name.bytes().all(|b| b.is_ascii_digit()) && !name.starts_with('0');
        plain.then(|| name.parse().ok()).flatten().and_then(Self::new)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_names_stay_inside_the_repository() {
        for good in ["fraud_v3", "a b", "模型", "x.y"] {
            assert_eq!(ModelName::new(good).map(|n| n.to_string()), Ok(good.to_owned()));
        }
        let long = "x".repeat(256);
        let cases = [
            ("", NameError::Empty),
            ("..", NameError::Forbidden),
            (".hidden", NameError::Forbidden),
            ("a/b", NameError::Forbidden),
            ("a\\b", NameError::Forbidden),
            ("a\nb", NameError::Forbidden),
            (long.as_str(), NameError::TooLong),
        ];
        for (text, error) in cases {
            assert_eq!(ModelName::new(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn version_folders_are_positive_plain_numbers() {
        let parsed = |name| VersionNumber::from_folder(name).map(VersionNumber::get);
        assert_eq!(parsed("1"), Some(1));
        assert_eq!(parsed("20261130"), Some(20_261_130));
        for ignored in ["0", "01", "-1", "+1", "1.0", "v1", "", " 1", "99999999999999999999999"] {
            assert_eq!(parsed(ignored), None, "{ignored:?}");
        }
    }
}
