//! Shared memory while requests are under way; the rest of it is tested with Triton's own clients, in Python.

use std::os::unix::fs::FileExt as _;

use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tempfile::NamedTempFile;
use tests::http::Client;
use tests::{Repository, Server, ServerOptions, fixtures};

/// Two rows of `a`, two of `b`, and room for two of their sum, in FP32.
const BYTES: u64 = 24;

/// A model whose first request waits until a second one has come.
async fn server_that_holds(repository: &Repository) -> Result<Server> {
    repository.add("sum", |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
    let options = ServerOptions::new(repository).flag("--allow-client-shm", "true");
    options.variable("TRITONSERVER_DELAY_SCHEDULER", "2").start().await
}

/// An object with `a` = [1, 2] and `b` = [3, 4], registered as `r`.
async fn share(client: &mut Client) -> Result<NamedTempFile> {
    let object = tempfile::Builder::new().prefix("airlock-test-").tempfile_in("/dev/shm")?;
    let values: Vec<u8> = [1_f32, 2.0, 3.0, 4.0, 0.0, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    object.as_file().write_all_at(&values, 0)?;
    let key = object.path().file_name().and_then(|name| name.to_str()).context("UTF-8")?;
    let place = json!({"key": format!("/{key}"), "byte_size": BYTES});
    client.post("/v2/systemsharedmemory/region/r/register", place.to_string()).await?.expect(200)?;
    Ok(object)
}

/// What is in the object where the sum goes.
fn sum_in(object: &NamedTempFile) -> Result<[f32; 2]> {
    let mut bytes = [0; 8];
    object.as_file().read_exact_at(&mut bytes, 16)?;
    let [first, second] = [[0, 1, 2, 3], [4, 5, 6, 7]].map(|at| f32::from_le_bytes(at.map(|i: usize| bytes[i])));
    Ok([first, second])
}

fn part(offset: u64) -> serde_json::Value {
    json!({"shared_memory_region": "r", "shared_memory_byte_size": 8, "shared_memory_offset": offset})
}

/// A request whose tensors are all in `r`.
fn shared() -> String {
    let input = |name, offset| json!({"name": name, "shape": [1, 2], "datatype": "FP32", "parameters": part(offset)});
    let output = json!({"name": "sum", "parameters": part(16)});
    json!({"inputs": [input("a", 0), input("b", 8)], "outputs": [output]}).to_string()
}

fn in_the_body() -> String {
    let input = |name| json!({"name": name, "shape": [1, 2], "datatype": "FP32", "data": [5, 6]});
    json!({"inputs": [input("a"), input("b")]}).to_string()
}

async fn open_regions(server: &Server) -> Result<(f64, f64)> {
    let metrics = server.metrics().await?;
    let [regions, bytes] =
        ["regions", "bytes"].map(|what| metrics.value(&format!("airlock_shared_memory_{what}"), &[]));
    Ok((regions, bytes))
}

#[tokio::test]
async fn a_region_that_is_unregistered_under_way_lasts_until_its_requests_end() -> Result<()> {
    let repository = Repository::new()?;
    let server = server_that_holds(&repository).await?;
    let mut client = server.client();
    let object = share(&mut client).await?;
    assert_eq!(open_regions(&server).await?, (1.0, 24.0));
    let mut holder = server.client();
    let held = tokio::spawn(async move { holder.post("/v2/models/sum/infer", shared()).await });
    server.wait_for_metric("airlock_queue_requests", &[("model", "sum")], 1.0).await?;
    client.post("/v2/systemsharedmemory/unregister", "").await?.expect(200)?;
    assert_eq!(client.get("/v2/systemsharedmemory/status").await?.expect(200)?.text(), "[]");
    assert_eq!(open_regions(&server).await?, (1.0, 24.0), "the request has it open");
    // What the client does to its inputs now is too late, and its output comes all the same.
    object.as_file().write_all_at(&[0xff; 16], 0)?;
    client.post("/v2/models/sum/infer", in_the_body()).await?.expect(200)?;
    let answer = held.await??.expect(200)?.json()?;
    assert_eq!(answer["outputs"], json!([{"name": "sum", "datatype": "FP32", "shape": [1, 2]}]));
    assert_eq!((sum_in(&object)?, open_regions(&server).await?), ([4.0, 6.0], (0.0, 0.0)));
    client.post("/v2/models/sum/infer", shared()).await?.expect_failure(404, "region_not_found")?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_late_writes_nothing_and_holds_nothing() -> Result<()> {
    let repository = Repository::new()?;
    let server = server_that_holds(&repository).await?;
    let mut client = server.client();
    let object = share(&mut client).await?;
    let patience = [("content-type", "application/json"), ("x-request-timeout-ms", "50")];
    let late = client.send(Method::POST, "/v2/models/sum/infer", &patience, Bytes::from(shared())).await?;
    late.expect(503)?;
    assert_eq!((sum_in(&object)?, open_regions(&server).await?), ([0.0, 0.0], (1.0, 24.0)));
    client.post("/v2/systemsharedmemory/region/r/unregister", "").await?.expect(200)?;
    assert_eq!(open_regions(&server).await?, (0.0, 0.0));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn registered_regions_do_not_keep_the_server_from_stopping() -> Result<()> {
    let repository = Repository::new()?;
    let server = server_that_holds(&repository).await?;
    let object = share(&mut server.client()).await?;
    server.stop().await?;
    assert_eq!(object.as_file().metadata()?.len(), BYTES, "the object is the client's");
    Ok(())
}
