//! Session options that a configuration passes on by name. ONNX Runtime takes any name, and some of them write files, read
//! files from anywhere or hand options to native libraries: those are not for a model repository to set.

use std::collections::BTreeMap;

/// Beginnings of the names that are refused, with what they would do. Source: `onnxruntime_session_options_config_keys.h`
/// of ONNX Runtime 1.28, and the names in its library.
const REFUSED: [(&str, &str); 10] = [
    ("ep.", "hands options to an execution provider, which can load libraries and write files"),
    ("session.collect_node_memory_stats_to_file", "writes a file"),
    ("session.debug_layout_transformation", "writes the model to files"),
    ("session.enable_profiling", "writes a file"),
    ("session.model_external_initializers_file_folder_path", "reads weights from any folder"),
    ("session.node_partition_config_file", "reads a file of any name"),
    ("session.optimized_model_", "writes the model to a file"),
    ("session.resource_cuda_partitioning_settings", "reads a file of any name"),
    ("session.save_model_format", "is about a file to be written"),
    ("session.use_ort_model_bytes_", "makes the session use memory that is gone once it is loaded"),
];

/// Most bytes of a name and of a value; ONNX Runtime allows no more.
const NAME_BYTES_MAX: usize = 1024;
const VALUE_BYTES_MAX: usize = 4096;

/// Session options by name; none of those that a repository must not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionEntries(BTreeMap<String, String>);

impl SessionEntries {
    /// Adds an option, or replaces its value.
    ///
    /// # Errors
    /// A [`SessionEntryError`] that says why it cannot be one.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), SessionEntryError> {
        if name.is_empty() {
            return Err(SessionEntryError::Unnamed);
        }
        if let Some((_, effect)) = REFUSED.iter().find(|(beginning, _)| name.starts_with(beginning)) {
            return Err(SessionEntryError::Refused { name: name.to_owned(), effect });
        }
        for (what, text, max) in [("name", name, NAME_BYTES_MAX), ("value", value, VALUE_BYTES_MAX)] {
            if text.len() > max {
                return Err(SessionEntryError::TooLong { name: shortened(name), what, bytes: text.len(), max });
            }
            if text.contains('\0') {
                return Err(SessionEntryError::Nul { name: name.escape_debug().to_string(), what });
            }
        }
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// The options, by ascending name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn shortened(name: &str) -> String {
    const SHOWN: usize = 40;
    if name.len() <= NAME_BYTES_MAX { name.to_owned() } else { name.chars().take(SHOWN).chain(['…']).collect() }
}

/// Why something cannot be a session option of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionEntryError {
    /// It has no name.
    #[error("the session option after 'ort.session.' has no name")]
    Unnamed,
    /// A repository must not set it.
    #[error("the session option '{name}' {effect}, so a model repository cannot set it")]
    Refused {
        /// The option.
        name: String,
        /// What it would do.
        effect: &'static str,
    },
    /// ONNX Runtime takes nothing so long.
    #[error("the {what} of the session option '{name}' has {bytes} bytes; it may have at most {max}")]
    TooLong {
        /// The option.
        name: String,
        /// Its name or its value.
        what: &'static str,
        /// Bytes given.
        bytes: usize,
        /// Most bytes.
        max: usize,
    },
    /// ONNX Runtime would read it only up to there.
    #[error("the {what} of the session option '{name}' holds a NUL character")]
    Nul {
        /// The option.
        name: String,
        /// Its name or its value.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_tune_the_session_pass() {
        let mut entries = SessionEntries::default();
        for name in ["session.intra_op.allow_spinning", "optimization.enable_gelu_approximation", "mlas.use_lut_gemm"] {
            assert_eq!(entries.insert(name, "1"), Ok(()), "{name}");
        }
        entries.insert("mlas.use_lut_gemm", "0").expect("replaced");
        assert_eq!(entries.iter().next(), Some(("mlas.use_lut_gemm", "0")));
        assert_eq!(entries.iter().count(), 3);
    }

    #[test]
    fn options_that_reach_beyond_the_session_are_refused() {
        let cases = [
            ("", "1", "the session option after 'ort.session.' has no name"),
            (
                "ep.context_enable",
                "1",
                "the session option 'ep.context_enable' hands options to an execution provider, which can load libraries and write files, so a model repository cannot set it",
            ),
            (
                "session.optimized_model_external_initializers_file_name",
                "x",
                "the session option 'session.optimized_model_external_initializers_file_name' writes the model to a file, so a model repository cannot set it",
            ),
            (
                "session.model_external_initializers_file_folder_path",
                "/",
                "the session option 'session.model_external_initializers_file_folder_path' reads weights from any folder, so a model repository cannot set it",
            ),
            (
                "session.use_ort_model_bytes_directly",
                "1",
                "the session option 'session.use_ort_model_bytes_directly' makes the session use memory that is gone once it is loaded, so a model repository cannot set it",
            ),
            ("a\0b", "1", "the name of the session option 'a\\0b' holds a NUL character"),
            ("a", "1\0", "the value of the session option 'a' holds a NUL character"),
            ("a", &"1".repeat(4097), "the value of the session option 'a' has 4097 bytes; it may have at most 4096"),
        ];
        for (name, value, text) in cases {
            let mut entries = SessionEntries::default();
            assert_eq!(entries.insert(name, value).expect_err(text).to_string(), text);
            assert_eq!(entries.iter().count(), 0);
        }
        let long = SessionEntries::default().insert(&"n".repeat(1025), "").expect_err("too long").to_string();
        assert!(long.ends_with("…' has 1025 bytes; it may have at most 1024") && long.len() < 160, "{long}");
    }
}
