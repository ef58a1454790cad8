//! Loads that fail: what served before serves on, its plugin included, and everyone who waits hears what came of their
//! own request.

use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::process::Signal;
use tests::scaler::{self, Scaling, Weights};
use tests::{ModelFolder, Repository, Server, ServerOptions, fixtures};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::modes::{add_sum, explicit, index, load, scaled};

/// What a request brings in place of the model's files.
fn brought(files: &[(&str, Vec<u8>)]) -> Value {
    let mut parameters = json!({ "config": "{}" });
    for (path, content) in files {
        parameters[format!("file:{path}")] = STANDARD.encode(content).into();
    }
    json!({ "parameters": parameters })
}

/// A server on a model whose version brings its plugin itself.
async fn with_own_plugin(repository: &Repository) -> Result<(Server, ModelFolder)> {
    let folder = repository.add("scaler", |folder| {
        folder.write("config.pbtxt", scaler::config("scaler"))?;
        folder.write("1/model.onnx", Weights::Double.onnx()?)?;
        folder.write("1/plugin.toml", Scaling::new("one", 10.0).manifest())?;
        folder.write("1/plugin.wasm", scaler::component("first")?)
    })?;
    let server = Server::start(repository).await?;
    assert_eq!(scaled(&server, "scaler").await?.scaling, Scaling::new("one", 10.0));
    Ok((server, folder))
}

#[tokio::test]
async fn a_refused_load_request_changes_nothing_of_what_serves() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let server = explicit(&repository).flag("--load-model", "scaler").start().await?;
    let bad = fixtures::model("float8")?;
    let before = scaled(&server, "scaler").await?;
    for files in [
        vec![("1/model.onnx", bad.clone())],
        vec![("1/model.onnx", Weights::Triple.onnx()?), ("2/model.onnx", bad.clone())],
        vec![("1/model.onnx", bad.clone()), ("plugin.wasm", fixtures::plugin("fraud-rules")?)],
        vec![("note.txt", b"no version".to_vec())],
    ] {
        let paths: Vec<_> = files.iter().map(|(path, _)| *path).collect();
        let answer = load(&server, "scaler", &brought(&files)).await?;
        ensure!(answer.status >= 400, "{paths:?}: {}", answer.text());
        assert_eq!(scaled(&server, "scaler").await?, before, "{paths:?}");
    }
    // The repository's plugin is followed as before.
    folder.write("plugin.toml", Scaling::new("two", 20.0).manifest())?;
    server.wait_for_metric("airlock_plugin_generation", &[("model", "scaler"), ("version", "1")], 2.0).await?;
    assert_eq!(scaled(&server, "scaler").await?.scaling, Scaling::new("two", 20.0));
    load(&server, "scaler", &Value::Null).await?.expect(200)?;
    assert_eq!(index(&server, &Value::Null).await?, ["scaler 1 READY -"]);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_version_that_is_refused_takes_no_plugin_with_it() -> Result<()> {
    let repository = Repository::new()?;
    let (server, folder) = with_own_plugin(&repository).await?;
    let before = scaled(&server, "scaler").await?;
    let bad = fixtures::model("float8")?;
    let refused = &["level=ERROR", "part=version 1", "refused"];
    let mark = server.log().mark();
    folder.write_folder("1", &[("model.onnx", &bad)])?;
    server.log().wait_for(mark, refused).await?;
    assert_eq!(scaled(&server, "scaler").await?, before, "a bad model without a plugin");

    let (component, manifest) = (scaler::component("second")?, Scaling::new("two", 20.0).manifest());
    let mark = server.log().mark();
    folder.write_folder(
        "1",
        &[("model.onnx", &bad), ("plugin.wasm", &component), ("plugin.toml", manifest.as_bytes())],
    )?;
    server.log().wait_for(mark, refused).await?;
    assert_eq!(scaled(&server, "scaler").await?, before, "a bad model with another plugin");

    let good = Weights::Triple.onnx()?;
    folder.write_folder(
        "1",
        &[("model.onnx", &good), ("plugin.wasm", &component), ("plugin.toml", manifest.as_bytes())],
    )?;
    server.wait_for_metric("airlock_plugin_generation", &[("model", "scaler"), ("version", "1")], 2.0).await?;
    let now = scaled(&server, "scaler").await?;
    assert_eq!((now.scaling, now.weights_factor), (Scaling::new("two", 20.0), 3.0));
    assert_eq!(index(&server, &Value::Null).await?, ["scaler 1 READY -"]);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_model_that_is_cut_short_is_refused_at_once_each_time_it_is_asked_for() -> Result<()> {
    let repository = Repository::new()?;
    let folder = add_sum(&repository, "sum")?;
    let server = explicit(&repository).flag("--load-model", "sum").start().await?;
    let whole = fixtures::model("add")?;
    let short = whole[..whole.len() - 5].to_vec();
    folder.write("1/model.onnx", &short)?;
    let started = Instant::now();
    for body in [Value::Null, Value::Null, brought(&[("1/model.onnx", short.clone())]), Value::Null] {
        let text = load(&server, "sum", &body).await?.expect_failure(400, "load_failed")?;
        ensure!(text.contains("past the end of the file"), "{text}");
    }
    ensure!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    let [line] = &index(&server, &Value::Null).await?[..] else { panic!("one line") };
    ensure!(line.starts_with("sum 1 READY ") && line.contains("past the end of the file"), "{line}");
    folder.write("1/model.onnx", &whole)?;
    load(&server, "sum", &Value::Null).await?.expect(200)?;
    assert_eq!(index(&server, &Value::Null).await?, ["sum 1 READY -"]);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_version_that_stays_cut_short_says_so_beside_what_serves() -> Result<()> {
    let repository = Repository::new()?;
    let folder = add_sum(&repository, "sum")?;
    let server = ServerOptions::new(&repository).flag("--settle-cap-ms", "300").start().await?;
    let whole = fixtures::model("add")?;
    let mark = server.log().mark();
    folder.write("1/model.onnx", &whole[..whole.len() - 5])?;
    let line = server.log().wait_for(mark, &["level=ERROR", "model=sum", "outcome=still_changing"]).await?;
    ensure!(line.contains("past the end of the file"), "{line}");
    let [line] = &index(&server, &Value::Null).await?[..] else { panic!("one line") };
    ensure!(line.starts_with("sum 1 READY ") && line.contains("past the end of the file"), "{line}");

    // A version that came and went leaves nothing behind.
    folder.write("config.pbtxt", "version_policy { all { } }")?;
    folder.write("1/model.onnx", &whole)?;
    let mark = server.log().mark();
    folder.write("7/model.onnx", fixtures::model("float8")?)?;
    server.log().wait_for(mark, &["level=ERROR", "model=sum", "part=version 7"]).await?;
    assert_eq!(index(&server, &Value::Null).await?.len(), 2);
    folder.remove("7")?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while index(&server, &Value::Null).await? != ["sum 1 READY -"] {
        ensure!(Instant::now() < deadline, "{:?}", index(&server, &Value::Null).await?);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn everyone_hears_what_came_of_their_own_request() -> Result<()> {
    let repository = Repository::new()?;
    add_sum(&repository, "sum")?;
    let server = explicit(&repository).start().await?;
    let batch = |size: i64| json!({ "parameters": { "config": json!({ "max_batch_size": size }).to_string() } });
    let bad = brought(&[("1/model.onnx", fixtures::model("float8")?)]);
    let bodies = [(batch(9), 200), (batch(-7), 400), (bad, 400), (batch(7), 200), (batch(-8), 400), (json!({}), 200)];
    let asked: Vec<_> = (0..60)
        .map(|number| {
            let (body, status) = bodies[number % bodies.len()].clone();
            let mut client = server.client();
            let ask =
                tokio::spawn(async move { client.post("/v2/repository/models/sum/load", body.to_string()).await });
            (ask, status)
        })
        .collect();
    for (number, (ask, status)) in asked.into_iter().enumerate() {
        let answer = ask.await??;
        ensure!(answer.status == status, "request {number}: {status} expected, {} {}", answer.status, answer.text());
    }
    server.stop().await?;
    Ok(())
}

/// Writes to a file of a folder every 5 ms, so that it never comes to rest, until it is dropped.
struct Restless(JoinHandle<()>);

impl Restless {
    fn start(folder: &ModelFolder) -> Self {
        let path = folder.path("1/train.log");
        Self(tokio::spawn(async move {
            let mut text = String::new();
            loop {
                text.push('x');
                std::fs::write(&path, &text).expect("written");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }))
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test]
async fn a_model_that_keeps_changing_is_answered_each_time() -> Result<()> {
    let repository = Repository::new()?;
    let folder = add_sum(&repository, "sum")?;
    let server = explicit(&repository).settle_ms(200).flag("--settle-cap-ms", "1000").start().await?;
    let restless = Restless::start(&folder);
    for _ in 0..2 {
        let text = load(&server, "sum", &Value::Null).await?.expect_failure(400, "load_failed")?;
        ensure!(text.contains("its files keep changing"), "{text}");
    }
    drop(restless);
    load(&server, "sum", &Value::Null).await?.expect(200)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_load_that_waits_keeps_no_server_from_stopping() -> Result<()> {
    let repository = Repository::new()?;
    let folder = add_sum(&repository, "sum")?;
    let mut server = explicit(&repository).settle_ms(200).start().await?;
    let _restless = Restless::start(&folder);
    let mut client = server.client();
    let waits = tokio::spawn(async move { client.post("/v2/repository/models/sum/load", "").await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    ensure!(!waits.is_finished(), "its files keep changing");
    let started = Instant::now();
    server.signal(Signal::TERM)?;
    let text = waits.await??.expect_failure(503, "overloaded")?;
    ensure!(text.contains("or the server is stopping"), "{text}");
    let status = server.wait().await?;
    ensure!(status.success() && started.elapsed() < Duration::from_secs(15), "{status} in {:?}", started.elapsed());
    Ok(())
}
