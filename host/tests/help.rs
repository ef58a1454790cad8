//! What people read before anything serves: the help of each command, and what each file of settings may hold, as the
//! binary and the parsers print it. A change of a snapshot is a change for them.

use std::path::Path;
use std::process::{Command, Output};

use airlock::repository::plugin_toml::parse_plugin_toml;

/// What the binary prints in an empty folder, with an empty environment.
fn airlock(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airlock"));
    command.args(arguments).env_clear().current_dir(folder).output().expect("the binary starts")
}

#[test]
fn help_of_each_command() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, arguments) in
        [("airlock", &["--help"][..]), ("airlock_serve", &["serve", "--help"]), ("airlock_check", &["check", "--help"])]
    {
        let Output { status, stdout, stderr } = airlock(folder.path(), arguments);
        assert!(status.success() && stderr.is_empty(), "{name}: {status}");
        insta::assert_snapshot!(name, String::from_utf8(stdout).expect("UTF-8"));
    }
}

#[test]
fn keys_of_airlock_toml() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("airlock.toml"), "unknown_to_everybody = 1\n").expect("written");
    let Output { status, stdout, stderr } = airlock(folder.path(), &["serve"]);
    assert!(status.code() == Some(1) && stdout.is_empty(), "{status}");
    insta::assert_snapshot!("airlock_toml", String::from_utf8(stderr).expect("UTF-8"));
}

#[test]
fn keys_of_plugin_toml() {
    let text = "unknown_to_everybody = 1\n[limits]\nunknown_to_everybody = 1\n[grants]\nunknown_to_everybody = 1\n\
                [metrics]\nunknown_to_everybody = 1\n";
    let problems = parse_plugin_toml(Path::new("plugin.toml"), text).expect_err("unknown keys");
    let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("plugin_toml", shown.join("\n"));
}
