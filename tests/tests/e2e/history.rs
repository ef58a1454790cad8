//! Restarts: a bad plugin that lies in the folder at the start does not keep the last good one from serving.

use anyhow::Result;
use tests::scaler::{self, Scaled, Scaling};
use tests::{ModelFolder, Repository, Server, ServerOptions, component, guests};

const MODEL: &str = "scaler";
const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

async fn answer(server: &Server) -> Result<Scaled> {
    Scaled::read(&server.predict(MODEL, scaler::body(X)).await?, X)
}

fn bad_component() -> Vec<u8> {
    component::with_note(&guests::text("pipeline"), "bad")
}

/// A repository whose second generation has served, and the server's state.
async fn after_two_generations() -> Result<(Repository, ModelFolder, tempfile::TempDir)> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("first", 10.0))?;
    folder.write_folder("samples", &scaler::sample_of_shape())?;
    let state = tempfile::tempdir()?;
    let server = ServerOptions::new(&repository).state_dir(state.path()).start().await?;
    let before = server.log().mark();
    folder.write("plugin.toml", Scaling::new("second", 20.0).manifest())?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=2"]).await?;
    server.stop().await?;
    Ok((repository, folder, state))
}

#[tokio::test]
async fn a_restart_keeps_the_generations_number() -> Result<()> {
    let (repository, folder, state) = after_two_generations().await?;
    let server = ServerOptions::new(&repository).state_dir(state.path()).start().await?;
    let expected = Scaled { scaling: Scaling::new("second", 20.0), generation: 2, version: 1, weights_factor: 2.0 };
    assert_eq!(answer(&server).await?, expected);
    let before = server.log().mark();
    folder.write("plugin.toml", Scaling::new("third", 30.0).manifest())?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=3"]).await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_bad_plugin_at_the_start_leaves_the_last_good_one_serving() -> Result<()> {
    let (repository, folder, state) = after_two_generations().await?;
    folder.write("plugin.wasm", bad_component())?;
    let server = ServerOptions::new(&repository).state_dir(state.path()).start().await?;
    let start = server.log().mark_of_start();
    server.log().wait_for(start, &["serving the last good plugin", "generation=2"]).await?;
    server.log().wait_for(start, &["level=ERROR", "message=refused", "part=plugin", "failed_to_build"]).await?;
    let expected = Scaled { scaling: Scaling::new("second", 20.0), generation: 2, version: 1, weights_factor: 2.0 };
    assert_eq!(answer(&server).await?, expected);

    let before = server.log().mark();
    folder.write("plugin.wasm", scaler::component("mended")?)?;
    server.log().wait_for(before, &["message=published", "part=plugin"]).await?;
    assert!(answer(&server).await?.generation > 2, "a new state of the plugin has a new number");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn without_history_predict_says_why_while_v2_serves() -> Result<()> {
    let (repository, folder, _state) = after_two_generations().await?;
    folder.write("plugin.wasm", bad_component())?;
    let server = Server::start(&repository).await?;
    let answer = server.predict(MODEL, scaler::body(X)).await?;
    let text = answer.expect_failure(503, "model_not_ready")?;
    let beginning = "the plugin of model 'scaler' does not serve: ";
    assert!(text.starts_with(beginning) && text.contains("airlock:plugin/adapter"), "{text}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let body = r#"{"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}"#;
    let inferred = server.client().post("/v2/models/scaler/infer", body).await?.expect(200)?.json()?;
    assert_eq!(inferred["outputs"][0]["data"], serde_json::json!([2.0, 4.0, 6.0, 8.0]));
    server.stop().await?;
    Ok(())
}
