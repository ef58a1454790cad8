//! Who decides what is loaded: load and unload requests, the files at the start, or the files at any time.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::http::Answer;
use tests::scaler::{self, Scaled, Scaling, Weights};
use tests::{Repository, Server, ServerOptions, fixtures};

const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

pub(super) fn explicit(repository: &Repository) -> ServerOptions {
    ServerOptions::new(repository).flag("--model-control-mode", "explicit")
}

async fn post(server: &Server, path: &str, body: &Value) -> Result<Answer> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.client().post(path, body).await
}

pub(super) async fn load(server: &Server, model: &str, body: &Value) -> Result<Answer> {
    post(server, &format!("/v2/repository/models/{model}/load"), body).await
}

pub(super) async fn unload(server: &Server, model: &str) -> Result<Answer> {
    post(server, &format!("/v2/repository/models/{model}/unload"), &Value::Null).await
}

/// The index, a line per entry: name, version, state and the beginning of the reason.
pub(super) async fn index(server: &Server, body: &Value) -> Result<Vec<String>> {
    let answer = post(server, "/v2/repository/index", body).await?.expect(200)?;
    let entries = answer.json()?;
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("-").to_owned();
    let line = |entry: &Value| ["name", "version", "state", "reason"].map(|key| text(entry, key)).join(" ");
    Ok(entries.as_array().context("a list")?.iter().map(line).collect())
}

pub(super) async fn scaled(server: &Server, model: &str) -> Result<Scaled> {
    Scaled::read(&server.predict(model, scaler::body(X)).await?.expect(200)?, X)
}

pub(super) async fn is_ready(server: &Server, path: &str) -> Result<bool> {
    Ok(server.get(path).await?.status == 200)
}

pub(super) fn add_sum(repository: &Repository, name: &str) -> Result<tests::ModelFolder> {
    repository.add(name, |folder| folder.write("1/model.onnx", fixtures::model("add")?))
}

#[tokio::test]
async fn requests_load_and_unload() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    add_sum(&repository, "sum")?;
    let server = explicit(&repository).start().await?;
    assert_eq!(index(&server, &Value::Null).await?, ["scaler - - -", "sum - - -"]);
    // Whether an unknown model has a plugin nobody knows, so this is TF Serving's answer.
    let unknown = server.predict("scaler", scaler::body(X)).await?.expect(404)?.json()?;
    assert_eq!(unknown, json!({"error": "Servable not found for request: Latest(scaler)"}));

    load(&server, "scaler", &Value::Null).await?.expect(200)?;
    assert_eq!(scaled(&server, "scaler").await?.version, 1);
    assert_eq!(index(&server, &json!({"ready": true})).await?, ["scaler 1 READY -"]);
    let loads =
        async || anyhow::Ok(server.metrics().await?.value("airlock_engine_loads_total", &[("model", "scaler")]));
    load(&server, "scaler", &json!({})).await?.expect(200)?;
    assert_eq!(loads().await?, 1.0, "nothing has changed");

    // A new version waits for a request; a plugin does not.
    folder.write("2/model.onnx", Weights::Triple.onnx()?)?;
    folder.write("plugin.toml", Scaling::new("two", 20.0).manifest())?;
    server.wait_for_metric("airlock_plugin_generation", &[("model", "scaler"), ("version", "1")], 2.0).await?;
    let now = scaled(&server, "scaler").await?;
    assert_eq!((now.version, now.scaling), (1, Scaling::new("two", 20.0)));
    load(&server, "scaler", &Value::Null).await?.expect(200)?;
    assert_eq!(scaled(&server, "scaler").await?.version, 2);

    unload(&server, "scaler").await?.expect(200)?;
    let text = server.predict("scaler", scaler::body(X)).await?.expect_failure(404, "no_available_version")?;
    assert_eq!(text, "Request for unknown model: 'scaler' has no available versions");
    let ready = server.get("/v2/models/scaler/ready").await?;
    let text = ready.expect_failure(503, "model_not_ready")?;
    assert_eq!(text, "Model version not ready: Request for unknown model: 'scaler' has no available versions");
    ensure!(ready.headers.contains_key("retry-after"), "{ready}");
    assert_eq!(index(&server, &Value::Null).await?, ["scaler 2 UNAVAILABLE unloaded", "sum - - -"]);
    assert_eq!(index(&server, &json!({"ready": true})).await?, [] as [String; 0]);
    ensure!(is_ready(&server, "/v2/health/ready").await?, "an unloaded model is nobody's concern");
    ensure!(!is_ready(&server, "/v2/models/scaler/ready").await?);
    unload(&server, "scaler").await?.expect(200)?;
    unload(&server, "nobody").await?.expect(200)?;
    for answer in [load(&server, "", &Value::Null).await?, unload(&server, "").await?] {
        let text = answer.expect_failure(400, "malformed_request")?;
        assert_eq!(text, "Model name cannot be empty. Please enter a valid name to deploy.");
    }
    load(&server, "scaler", &Value::Null).await?.expect(200)?;
    assert_eq!(scaled(&server, "scaler").await?.version, 2);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_load_that_fails_says_why_every_time_and_leaves_what_serves() -> Result<()> {
    let repository = Repository::new()?;
    let folder = add_sum(&repository, "sum")?;
    let server = explicit(&repository).flag("--load-model", "sum").start().await?;
    for _ in 0..2 {
        let text = load(&server, "nobody", &Value::Null).await?.expect_failure(400, "repository_failed")?;
        ensure!(text.starts_with("failed to load 'nobody', failed to poll from model repository; "), "{text}");
    }
    folder.write("1/model.onnx", fixtures::model("float8")?)?;
    for _ in 0..2 {
        let text = load(&server, "sum", &Value::Null).await?.expect_failure(400, "load_failed")?;
        ensure!(text.starts_with("load failed for model 'sum': version 1 is at UNAVAILABLE state: "), "{text}");
        ensure!(text.contains("f8_e4m3fn"), "{text}");
    }
    let [line] = &index(&server, &Value::Null).await?[..] else { panic!("one line") };
    ensure!(line.starts_with("sum 1 READY ") && line.contains("f8_e4m3fn"), "{line}");
    folder.write("config.pbtxt", "max_batch_size: -1")?;
    let text = load(&server, "sum", &Value::Null).await?.expect_failure(400, "repository_failed")?;
    ensure!(text.contains("'max_batch_size' must be non-negative value for sum"), "{text}");
    ensure!(is_ready(&server, "/v2/models/sum/ready").await?, "what served serves");
    folder.remove("config.pbtxt")?;
    folder.write("1/model.onnx", fixtures::model("add")?)?;
    load(&server, "sum", &Value::Null).await?.expect(200)?;
    assert_eq!(index(&server, &Value::Null).await?, ["sum 1 READY -"]);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_load_request_brings_its_own_configuration_and_files() -> Result<()> {
    let repository = Repository::new()?;
    add_sum(&repository, "sum")?;
    let server = explicit(&repository).start().await?;
    let shape = async |model: &str| {
        let metadata = server.get(&format!("/v2/models/{model}")).await?.expect(200)?.json()?;
        anyhow::Ok(metadata["inputs"][0]["shape"].to_string())
    };
    load(&server, "sum", &Value::Null).await?.expect(200)?;
    let config = json!({ "max_batch_size": 7, "backend": "onnxruntime" }).to_string();
    load(&server, "sum", &json!({ "parameters": { "config": config } })).await?.expect(200)?;
    assert_eq!(shape("sum").await?, "[-1,2]");
    let config = json!({ "max_batch_size": -7 }).to_string();
    let text = load(&server, "sum", &json!({ "parameters": { "config": config } })).await?;
    let text = text.expect_failure(400, "repository_failed")?;
    ensure!(text.contains("'max_batch_size' must be non-negative value for sum"), "{text}");

    let model = STANDARD.encode(fixtures::model("rank_one")?);
    let parameters = json!({ "config": "{}", "file:1/model.onnx": model });
    load(&server, "brought", &json!({ "parameters": parameters })).await?.expect(200)?;
    ensure!(is_ready(&server, "/v2/models/brought/ready").await?);
    load(&server, "sum", &json!({ "parameters": parameters })).await?.expect(200)?;
    ensure!(shape("sum").await? != "[-1,2]", "the files that came with the request serve");
    load(&server, "sum", &Value::Null).await?.expect(200)?;
    assert_eq!(shape("sum").await?, "[-1,2]", "a plain load goes back to the repository's files");
    unload(&server, "brought").await?.expect(200)?;

    for (parameters, expected) in [
        (json!({ "file:1/model.onnx": model }), "Load parameter 'config' must be specified for model file override"),
        (json!({ "config": "{}", "file:../x": model }), "'file:../x'"),
        (json!({ "config": "{" }), "JSON"),
    ] {
        let answer = load(&server, "sum", &json!({ "parameters": parameters })).await?;
        ensure!(answer.status >= 400 && answer.text().contains(expected), "{expected}: {}", answer.text());
    }
    let state = tests::repository::contents(&server.state_dir().join("overrides"))?;
    assert!(state.is_empty(), "{state:?}");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn models_of_the_start_are_named_or_all() -> Result<()> {
    let repository = Repository::new()?;
    for name in ["one", "two", "three"] {
        add_sum(&repository, name)?;
    }
    let server = explicit(&repository).flag("--load-model", "one").flag("--load-model", "two").start().await?;
    assert_eq!(index(&server, &Value::Null).await?, ["one 1 READY -", "three - - -", "two 1 READY -"]);
    server.stop().await?;
    let server = explicit(&repository).flag("--load-model", "*").start().await?;
    assert_eq!(index(&server, &json!({"ready": true})).await?.len(), 3);
    add_sum(&repository, "four")?;
    load(&server, "four", &Value::Null).await?.expect(200)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn many_requests_for_one_model_are_all_answered() -> Result<()> {
    let repository = Repository::new()?;
    add_sum(&repository, "sum")?;
    let server = explicit(&repository).start().await?;
    let ask = |verb: &str| {
        let (mut client, path) = (server.client(), format!("/v2/repository/models/sum/{verb}"));
        tokio::spawn(async move { client.post(&path, "").await })
    };
    let asked: Vec<_> = (0..20).map(|_| (ask("load"), ask("unload"))).collect();
    for (loading, unloading) in asked {
        let loaded = loading.await??;
        ensure!(matches!(loaded.status, 200 | 503), "loaded, or overtaken by an unload: {}", loaded.text());
        unloading.await??.expect(200)?;
    }
    load(&server, "sum", &Value::Null).await?.expect(200)?;
    ensure!(is_ready(&server, "/v2/models/sum/ready").await?);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn files_of_the_start_serve_on_whatever_changes() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let server = ServerOptions::new(&repository).flag("--model-control-mode", "none").start().await?;
    folder.write("2/model.onnx", Weights::Triple.onnx()?)?;
    add_sum(&repository, "sum")?;
    folder.remove("1")?;
    folder.write("plugin.toml", Scaling::new("two", 20.0).manifest())?;
    server.wait_for_metric("airlock_plugin_generation", &[("model", "scaler"), ("version", "1")], 2.0).await?;
    let now = scaled(&server, "scaler").await?;
    assert_eq!((now.version, now.scaling), (1, Scaling::new("two", 20.0)));
    assert_eq!(index(&server, &Value::Null).await?, ["scaler 1 READY -", "sum - - -"]);
    for answer in [load(&server, "sum", &Value::Null).await?, unload(&server, "scaler").await?] {
        let text = answer.expect_failure(503, "model_control_disabled")?;
        assert_eq!(text, "explicit model load / unload is not allowed if polling is enabled");
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_name_in_two_repositories_is_nobodys_until_one_is_gone() -> Result<()> {
    let (first, second) = (Repository::new()?, Repository::new()?);
    add_sum(&first, "sum")?;
    add_sum(&first, "other")?;
    add_sum(&second, "sum")?;
    let options = ServerOptions::new(&first).flag("--model-repository", second.path()).not_ready();
    let server = options.start().await?;
    let lines = index(&server, &Value::Null).await?;
    assert_eq!(lines[0], "other 1 READY -");
    assert_eq!(lines[1..], ["sum - UNAVAILABLE model appears in two or more repositories"]);
    let before = server.log().mark();
    std::fs::remove_dir_all(second.path().join("sum"))?;
    server.log().wait_for(before, &["message=published", "model=sum"]).await?;
    // A second folder of its name costs a model that serves nothing.
    let before = server.log().mark();
    add_sum(&second, "sum")?;
    server.log().wait_for(before, &["level=ERROR", "model=sum", "model appears in two or more repositories"]).await?;
    ensure!(is_ready(&server, "/v2/models/sum/ready").await?);
    let lines = index(&server, &Value::Null).await?;
    assert_eq!(lines[1], "sum 1 READY model appears in two or more repositories");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn the_index_of_a_broken_repository_says_what_is_broken() -> Result<()> {
    let repository = Repository::new()?;
    add_sum(&repository, "good")?;
    repository.add("bad", |folder| folder.write("config.pbtxt", "max_batch_size: -1"))?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    let lines = index(&server, &Value::Null).await?;
    ensure!(lines[0].starts_with("bad - UNAVAILABLE config.pbtxt: "), "{lines:?}");
    assert_eq!(lines[1..], ["good 1 READY -"]);
    let text = post(&server, "/v2/repository/index", &json!({"ready": 1})).await?;
    let text = text.expect_failure(400, "malformed_request")?;
    assert_eq!(text, "Invalid value for 'ready': expected a boolean");
    let text =
        post(&server, "/v2/repository/mine/index", &Value::Null).await?.expect_failure(501, "not_implemented")?;
    assert_eq!(text, "'repository_name' specification is not supported");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_version_that_failed_is_known_and_not_ready() -> Result<()> {
    let repository = Repository::new()?;
    let folder = repository.add("mixed", |folder| {
        folder.write("config.pbtxt", "version_policy { specific { versions: [ 1, 2, 7 ] } }")?;
        folder.write("04/model.onnx", "x")?;
        folder.write("2/model.onnx", "no model")?;
        folder.write("1/model.onnx", fixtures::model("add")?)
    })?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    ensure!(is_ready(&server, "/v2/models/mixed/versions/1/ready").await?, "the other version serves");
    let answer = server.get("/v2/models/mixed/versions/2").await?;
    let text = answer.expect_failure(503, "model_not_ready")?;
    ensure!(text.starts_with("Request for unknown model: 'mixed' version 2 is not at ready state; "), "{text}");
    server.get("/v2/models/mixed/versions/2/ready").await?.expect_failure(503, "model_not_ready")?;
    let text = server.get("/v2/models/mixed/versions/7").await?.expect_failure(404, "version_not_found")?;
    assert_eq!(text, "Request for unknown model: 'mixed' version 7 is not found");
    server
        .log()
        .wait_for(
            server.log().mark_of_start(),
            &["level=ERROR", "model=mixed", "version=7", "names a version that is not there"],
        )
        .await?;
    server
        .log()
        .wait_for(server.log().mark_of_start(), &["level=WARN", "model=mixed", "folder=04", "leading zero"])
        .await?;
    folder.write("2/model.onnx", fixtures::model("add")?)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_folder_stands_in_the_place_of_the_model_file() -> Result<()> {
    let repository = Repository::new()?;
    repository.add("plain", |folder| folder.write("1/model.onnx/model.onnx", fixtures::model("add")?))?;
    repository.add("named", |folder| {
        folder.write("config.pbtxt", "default_model_filename: \"net\"")?;
        folder.write("1/net/model.onnx", fixtures::model("add")?)
    })?;
    let server = ServerOptions::new(&repository).start().await?;
    for model in ["plain", "named"] {
        server.get(&format!("/v2/models/{model}")).await?.expect(200).context(model)?;
    }
    server.stop().await?;
    Ok(())
}
