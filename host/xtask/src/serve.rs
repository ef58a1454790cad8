//! `cargo xtask serve`: builds the server and becomes it, so that signals reach it directly. The greeting comes from a
//! small process beside it (see `hello`), because what has been replaced by the server can no longer print.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::hello::HelloArgs;
use crate::layout::Layout;
use crate::{server, setup};

/// Does not return where the server starts.
pub(crate) fn serve(layout: &Layout, extra: &[OsString]) -> Result<()> {
    setup::setup(layout)?;
    server::build(layout)?;

    let hello = HelloArgs {
        pid: std::process::id(),
        port_file: flag_value(extra, "--port-file").unwrap_or_else(|| layout.fetched("airlock-ports.json")),
        model_repository: flag_value(extra, "--model-repository").unwrap_or_else(|| layout.model_repository()),
    };
    let mut airlock = Command::new(layout.airlock(server::RELEASE));
    airlock.arg("serve");
    let defaults = [
        ("--model-repository", hello.model_repository.clone()),
        ("--onnxruntime", layout.onnxruntime()),
        ("--state-dir", layout.fetched("airlock-state")),
        ("--port-file", hello.port_file.clone()),
        ("--http-address", PathBuf::from("127.0.0.1")),
    ];
    for (flag, value) in defaults {
        if flag_value(extra, flag).is_none() {
            airlock.arg(flag).arg(value);
        }
    }
    airlock.args(extra);
    hello.start_beside().context("start the process that prints the greeting")?;
    let failure = airlock.exec();
    Err(failure).with_context(|| format!("start {}", layout.airlock(server::RELEASE).display()))
}

/// The value of `--flag value` or `--flag=value`.
fn flag_value(arguments: &[OsString], flag: &str) -> Option<PathBuf> {
    let prefix = format!("{flag}=");
    for (index, argument) in arguments.iter().enumerate() {
        if argument == flag {
            return arguments.get(index + 1).map(PathBuf::from);
        }
        if let Some(value) = argument.to_str().and_then(|argument| argument.strip_prefix(&prefix)) {
            return Some(PathBuf::from(OsStr::new(value)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_both_spellings() {
        let arguments: Vec<OsString> =
            ["--http-port", "9000", "--state-dir=/s", "--last"].into_iter().map(OsString::from).collect();
        for (flag, expected) in [
            ("--http-port", Some("9000")),
            ("--state-dir", Some("/s")),
            ("--state", None),
            ("--last", None),
            ("--absent", None),
        ] {
            assert_eq!(flag_value(&arguments, flag), expected.map(PathBuf::from), "{flag}");
        }
    }
}
