//! `cargo xtask test`: the checks, then the tests at every level, in stages. Everything is built once in one profile;
//! the first stage that fails ends the run.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::layout::Layout;
use crate::{deps, lint, plugins, process, server, setup};

/// pytest's exit code where no test was selected.
const PYTEST_NOTHING_SELECTED: i32 = 5;

/// A stage's name and how long it took.
type Timing = (&'static str, Duration);

/// Every check and every test.
pub(crate) fn everything(layout: &Layout) -> Result<()> {
    let mut timings = Vec::new();
    stage(&mut timings, "format", || lint::format(layout))?;
    stage(&mut timings, "lints", || lint::clippy(layout))?;
    stage(&mut timings, "dependencies", || deps::check(layout))?;
    tests(layout, &mut timings, None)
}

/// The tests whose name contains `filter`.
pub(crate) fn filtered(layout: &Layout, filter: &str) -> Result<()> {
    tests(layout, &mut Vec::new(), Some(filter))
}

fn tests(layout: &Layout, timings: &mut Vec<Timing>, filter: Option<&str>) -> Result<()> {
    stage(timings, "setup", || setup::setup(layout))?;
    stage(timings, "plugins", || plugins::build_all(layout.root()))?;
    stage(timings, "build", || build(layout))?;
    stage(timings, "Rust tests", || rust_tests(layout, filter))?;
    stage(timings, "plugin tests", || plugin_tests(layout, filter))?;
    stage(timings, "Python tests", || python_tests(layout, filter))?;
    println!("\n{}", report(timings));
    Ok(())
}

/// The server and all tests in one go, so that both are built from the same features of their dependencies.
fn build(layout: &Layout) -> Result<()> {
    process::run(cargo(layout).args(["build", "--release", "--workspace", "--bins", "--lib", "--tests"]))
}

fn rust_tests(layout: &Layout, filter: Option<&str>) -> Result<()> {
    let mut test = cargo(layout);
    process::run(test.args(["test", "--quiet", "--release", "--workspace", "--no-fail-fast"]).args(filter))
}

fn plugin_tests(layout: &Layout, filter: Option<&str>) -> Result<()> {
    let mut test = cargo(layout);
    test.args(["test", "--quiet", "--release", "--workspace", "--manifest-path"])
        .arg(layout.plugins_manifest())
        .arg("--target-dir")
        .arg(layout.plugins_target())
        .args(filter);
    process::run(&mut test)
}

fn python_tests(layout: &Layout, filter: Option<&str>) -> Result<()> {
    let selection = match filter.map(python_selection) {
        Some(None) => return Ok(()),
        Some(Some(name)) => vec!["-k".to_owned(), name],
        None => Vec::new(),
    };
    setup::python_tests(layout)?;
    let mut pytest = Command::new(layout.python());
    pytest
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/python"])
        .args(selection)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(layout.test_environment(server::RELEASE))
        .current_dir(layout.root());
    let code = process::exit_code(&mut pytest)?;
    ensure!(code == 0 || (filter.is_some() && code == PYTEST_NOTHING_SELECTED), "pytest ended with exit code {code}");
    Ok(())
}

/// A filter that is no Python name, such as a Rust path, selects no Python test.
fn python_selection(filter: &str) -> Option<String> {
    filter.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then(|| filter.to_owned())
}

fn cargo(layout: &Layout) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(layout.root()).envs(layout.test_environment(server::RELEASE));
    cargo
}

#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "how long CI takes is a figure to watch")]
fn stage(timings: &mut Vec<Timing>, name: &'static str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("\n== {name}");
    let start = std::time::Instant::now();
    run().with_context(|| format!("stage \"{name}\" failed"))?;
    timings.push((name, start.elapsed()));
    Ok(())
}

fn report(timings: &[Timing]) -> String {
    let stages: Vec<_> = timings.iter().map(|(name, took)| format!("{name} {} s", took.as_secs())).collect();
    let total: Duration = timings.iter().map(|(_, took)| *took).sum();
    format!("all stages passed in {} s: {}", total.as_secs(), stages.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_select_python_tests() {
        for (filter, selects) in [("fraud", true), ("test_v2", true), ("queue::tests", false), ("a or b", false)] {
            assert_eq!(python_selection(filter).is_some(), selects, "{filter}");
        }
    }

    #[test]
    fn a_failed_stage_is_named_and_ends_the_run() {
        let mut timings = Vec::new();
        let failure = stage(&mut timings, "lints", || anyhow::bail!("two warnings")).expect_err("it failed");
        assert_eq!(format!("{failure:#}"), "stage \"lints\" failed: two warnings");
        assert!(timings.is_empty());
    }

    #[test]
    fn the_report_adds_up() {
        let timings = [("build", Duration::from_secs(61)), ("Rust tests", Duration::from_secs(9))];
        assert_eq!(report(&timings), "all stages passed in 70 s: build 61 s, Rust tests 9 s");
    }
}
