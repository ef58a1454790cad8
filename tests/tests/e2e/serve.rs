//! What a client sees of a healthy server: health, metadata, inference, prediction and metrics.

use anyhow::Result;
use serde_json::{Value, json};
use tests::scaler::{self, Scaled, Scaling};
use tests::{Repository, Server, fixtures};

#[tokio::test]
async fn health_and_metadata_are_as_the_protocol_says() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let server = Server::start(&repository).await?;
    for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/scaler/ready", "/v2/models/scaler/versions/1/ready"]
    {
        let answer = server.get(path).await?.expect(200)?;
        assert!(answer.body.is_empty(), "{path}: {answer}");
    }
    let metadata = server.get("/v2").await?.expect(200)?.json()?;
    assert_eq!((&metadata["name"], metadata["version"].is_string()), (&json!("airlock"), true), "{metadata}");

    let expected = json!({
        "name": "scaler", "versions": ["1"], "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    });
    for path in ["/v2/models/scaler", "/v2/models/scaler/versions/1"] {
        let answer = server.get(path).await?.expect(200)?;
        assert_eq!(answer.json()?, expected, "{path}");
        assert_eq!(answer.header("x-model-version"), Some("1"), "{path}");
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn infer_answers_what_the_model_computes() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    repository.add("sum", |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
    let server = Server::start(&repository).await?;
    let mut client = server.client();

    let body = json!({
        "id": "seven",
        "inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [1, 2, 3, 4, -1, -2, -3, -4.5]}],
    });
    for path in ["/v2/models/scaler/infer", "/v2/models/scaler/versions/1/infer"] {
        let answer = client.post(path, body.to_string()).await?.expect(200)?;
        assert_eq!(answer.header("x-model-version"), Some("1"));
        assert_eq!(
            answer.json()?,
            json!({
                "model_name": "scaler", "model_version": "1", "id": "seven",
                "outputs": [{
                    "name": "y", "datatype": "FP32", "shape": [2, 4],
                    "data": [2.0, 4.0, 6.0, 8.0, -2.0, -4.0, -6.0, -9.0],
                }],
            }),
            "{path}"
        );
    }

    let body = json!({"inputs": [
        {"name": "b", "shape": [1, 2], "datatype": "FP32", "data": [[10, 20]]},
        {"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [[1, 2]]},
    ]});
    let answer = client.post("/v2/models/sum/infer", body.to_string()).await?.expect(200)?.json()?;
    assert_eq!(answer["outputs"][0]["data"], json!([11.0, 22.0]));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn predict_goes_through_the_plugin_and_says_what_answered() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let server = Server::start(&repository).await?;
    let x = [1.0, 2.0, 3.0, 4.0];
    let expected = Scaled { scaling: Scaling::new("one", 10.0), generation: 1, version: 1, weights_factor: 2.0 };
    let mut client = server.client();
    for path in ["/v1/models/scaler:predict", "/v1/models/scaler/versions/1:predict"] {
        let answer = client.post(path, scaler::body(x)).await?;
        assert_eq!(Scaled::read(&answer, x)?, expected, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()), "{answer:?}");
    }
    let headers = [("content-type", "application/json"), ("x-request-id", "from-the-client")];
    let answer = client.send(hyper::Method::POST, "/v1/models/scaler:predict", &headers, scaler::body(x)).await?;
    assert_eq!(answer.expect(200)?.header("x-request-id"), Some("from-the-client"));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn the_sample_repositorys_fraud_model_answers_its_samples() -> Result<()> {
    let repository = Repository::new()?;
    let source = fixtures::root().join("model_repository/fraud_v3");
    let files = tests::repository::contents(&source)?;
    repository.copy(&source)?;
    let server = Server::start(&repository).await?;
    let mut client = server.client();
    let mut scored = 0;
    for (path, body) in files.iter().filter(|(path, _)| path.ends_with("request.json")) {
        let answer = client.predict("fraud_v3", body.clone()).await?;
        let Some(expected) = files.get(&path.with_file_name("expected.json")) else { continue };
        let (expected, got): (Value, Value) = (serde_json::from_slice(expected)?, answer.json()?);
        if answer.status == 200 {
            assert_eq!(got["risk_level"], expected["risk_level"], "{}: {answer}", path.display());
            assert_eq!(answer.header("x-plugin-generation"), Some("1"));
            scored += 1;
        } else {
            assert_eq!(got["code"], expected["code"], "{}: {answer}", path.display());
        }
    }
    assert!(scored > 0, "no sample of fraud_v3 is answered with a score");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn every_promised_metric_is_there() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let server = Server::start(&repository).await?;
    let mut client = server.client();
    for number in 0..10 {
        client.predict("scaler", scaler::body(scaler::figures(number))).await?.expect(200)?;
    }
    client.predict("scaler", r#"{"x": 1}"#).await?.expect(422)?;

    let metrics = server.metrics().await?;
    let version = [("model", "scaler"), ("version", "1")];
    for stage in ["preprocess", "queue", "compute", "postprocess", "total"] {
        let labels = [version[0], version[1], ("stage", stage)];
        let times = metrics.value("airlock_stage_duration_seconds_count", &labels);
        let expected = if matches!(stage, "preprocess" | "total") { 11.0 } else { 10.0 };
        assert_eq!(times, expected, "stage {stage}");
    }
    let exact = [
        ("airlock_requests_total", &[version[0], version[1], ("code", "ok")][..], 10.0),
        ("airlock_requests_total", &[version[0], version[1], ("code", "invalid_fields")], 1.0),
        ("airlock_batch_rows_sum", &version, 10.0),
        ("airlock_engine_loads_total", &[version[0]], 1.0),
        ("airlock_plugin_generation", &version, 1.0),
        ("airlock_models", &[("state", "ready")], 1.0),
        ("airlock_models", &[("state", "unavailable")], 0.0),
        ("airlock_limit", &[("name", "settle_seconds")], 0.02),
        ("airlock_requests_in_flight", &[], 0.0),
        ("airlock_releases_draining", &[], 0.0),
        ("airlock_sandbox_calls_waiting", &[], 0.0),
        ("airlock_queue_requests", &version, 0.0),
    ];
    for (name, labels, expected) in exact {
        assert!(metrics.has(name, labels), "{name}{labels:?} is absent");
        assert_eq!(metrics.value(name, labels), expected, "{name}{labels:?}");
    }
    for (name, labels) in [
        ("airlock_swaps_total", &[version[0], ("outcome", "published")][..]),
        ("airlock_plugin_instances_warm", &[version[0]]),
        ("airlock_plugin_instances_created", &[version[0]]),
        ("airlock_plugin_calls_total", &[version[0]]),
        ("airlock_queue_requests_limit", &version),
        ("airlock_connections", &[]),
        ("airlock_sandbox_instances", &[]),
        ("airlock_limit", &[("name", "plugin_queue_size")]),
        ("airlock_build_info", &[]),
        ("airlock_limit", &[("name", "max_in_flight")]),
    ] {
        assert!(metrics.value(name, labels) > 0.0, "{name}{labels:?} is 0 or absent");
    }
    assert!(metrics.has("airlock_batches_run_inline", &version));
    assert!(metrics.has("airlock_queue_drops_total", &version));
    server.stop().await?;
    Ok(())
}
