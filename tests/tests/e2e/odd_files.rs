//! What lies in a model's folder and is no file, or not one that can be read: it is told once, costs its own model nothing
//! that serves, and no other model anything.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::{Result, ensure};
use tests::scaler::{self, Scaled, Scaling};
use tests::{ModelFolder, Repository, Server, ServerOptions, fixtures};

const MODEL: &str = "scaler";
const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

async fn served() -> Result<(Repository, ModelFolder, Server)> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("one", 10.0))?;
    let server = Server::start(&repository).await?;
    Ok((repository, folder, server))
}

async fn scaling(server: &Server, model: &str) -> Result<Scaling> {
    Ok(Scaled::read(&server.predict(model, scaler::body(X)).await?, X)?.scaling)
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_keeps_serving_what_it_served() -> Result<()> {
    let (_repository, folder, server) = served().await?;
    let before = server.log().mark();
    fs::create_dir(folder.path("assets"))?;
    symlink(".", folder.path("assets/around"))?;
    let told = ["level=ERROR", "the model's folder cannot be read", "nested deeper than 8"];
    server.log().wait_for(before, &told).await?;
    assert_eq!(scaling(&server, MODEL).await?, Scaling::new("one", 10.0));
    fs::remove_dir_all(folder.path("assets"))?;
    folder.write("plugin.toml", Scaling::new("two", 20.0).manifest())?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=2"]).await?;
    assert!(server.log().find(before, &["model removed"]).is_none());
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn pipes_and_devices_hold_up_nobody() -> Result<()> {
    let (repository, folder, server) = served().await?;
    let before = server.log().mark();
    for name in ["pipe-a", "pipe-b", "pipe-c"] {
        let added = repository.add(name, |folder| folder.write("config.pbtxt", ""))?;
        fs::create_dir(added.path("1"))?;
        ensure!(Command::new("mkfifo").arg(added.path("1/model.onnx")).status()?.success(), "mkfifo");
    }
    symlink("/dev/zero", folder.path("samples"))?;
    for name in ["pipe-a", "pipe-b", "pipe-c"] {
        server.log().wait_for(before, &["message=refused", &format!("model={name}"), "not a regular file"]).await?;
    }
    fs::remove_file(folder.path("samples"))?;
    folder.write("plugin.toml", Scaling::new("two", 20.0).manifest())?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=2"]).await?;
    assert_eq!(scaling(&server, MODEL).await?, Scaling::new("two", 20.0));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_link_to_nothing_is_no_deletion() -> Result<()> {
    for (name, part) in
        [("plugin.wasm", "part=plugin"), ("plugin.toml", "part=plugin"), ("config.pbtxt", "part=config")]
    {
        let (_repository, folder, server) = served().await?;
        let before = server.log().mark();
        folder.remove(name)?;
        symlink("nowhere", folder.path(name))?;
        server.log().wait_for(before, &["message=refused", part]).await?;
        assert_eq!(scaling(&server, MODEL).await?, Scaling::new("one", 10.0), "{name}");
        server.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_warm_up_that_no_memory_could_hold_is_refused() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, MODEL, &Scaling::new("one", 10.0))?;
    repository.add("huge", |folder| {
        folder.write("1/model.onnx", fixtures::model("dynamic")?)?;
        let warmup = "model_warmup { name: 'w' batch_size: 1 inputs { key: 'x' value { data_type: TYPE_FP32
                      dims: [ 20000000000000 ] zero_data: true } } }";
        folder.write("config.pbtxt", format!("max_batch_size: 4 {warmup}"))
    })?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    let start = server.log().mark_of_start();
    server.log().wait_for(start, &["message=refused", "model=huge", "has more than 268435456 bytes"]).await?;
    assert_eq!(scaling(&server, MODEL).await?, Scaling::new("one", 10.0));
    server.stop().await?;
    Ok(())
}
