//! Models that keep their weights in files of their own.

use std::fs::File;
use std::io::Write as _;

use anyhow::{Context, Result};
use tests::wait::PATIENCE;
use tests::{Repository, Server, ServerOptions, eventually, fixtures};

const MODEL: &str = "weights";
const DATA: &str = "1/external.bin";
/// Bytes before the weights in the data file.
const OFFSET: usize = 64;
const OLD: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
const NEW: [f32; 4] = [5.0, 6.0, 7.0, 8.0];

/// `y = x + weights`, asked with zeros: the weights that answer.
async fn weights(server: &Server) -> Result<Vec<f32>> {
    let body = r#"{"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 0, 0, 0]}]}"#;
    let answer = server.client().post(&format!("/v2/models/{MODEL}/infer"), body).await?.expect(200)?.json()?;
    serde_json::from_value(answer["outputs"][0]["data"].clone()).context("the output is a list of numbers")
}

fn data_file(weights: [f32; 4]) -> Vec<u8> {
    let mut data = vec![0; OFFSET];
    data.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
    data
}

#[tokio::test]
async fn weights_written_over_in_place_reach_no_request_until_they_are_whole() -> Result<()> {
    let repository = Repository::new()?;
    let folder = repository.add(MODEL, |folder| {
        folder.write("1/model.onnx", fixtures::model("external")?)?;
        folder.write(DATA, data_file(OLD))
    })?;
    let server = Server::start(&repository).await?;
    assert_eq!(weights(&server).await?, OLD);

    let replacement = data_file(NEW);
    let mut data = File::create(folder.path(DATA))?;
    data.write_all(&replacement[..OFFSET])?;
    for _ in 0..50 {
        assert_eq!(weights(&server).await?, OLD, "the file was cut short under the server");
    }
    data.write_all(&replacement[OFFSET..])?;
    drop(data);
    eventually("the new weights", PATIENCE, async || weights(&server).await.ok().filter(|now| *now == NEW)).await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn weights_outside_the_models_folder_are_refused() -> Result<()> {
    let model = fixtures::model("external")?;
    let at = model.windows(12).position(|window| window == b"external.bin").context("the model names its data")?;
    let escaped = [&model[..at], b"../secret.bn", &model[at + 12..]].concat();
    let repository = Repository::new()?;
    repository.add(MODEL, |folder| {
        folder.write("secret.bn", data_file([1.0; 4]))?;
        folder.write("1/model.onnx", escaped)
    })?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    let start = server.log().mark_of_start();
    server.log().wait_for(start, &["level=ERROR", "message=refused", "'../secret.bn' is not a path inside"]).await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_request_larger_than_a_batch_runs_in_pieces_where_the_model_allows_it() -> Result<()> {
    const ROWS: usize = 10;
    let repository = Repository::new()?;
    for (name, split) in [("split", "true"), ("whole", "false")] {
        repository.add(name, |folder| {
            folder.write("1/model.onnx", fixtures::model("external")?)?;
            folder.write(DATA, data_file(OLD))?;
            let parameter = format!("key: 'airlock.split_large_requests' value: {{ string_value: '{split}' }}");
            folder
                .write("config.pbtxt", format!("max_batch_size: 4 dynamic_batching {{ }} parameters {{ {parameter} }}"))
        })?;
    }
    let server = Server::start(&repository).await?;
    let input: Vec<usize> = (0..ROWS * OLD.len()).collect();
    let body = format!(
        r#"{{"parameters": {{"priority": 1, "timeout": 1000000}}, "inputs": [{{"name": "x", "shape": [{ROWS}, 4], "datatype": "FP32", "data": {input:?}}}]}}"#
    );
    let answer = server.client().post("/v2/models/split/infer", body.clone()).await?.expect(200)?.json()?;
    let expected: Vec<f32> = input.iter().map(|&x| x as f32 + OLD[x % OLD.len()]).collect();
    let output = &answer["outputs"][0];
    assert_eq!(output["shape"], serde_json::json!([ROWS, 4]));
    assert_eq!(serde_json::from_value::<Vec<f32>>(output["data"].clone())?, expected);
    let refused = server.client().post("/v2/models/whole/infer", body).await?;
    let text = refused.expect_failure(400, "invalid_tensors")?;
    assert_eq!(text, "[request id: <id_unknown>] inference request batch-size must be <= 4 for 'whole', got 10");
    server.stop().await?;
    Ok(())
}
