//! Starts that fail: the text on standard error names the thing and the way out, and the exit code says so.

use std::net::TcpListener;
use std::path::Path;

use anyhow::Result;
use tests::command::{airlock, binary, finish};
use tests::{Repository, Server, ServerOptions};

/// `airlock serve` of an empty repository with these further arguments.
async fn serve(folder: &Path, arguments: &[&str]) -> Result<String> {
    let repository = Repository::new()?;
    let mut command = airlock(&[
        "serve",
        "--http-port",
        "0",
        "--grpc-port",
        "0",
        "--metrics-port",
        "0",
        "--http-address",
        "127.0.0.1",
    ])?;
    command.arg("--model-repository").arg(repository.path()).args(["--state-dir", "state"]).args(arguments);
    command.current_dir(folder);
    finish(command).await?.expect_code(1)
}

fn assert_says(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "{part:?} is not in:\n{printed}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let owner = TcpListener::bind("127.0.0.1:0")?;
    let port = owner.local_addr()?.port().to_string();
    let flags = ["--http-port", "--grpc-port", "--metrics-port"];
    for taken in flags {
        let repository = Repository::new()?;
        let mut command = airlock(&["serve", "--http-address", "127.0.0.1"])?;
        command.args(flags.iter().flat_map(|&flag| [flag, if flag == taken { &port } else { "0" }]));
        command.arg("--model-repository").arg(repository.path()).args(["--state-dir", "state"]);
        command.current_dir(folder.path());
        let printed = finish(command).await?.expect_code(1)?;
        let place = format!("listening on 127.0.0.1:{port}: ");
        assert_says(&printed, &[&place, &format!("choose another with {taken}")]);
    }
    Ok(())
}

#[tokio::test]
async fn settings_that_are_wrong_are_told_all_at_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("airlock.toml"), "http_prot = 8000\nsettle_ms = \"fast\"\nrescan_ms = 20\n")?;
    let printed = serve(folder.path(), &[]).await?;
    assert_says(
        &printed,
        &["airlock.toml: unknown key 'http_prot'; did you mean 'http_port'?", "settle_ms = \"fast\""],
    );

    std::fs::write(folder.path().join("airlock.toml"), "rescan_ms = 1\nhistory_keep = 0\n")?;
    let printed = serve(folder.path(), &["--plugin-memory-mb", "5000"]).await?;
    assert_says(&printed, &["rescan_ms", "from 10 to 86400000", "history_keep", "plugin_memory_mb", "5000"]);
    Ok(())
}

#[tokio::test]
async fn files_that_cannot_be_read_are_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("airlock.toml"), "http_port = [\n")?;
    assert_says(&serve(folder.path(), &[]).await?, &["airlock.toml: "]);
    assert_says(&serve(folder.path(), &["--config", "absent.toml"]).await?, &["reading absent.toml: "]);
    Ok(())
}

#[tokio::test]
async fn folders_that_cannot_serve_are_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("file"), "")?;
    std::fs::create_dir(folder.path().join("models"))?;
    let cases: [(&[&str], &[&str]); 4] = [
        (&[], &["no model repository; give one with --model-repository DIR"]),
        (&["--model-repository", "absent"], &["model repository absent is not a folder"]),
        (
            &["--model-repository", "models", "--state-dir", "models/state"],
            &["state_dir models/state lies inside model repository models; give another with --state-dir DIR"],
        ),
        (
            &["--model-repository", "models", "--state-dir", "file/state"],
            &["creating the state folder file/state: ", "choose another with --state-dir DIR"],
        ),
    ];
    for (arguments, parts) in cases {
        let mut command = airlock(&["serve", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"])?;
        command.args(arguments).current_dir(folder.path());
        assert_says(&finish(command).await?.expect_code(1)?, parts);
    }
    Ok(())
}

#[tokio::test]
async fn an_unknown_flag_is_answered_with_the_one_that_was_meant() -> Result<()> {
    let printed = finish(airlock(&["serve", "--http-prot", "1"])?).await?.expect_code(2)?;
    assert_says(&printed, &["--http-prot", "--http-port"]);
    let printed = finish(airlock(&["server"])?).await?.expect_code(2)?;
    assert_says(&printed, &["'server'", "'serve'"]);
    Ok(())
}

#[tokio::test]
async fn a_library_that_is_missing_or_wrong_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let no_library = folder.path().join("libonnxruntime.so");
    std::fs::write(&no_library, "not a library")?;
    let cases: [(&str, &[&str]); 2] = [
        ("absent.so", &["--onnxruntime names absent.so", "there is no ONNX Runtime library"]),
        ("libonnxruntime.so", &["libonnxruntime.so", "use a library built for this machine"]),
    ];
    for (library, parts) in cases {
        assert_says(&serve(folder.path(), &["--onnxruntime", library]).await?, parts);
    }
    Ok(())
}

#[tokio::test]
async fn without_any_library_the_three_ways_to_provide_one_are_told() -> Result<()> {
    let repository = Repository::new()?;
    let folder = tempfile::tempdir()?;
    // Away from the build's own folder, where it would find what xtask fetched.
    let moved = folder.path().join("airlock");
    std::fs::copy(binary()?, &moved)?;
    let mut command = std::process::Command::new(&moved);
    command.env_clear().env("HOME", folder.path()).current_dir(folder.path());
    command.args([
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
    ]);
    command.arg(repository.path());
    let printed = finish(command).await?.expect_code(1)?;
    assert_says(&printed, &["--onnxruntime PATH", "ORT_DYLIB_PATH", "pip install onnxruntime", "Looked at: "]);
    Ok(())
}

#[tokio::test]
async fn flags_outweigh_the_environment_and_that_the_file() -> Result<()> {
    let repository = Repository::new()?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("airlock.toml"), "max_in_flight = 11\nhistory_keep = 12\nmax_queue_size = 13\n")?;
    let options = ServerOptions::new(&repository).working_dir(folder.path());
    let options = options.variable("AIRLOCK_HISTORY_KEEP", "22").variable("AIRLOCK_MAX_QUEUE_SIZE", "23");
    let server: Server = options.flag("--max-queue-size", "33").start().await?;
    let metrics = server.metrics().await?;
    for (name, expected) in [("max_in_flight", 11.0), ("history_keep", 22.0), ("max_queue_size", 33.0)] {
        assert_eq!(metrics.value("airlock_limit", &[("name", name)]), expected, "{name}");
    }
    server.stop().await?;
    Ok(())
}
