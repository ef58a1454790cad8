//! The checks that need no test to run: format and lints of both workspaces, and the dependencies.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::layout::Layout;
use crate::{deps, process};

/// Format, lints, dependencies.
pub(crate) fn lint(layout: &Layout) -> Result<()> {
    format(layout)?;
    clippy(layout)?;
    deps::check(layout)
}

/// Whether the code of both workspaces is formatted.
pub(crate) fn format(layout: &Layout) -> Result<()> {
    for manifest in manifests(layout) {
        process::run(cargo(layout).args(["fmt", "--all", "--check", "--manifest-path"]).arg(manifest))?;
    }
    Ok(())
}

/// Whether both workspaces are free of warnings, tests included.
pub(crate) fn clippy(layout: &Layout) -> Result<()> {
    let [host, plugins] = manifests(layout);
    let lint = |manifest: PathBuf| {
        let mut clippy = cargo(layout);
        clippy
            .args(["clippy", "--quiet", "--release", "--workspace", "--all-targets", "--manifest-path"])
            .arg(manifest);
        clippy
    };
    process::run(lint(host).args(["--", "--deny", "warnings"]))?;
    process::run(lint(plugins).arg("--target-dir").arg(layout.plugins_target()).args(["--", "--deny", "warnings"]))
}

fn manifests(layout: &Layout) -> [PathBuf; 2] {
    [layout.root().join("Cargo.toml"), layout.plugins_manifest()]
}

fn cargo(layout: &Layout) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(layout.root());
    cargo
}
