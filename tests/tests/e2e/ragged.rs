//! Requests of different shapes, and requests that leave inputs out, through the real server, compared with what Python's
//! ONNX Runtime gave.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tests::{Repository, Server, fixtures};

/// The first configuration in docs/ragged.md, for batches of `rows` rows whose requests wait for each other for a minute.
fn documented(rows: usize) -> Result<String> {
    let document = fixtures::root().join("docs/ragged.md");
    let text = std::fs::read_to_string(&document).with_context(|| format!("reading {}", document.display()))?;
    let (_, rest) = text.split_once("```protobuf\n").context("an example")?;
    let (example, _) = rest.split_once("```").context("its end")?;
    anyhow::ensure!(example.contains("max_batch_size: 16\n"), "the example says how large batches are");
    let delay = "dynamic_batching { max_queue_delay_microseconds: 60000000 }\n";
    Ok(example
        .replace("max_batch_size: 16\n", &format!("max_batch_size: {rows}\n"))
        .replace("dynamic_batching { }\n", delay))
}

async fn serve(config: &str, model: &str) -> Result<(Repository, Server)> {
    let repository = Repository::new()?;
    repository.add("m", |folder| {
        folder.write("config.pbtxt", config)?;
        folder.write("1/model.onnx", fixtures::model(model)?)
    })?;
    let server = Server::start(&repository).await?;
    Ok((repository, server))
}

fn truth(file: &str) -> Result<Value> {
    let file = fixtures::root().join("tests/fixtures/models").join(Path::new(file));
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn input(name: &str, data_type: &str, shape: &[usize], data: &Value) -> Value {
    json!({"name": name, "shape": shape, "datatype": data_type, "data": data})
}

fn output<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let outputs = answer["outputs"].as_array().into_iter().flatten();
    outputs.into_iter().find(|output| output["name"] == name).unwrap_or(&Value::Null)
}

/// Every number in nested lists, in order.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(flat).collect(),
        value => value.as_f64().into_iter().collect(),
    }
}

fn ragged_request(request: &Value) -> (usize, String) {
    let length = request["values"].as_array().map_or(0, Vec::len);
    let inputs =
        [input("values", "FP32", &[1, length], &request["values"]), input("bias", "FP32", &[1, 1], &request["bias"])];
    (length, json!({"inputs": inputs}).to_string())
}

#[tokio::test]
async fn requests_of_all_shapes_run_in_one_batch_and_get_their_parts_of_it() -> Result<()> {
    let content = truth("ragged.expected.json")?;
    let requests = content["requests"].as_array().context("requests")?;
    let (_repository, server) = serve(&documented(requests.len())?, "ragged").await?;
    let calls: Vec<_> = requests
        .iter()
        .map(|request| {
            let (mut client, (_, body)) = (server.client(), ragged_request(request));
            tokio::spawn(async move { client.post("/v2/models/m/infer", body).await })
        })
        .collect();
    let mut accumulated = Vec::new();
    for (call, request) in calls.into_iter().zip(requests) {
        let answer = call.await??.expect(200)?.json()?;
        let (length, _) = ragged_request(request);
        assert_eq!(output(&answer, "doubled")["shape"], json!([1, length]));
        for name in ["doubled", "total"] {
            assert_eq!(flat(&output(&answer, name)["data"]), flat(&request[name]), "{name} of {request}");
        }
        // Where a request lies in the batch is the order of arrival; all else is as it was told to Python.
        let (told, expected) = (flat(&output(&answer, "told")["data"]), flat(&request["told"]));
        assert_eq!((told[0], &told[2..]), (expected[0], &expected[2..]), "{request}");
        accumulated.push(told[1]);
    }
    let sum = requests.iter().map(|request| ragged_request(request).0).sum::<usize>() as f64;
    assert_eq!(accumulated.iter().copied().fold(0.0, f64::max), sum, "the last one ends where the batch does");
    let labels = [("model", "m"), ("version", "1")];
    let metrics = server.metrics().await?;
    assert_eq!(metrics.value("airlock_batch_rows_count", &labels), 1.0, "one batch");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn what_the_server_generates_is_nothing_a_client_sees_or_sends() -> Result<()> {
    let (_repository, server) = serve(&documented(1)?, "ragged").await?;
    let metadata = server.get("/v2/models/m").await?.expect(200)?.json()?;
    let inputs = json!([
        {"name": "values", "datatype": "FP32", "shape": [-1, -1]},
        {"name": "bias", "datatype": "FP32", "shape": [-1, 1]}
    ]);
    assert_eq!(metadata["inputs"], inputs);
    assert_eq!(metadata["outputs"][0], json!({"name": "doubled", "datatype": "FP32", "shape": [-1, -1]}));
    let body = json!({"inputs": [
        input("values", "FP32", &[1, 1], &json!([1])),
        input("bias", "FP32", &[1, 1], &json!([1])),
        input("counts", "FP32", &[1], &json!([1])),
    ]});
    let answer = server.client().post("/v2/models/m/infer", body.to_string()).await?;
    assert_eq!(
        answer.expect_failure(400, "invalid_tensors")?,
        "[request id: <id_unknown>] expected 2 inputs but got 3 inputs for model 'm'. Got input(s) ['values','bias','counts']. Please provide all \
         required input(s)."
    );
    server.stop().await?;
    Ok(())
}

const OPTIONAL: &str = r#"
input [
  { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] },
  { name: "factor" data_type: TYPE_FP32 dims: 2 optional: true },
  { name: "offset" data_type: TYPE_FP32 dims: 1 optional: true },
  { name: "unit" data_type: TYPE_STRING dims: 1 optional: true }
]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1, 2 ] }, { name: "named" data_type: TYPE_STRING dims: 1 } ]
"#;

#[tokio::test]
async fn a_request_may_leave_out_what_the_file_has_values_for() -> Result<()> {
    let (_repository, server) = serve(OPTIONAL, "affine").await?;
    let content = truth("affine.expected.json")?;
    for request in content["requests"].as_array().context("requests")? {
        let rows = request["x"].as_array().map_or(0, Vec::len);
        let mut inputs = vec![input("x", "FP32", &[rows, 2], &request["x"])];
        for name in request["given"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (data_type, length) =
                if name == "unit" { ("BYTES", 1) } else { ("FP32", 1 + usize::from(name == "factor")) };
            inputs.push(input(name, data_type, &[length], &content["values"][name]));
        }
        inputs.reverse();
        let body = json!({"inputs": inputs}).to_string();
        let answer = server.client().post("/v2/models/m/infer", body).await?.expect(200)?.json()?;
        assert_eq!(flat(&output(&answer, "y")["data"]), flat(&request["y"]), "{request}");
        assert_eq!(output(&answer, "named")["data"], request["named"], "{request}");
    }
    let metadata = server.get("/v2/models/m").await?.expect(200)?.json()?;
    assert_eq!(metadata["inputs"].as_array().map(Vec::len), Some(4), "all of them are shown, as in Triton");
    let body = json!({"inputs": [input("offset", "FP32", &[1], &json!([1]))]}).to_string();
    let answer = server.client().post("/v2/models/m/infer", body).await?;
    assert_eq!(
        answer.expect_failure(400, "invalid_tensors")?,
        "[request id: <id_unknown>] expected number of inputs between 1 and 4 but got 1 inputs for model 'm'. Got input(s) ['offset'], but missing \
         required input(s) ['x']. Please provide all required input(s)."
    );
    server.stop().await?;
    Ok(())
}
