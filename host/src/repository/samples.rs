//! Samples: recorded requests with their expected answers, in `samples/<case>/` beside a plugin. Reading is strict and
//! bounded; comparing an answer with an expectation is pure; recording new expectations is the only thing that writes.
//!
//! A case holds `request.<ext>`, `expected.<ext>`, and where wanted `headers.json` and `expect.toml`. The extension says
//! the content type: `json`, `txt`, and octets for all others.

mod compare;
mod expect_toml;
mod folder;
mod pointer;
mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

pub use compare::{Difference, Expectation};
pub use record::write_expected;

use super::problem::Problem;

/// Most samples beside one plugin.
pub const SAMPLES_MAX: usize = 256;
/// Most bytes of one file of a sample.
pub const SAMPLE_FILE_BYTES_MAX: u64 = 16 << 20;
/// Most bytes of all samples beside one plugin.
pub const SAMPLES_BYTES_MAX: u64 = 128 << 20;
/// Most headers of one sample.
pub const SAMPLE_HEADERS_MAX: usize = 64;

/// A recorded request and what its answer is held to.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The case: its folder's name.
    pub name: String,
    /// Its folder.
    pub dir: PathBuf,
    /// The request's content type.
    pub content_type: String,
    /// The request's headers, names in lower case, without the content type.
    pub headers: Vec<(String, String)>,
    /// The request's body.
    pub body: Bytes,
    /// What the answer is held to.
    pub expectation: Expectation,
}

/// Reads the cases in `dir`, by name; none where `dir` does not exist. Files beside the cases and hidden folders are left
/// alone. A case without an expected file is read too: its expectation says how to record one.
///
/// # Errors
/// Every problem of every case.
pub fn read_samples(dir: &Path) -> Result<Vec<Sample>, Vec<Problem>> {
    let cases = case_folders(dir).map_err(|error| vec![Problem::of_file(dir, format!("cannot be listed: {error}"))])?;
    if cases.len() > SAMPLES_MAX {
        let message = format!("holds {} samples; it may hold at most {SAMPLES_MAX}", cases.len());
        return Err(vec![Problem::of_file(dir, message)]);
    }
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    let mut bytes_left = SAMPLES_BYTES_MAX;
    for case in cases {
        match folder::read(&case, &mut bytes_left) {
            Ok(sample) => samples.push(sample),
            Err(more) => problems.extend(more),
        }
    }
    if problems.is_empty() { Ok(samples) } else { Err(problems) }
}

fn case_folders(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut cases = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() && !hidden {
            cases.push(path);
        }
    }
    cases.sort();
    Ok(cases)
}

/// How a file's extension names its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Text,
    Octets,
}

impl Form {
    fn of_file(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::Json,
            Some("txt") => Self::Text,
            _ => Self::Octets,
        }
    }

    fn of_content_type(content_type: &str) -> Self {
        match essence(content_type).as_str() {
            "text/plain" => Self::Text,
            json if json == "application/json" || json.ends_with("+json") => Self::Json,
            _ => Self::Octets,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain",
            Self::Octets => "application/octet-stream",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "txt",
            Self::Octets => "bin",
        }
    }
}

/// A content type without its parameters, in lower case.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
