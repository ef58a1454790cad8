//! Where the fixtures and built things of this checkout lie, and their bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The checkout: `AIRLOCK_ROOT`, else the folder above this package.
#[must_use]
pub fn root() -> PathBuf {
    let named = std::env::var_os("AIRLOCK_ROOT").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")))
}

/// ONNX Runtime's library: `ORT_DYLIB_PATH`, else what xtask fetched.
///
/// # Errors
/// When there is none.
pub fn onnxruntime() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("ORT_DYLIB_PATH") {
        return Ok(PathBuf::from(named));
    }
    let folder = root().join("target/onnxruntime/lib");
    let advice = || format!("no ONNX Runtime in {}; `cargo xtask test` fetches one", folder.display());
    let mut entries = fs::read_dir(&folder).with_context(advice)?;
    let library = entries.find_map(|entry| {
        let path = entry.ok()?.path();
        path.file_name()?.to_str()?.starts_with("libonnxruntime.so").then_some(path)
    });
    library.with_context(advice)
}

/// An ONNX model of `tests/fixtures/models`, by its name without the ending.
///
/// # Errors
/// When it cannot be read.
pub fn model(name: &str) -> Result<Vec<u8>> {
    read(&root().join("tests/fixtures/models").join(format!("{name}.onnx")), "tests/fixtures/make_*.py writes it")
}

/// A component that was built from `plugins/`, by its package.
///
/// # Errors
/// When it cannot be read.
pub fn plugin(package: &str) -> Result<Vec<u8>> {
    let named = std::env::var_os("AIRLOCK_PLUGINS").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join("plugins/target/components"));
    read(&folder.join(format!("{package}.wasm")), "`cargo xtask plugins` builds it")
}

fn read(path: &Path, advice: &str) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}; {advice}", path.display()))
}
