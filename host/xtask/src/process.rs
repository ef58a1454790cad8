//! Running other programs: each is shown before it runs, and a failure names the program and how it ended.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Runs with the caller's output, and fails where the program does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let code = exit_code(command)?;
    ensure!(code == 0, "`{}` ended with exit code {code}", shown(command));
    Ok(())
}

/// Runs with the caller's output, and returns the exit code for the caller to judge.
pub(crate) fn exit_code(command: &mut Command) -> Result<i32> {
    eprintln!("$ {}", shown(command));
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("start `{}`", shown(command)))?;
    match status.code() {
        Some(code) => Ok(code),
        None => bail!("`{}` was ended by a signal: {status}", shown(command)),
    }
}

/// Runs silently and returns what it printed on standard output; a failure carries both outputs.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start `{}`", shown(command)))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}):\n{stdout}{stderr}", shown(command), output.status);
    }
    Ok(stdout)
}

/// Whether the program is there and succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Waits a little before a condition is looked at again; it may return early.
pub(crate) fn pause() {
    thread::park_timeout(Duration::from_millis(50));
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
