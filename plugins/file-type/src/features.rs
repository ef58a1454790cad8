//! From a file's bytes to the model's tokens.
//!
//! Source of the rules: Magika's feature extraction, version 2. From a block at either end of the file, white space is
//! cut off on the outer side, then a fixed number of bytes is taken, padded on the inner side where there are fewer.

use crate::tables::{EMPTY, Model, TEXT, UNKNOWN};

/// What preprocess learns from the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Features {
    /// The label is certain, or the file is too short for the model.
    Known(&'static str),
    /// What to show to the model.
    Tokens(Vec<i32>),
}

/// Looks at a file.
pub(crate) fn extract(file: &[u8], model: &Model) -> Features {
    if file.is_empty() {
        return Features::Known(EMPTY);
    }
    if file.len() < model.min_file_size_for_dl {
        return Features::Known(text_or_unknown(file));
    }
    let block_size = model.block_size.min(file.len());
    let start = without_leading_white_space(&file[..block_size]);
    if start.len() < model.min_file_size_for_dl {
        return Features::Known(text_or_unknown(&file[..block_size]));
    }
    let end = without_trailing_white_space(&file[file.len() - block_size..]);
    Features::Tokens(tokens(start, end, model))
}

fn tokens(start: &[u8], end: &[u8], model: &Model) -> Vec<i32> {
    let start = &start[..start.len().min(model.beg_size)];
    let end = &end[end.len() - end.len().min(model.end_size)..];
    let size = model.beg_size + model.end_size;
    let mut tokens = vec![model.padding_token; size];
    for (token, byte) in tokens.iter_mut().zip(start) {
        *token = i32::from(*byte);
    }
    for (token, byte) in tokens[size - end.len()..].iter_mut().zip(end) {
        *token = i32::from(*byte);
    }
    tokens
}

fn text_or_unknown(bytes: &[u8]) -> &'static str {
    if std::str::from_utf8(bytes).is_ok() { TEXT } else { UNKNOWN }
}

fn without_leading_white_space(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !is_white_space(*byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

fn without_trailing_white_space(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !is_white_space(*byte)).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// White space as Python's `bytes.strip` knows it; Rust's ASCII white space lacks the vertical tab.
fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
