//! `cargo xtask deps`: what the workspace links, checked against deny.toml and against the directions of our own crates.
//! Reads `cargo metadata` for this machine's target and nothing else; only advisories need a database, and are left out
//! where cargo-deny or its database is not there.

mod direction;
mod graph;
mod licence;
mod policy;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::layout::Layout;
use crate::process;

use graph::Graph;
use policy::Policy;

/// Every check; all problems are told at once.
pub(crate) fn check(layout: &Layout) -> Result<()> {
    let policy = Policy::read(&layout.root().join("deny.toml"))?;
    let host = load(layout, &layout.root().join("Cargo.toml"))?;
    let plugins = load(layout, &layout.plugins_manifest())?;
    let mut problems = direction::problems(&host);
    for graph in [&host, &plugins] {
        problems.extend(policy.licence_problems(graph));
        problems.extend(policy.ban_problems(graph));
        problems.extend(policy::source_problems(graph));
        problems.extend(policy.duplicate_problems(graph));
    }
    for unused in policy.unused_skips(&[&host, &plugins]) {
        println!("note: deny.toml skips {unused}, of which there is no second version any more");
    }
    if !problems.is_empty() {
        bail!("{} problems among the dependencies:\n  {}", problems.len(), problems.join("\n  "));
    }
    println!("dependencies: {} packages of the host and {} of the plugins fit", host.len(), plugins.len());
    advisories(layout)
}

fn load(layout: &Layout, manifest: &Path) -> Result<Graph> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new("cargo");
    cargo
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &triple, "--manifest-path"])
        .arg(manifest)
        .current_dir(layout.root());
    let metadata = process::capture(&mut cargo)?;
    Graph::parse(&metadata).with_context(|| format!("read the metadata of {}", manifest.display()))
}

fn advisories(layout: &Layout) -> Result<()> {
    let cargo_deny = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.arg("deny").args(arguments).current_dir(layout.root());
        command
    };
    if !process::succeeds(&mut cargo_deny(&["--version"])) {
        println!("advisories: not checked, cargo-deny is not installed");
        return Ok(());
    }
    if !process::succeeds(&mut cargo_deny(&["fetch", "db"])) {
        println!("advisories: not checked, no advisory database can be reached");
        return Ok(());
    }
    let manifests: [PathBuf; 2] = [layout.root().join("Cargo.toml"), layout.plugins_manifest()];
    for manifest in manifests {
        process::run(cargo_deny(&["--manifest-path"]).arg(manifest).args(["check", "--disable-fetch", "advisories"]))?;
    }
    Ok(())
}
