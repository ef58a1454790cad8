//! Telemetry is off before ONNX Runtime is loaded. The build that tests use has none, so a stand-in tells what it sees then.

use std::fs;
use std::process::Command;

use anyhow::Result;
use tests::Repository;
use tests::command::{airlock, finish};

const VARIABLE: &str = "ORT_DISABLE_TELEMETRY";

/// A library that writes down the variable's value when it is loaded, and is of no further use.
const STAND_IN: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    __attribute__((constructor)) static void loaded(void) {
        const char *value = getenv("ORT_DISABLE_TELEMETRY");
        FILE *saw = fopen(getenv("STAND_IN_SAW"), "a");
        fprintf(saw, "%s\n", value ? value : "nothing");
        fclose(saw);
    }
"#;

#[tokio::test]
async fn a_library_finds_telemetry_disabled_when_it_is_loaded() -> Result<()> {
    let (folder, repository) = (tempfile::tempdir()?, Repository::new()?);
    let place = |name: &str| folder.path().join(name);
    fs::write(place("stand_in.c"), STAND_IN)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([place("stand_in.so"), place("stand_in.c")]);
    finish(compiler).await?.expect_code(0)?;
    let serve = [
        "serve",
        "--http-port",
        "0",
        "--grpc-port",
        "0",
        "--metrics-port",
        "0",
        "--state-dir",
        "state",
        "--model-repository",
    ];
    for (arguments, given) in [(&serve[..], None), (&serve, Some("0")), (&["check"], None), (&["check"], Some("0"))] {
        let mut command = airlock(arguments)?;
        command.arg(repository.path()).arg("--onnxruntime").arg(place("stand_in.so")).current_dir(folder.path());
        command.env_remove(VARIABLE).envs(given.map(|value| (VARIABLE, value))).env("STAND_IN_SAW", place("saw"));
        let printed = finish(command).await?.expect_code(1)?;
        assert!(printed.contains("is a library without OrtGetApiBase, so it is not ONNX Runtime's"), "{printed}");
        assert_eq!(fs::read_to_string(place("saw"))?, "1\n", "{arguments:?} with {given:?}");
        fs::remove_file(place("saw"))?;
    }
    Ok(())
}
