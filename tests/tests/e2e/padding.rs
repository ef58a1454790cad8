//! Requests of different lengths through the real server, compared with what Python's ONNX Runtime gave each one alone.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tests::{Repository, Server, fixtures};

const INFER: &str = "/v2/models/tokens/infer";

/// `rows` rows make a batch, whose clients wait for it for a minute; the mask and the count are the server's affair.
fn config(rows: u64, buckets: &str) -> String {
    let parameter = |key: &str, value: &str| {
        format!("parameters {{ key: \"airlock.padding.{key}\" value {{ string_value: \"{value}\" }} }}\n")
    };
    let parameters = [
        parameter("input.tokens", "value=77"),
        parameter("mask.mask", ""),
        parameter("lengths.count", ""),
        parameter("output.each", "axis=1"),
        parameter("buckets", buckets),
    ];
    format!(
        "max_batch_size: {rows}\ndynamic_batching {{ max_queue_delay_microseconds: 60000000 }}\n{}",
        parameters.concat()
    )
}

async fn serve(config: &str) -> Result<(Repository, Server)> {
    let repository = Repository::new()?;
    repository.add("tokens", |folder| {
        folder.write("config.pbtxt", config)?;
        folder.write("1/model.onnx", fixtures::model("masked_mean")?)
    })?;
    let server = Server::start(&repository).await?;
    Ok((repository, server))
}

/// Requests and their answers, each made alone.
fn truth() -> Result<Vec<Value>> {
    let file = fixtures::root().join("tests/fixtures/models/masked_mean.expected.json");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let content: Value = serde_json::from_str(&text)?;
    content["requests"].as_array().cloned().context("a list of requests")
}

fn rows(request: &Value) -> usize {
    request["tokens"].as_array().map_or(0, Vec::len)
}

fn body(request: &Value) -> String {
    let (tokens, rows) = (&request["tokens"], rows(request));
    let length = tokens[0].as_array().map_or(0, Vec::len);
    json!({"inputs": [{"name": "tokens", "shape": [rows, length], "datatype": "INT64", "data": tokens}]}).to_string()
}

/// Every number in nested lists, in order.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(flat).collect(),
        value => value.as_f64().into_iter().collect(),
    }
}

fn assert_answers(answer: &Value, request: &Value) {
    let rows = rows(request);
    let length = request["tokens"][0].as_array().map_or(0, Vec::len);
    let shapes = [("each", json!([rows, length, 2])), ("mean", json!([rows, 2]))];
    for (output, (name, shape)) in answer["outputs"].as_array().into_iter().flatten().zip(shapes) {
        assert_eq!((output["name"].as_str(), &output["shape"]), (Some(name), &shape));
        let (got, expected) = (flat(&output["data"]), flat(&request[name]));
        assert_eq!(got.len(), expected.len(), "{name} of {request}");
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() <= 1e-5, "{got} for {expected} in {name} of {request}");
        }
    }
    assert_eq!(answer["outputs"].as_array().map(Vec::len), Some(2), "{answer}");
}

#[tokio::test]
async fn requests_of_all_lengths_run_in_one_batch_and_get_what_they_would_get_alone() -> Result<()> {
    let requests = truth()?;
    let total: usize = requests.iter().map(rows).sum();
    for pad_to in ["longest", "boundary"] {
        let config = config(total as u64, &format!("boundaries=40 pad_to={pad_to}"));
        let (_repository, server) = serve(&config).await?;
        let calls: Vec<_> = requests
            .iter()
            .map(|request| {
                let (mut client, body) = (server.client(), body(request));
                tokio::spawn(async move { client.post(INFER, body).await })
            })
            .collect();
        for (call, request) in calls.into_iter().zip(&requests) {
            assert_answers(&call.await??.expect(200)?.json()?, request);
        }
        let labels = [("model", "tokens"), ("version", "1")];
        let metrics = server.metrics().await?;
        assert_eq!(metrics.value("airlock_batch_rows_count", &labels), 1.0, "one batch");
        assert_eq!(metrics.value("airlock_batch_rows_sum", &labels), total as f64);
        server.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_the_server_fills_in_is_nothing_a_client_sees_or_sends() -> Result<()> {
    let (_repository, server) = serve(&config(1, "boundaries=8 pad_to=boundary")).await?;
    let metadata = server.get("/v2/models/tokens").await?.expect(200)?.json()?;
    assert_eq!(metadata["inputs"], json!([{"name": "tokens", "datatype": "INT64", "shape": [-1, -1]}]));
    let input = |name: &str, length: usize| json!({"name": name, "shape": [1, length], "datatype": "INT64", "data": vec![1; length]});
    let cases = [
        (
            json!({"inputs": [input("tokens", 3), input("mask", 3)]}),
            "expected 1 inputs but got 2 inputs for model 'tokens'. Got input(s) ['tokens','mask']. Please provide all \
             required input(s).",
        ),
        (
            json!({"inputs": [input("tokens", 9)]}),
            "input 'tokens' for model 'tokens' must have a length from 1 to 8, got 9",
        ),
        (
            json!({"inputs": [input("tokens", 0)]}),
            "input 'tokens' for model 'tokens' must have a length from 1 to 8, got 0",
        ),
    ];
    for (body, text) in cases {
        let answer = server.client().post(INFER, body.to_string()).await?;
        let prefixed = format!("[request id: <id_unknown>] {text}");
        assert_eq!(answer.expect_failure(400, "invalid_tensors")?, prefixed);
    }
    let fits = json!({"inputs": [input("tokens", 8)]});
    server.client().post(INFER, fits.to_string()).await?.expect(200)?;
    server.stop().await?;
    Ok(())
}
