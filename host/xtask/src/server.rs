//! Builds the server, with the programs that measure it.

use std::process::Command;

use anyhow::Result;

use crate::layout::Layout;
use crate::process;

/// The profile that serving, tests and CI share.
pub(crate) const RELEASE: &str = "release";

/// Builds every program of the workspace but this one, so that whichever is asked for next is built from the same features of their
/// dependencies: asking Cargo for one package at a time would build wasmtime again for each.
pub(crate) fn build(layout: &Layout) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--profile", RELEASE, "--workspace", "--exclude", "xtask", "--bins"])
        .current_dir(layout.root());
    process::run(&mut cargo)
}

/// Builds the server alone, as published figures use it.
pub(crate) fn build_dist(layout: &Layout) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--profile", "dist", "--package", "airlock"]).current_dir(layout.root());
    process::run(&mut cargo)
}
