//! JSON as every codec of this server reads and writes it: a pull reader without a tree, numbers that a data type holds
//! exactly or not at all, and elements of tensors on their way from text to bytes and back. Which values make a request,
//! and what is said of those that do not, is each protocol's business.

mod elements;
mod numbers;
mod reader;
mod values;

#[cfg(test)]
mod tests;

pub(in crate::http) use elements::{ElementProblem, ElementReader, read_elements};
pub(in crate::http) use numbers::{Misfit, Number};
pub(in crate::http) use reader::{JsonError, Kind, NESTING_MAX, Reader};
pub(in crate::http) use values::{ELEMENT_TEXT_BYTES, ElementWriter, write, write_elements};

/// Triton's words for values nested too deep.
pub(in crate::http) fn nesting_text() -> String {
    format!("JSON nesting depth exceeds maximum allowed limit ({NESTING_MAX})")
}

/// Triton's words for an input whose values take more than the server allows.
pub(in crate::http) fn too_large_text(input: &str, bytes: u64, bytes_max: usize) -> String {
    format!(
        "JSON input '{}' has a byte_size ({bytes} bytes) that exceeds the maximum allowed value of {bytes_max} bytes. \
         Use --http-max-input-size to increase the limit.",
        crate::failure::clipped(input)
    )
}
