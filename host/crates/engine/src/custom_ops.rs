//! Libraries with operators of their own (Triton's `model_operations`). They are native code that runs in this process, so
//! a repository may name only what the operator of the server allows, file by file.

use std::path::{Path, PathBuf};

use ort::session::builder::SessionBuilder;

use crate::session_options::done;

/// Registers the libraries `named` by a configuration with a session's options.
///
/// # Errors
/// A text that says which one is not among `allowed`, or what is wrong with it.
pub(crate) fn add(builder: SessionBuilder, named: &[PathBuf], allowed: &[PathBuf]) -> Result<SessionBuilder, String> {
    named.iter().try_fold(builder, |builder, named| {
        let library = allowed_library(named, allowed)?;
        done(builder.with_operator_library(library)).map_err(|message| format!("'{}': {message}", named.display()))
    })
}

/// The allowed file that a configuration means, whatever name it has for it. Relative names are relative to the server's
/// working folder, as in Triton.
fn allowed_library<'a>(named: &Path, allowed: &'a [PathBuf]) -> Result<&'a Path, String> {
    let is_meant = |file: &Path| {
        let meant = named.canonicalize();
        let file = file.canonicalize();
        matches!((meant, file), (Ok(meant), Ok(file)) if meant == file)
    };
    allowed.iter().map(PathBuf::as_path).find(|file| is_meant(file)).ok_or_else(|| {
        let shown = named.display();
        format!(
            "custom operator libraries are native code, and '{shown}' is not one that this server allows; export the model \
             with standard ONNX operators, or start the server with --custom-op-library {shown}"
        )
    })
}
