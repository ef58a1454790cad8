//! `--http-header-forward-pattern`: which headers of a request become parameters of it.

use regex::{Regex, RegexBuilder};

/// Bytes that the compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A pattern of header names, whatever their case; a part of a name is enough. The syntax is RE2's, as far as
/// the `regex` crate shares it.
#[derive(Clone, Debug)]
pub struct HeaderPattern(Regex);

impl HeaderPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// A text that names the setting, the pattern and what is wrong with it.
    pub fn new(setting: &str, pattern: &str) -> Result<Self, String> {
        let compiled = RegexBuilder::new(pattern).case_insensitive(true).size_limit(COMPILED_BYTES_MAX).build();
        compiled
            .map(Self)
            .map_err(|error| format!("{setting} is '{pattern}'; it must be a regular expression: {error}"))
    }

    /// Whether a header of this name becomes a parameter.
    #[must_use]
    pub fn matches(&self, header: &str) -> bool {
        self.0.is_match(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_is_enough_in_any_case() {
        let pattern = HeaderPattern::new("s", "My-.*").expect("a pattern");
        assert!(pattern.matches("my-header") && pattern.matches("not-my-header"));
        assert!(!pattern.matches("other"));
        let pattern = HeaderPattern::new("s", "(?-i)^X$").expect("a pattern");
        assert!(pattern.matches("X") && !pattern.matches("x"));
    }

    #[test]
    fn patterns_that_are_none_or_too_large() {
        for bad in ["(", "(?:(?:a{1000}){1000}){1000}"] {
            let text = HeaderPattern::new("the_setting", bad).expect_err("refused");
            assert!(text.starts_with("the_setting is '") && text.contains(bad), "{text}");
        }
    }
}
