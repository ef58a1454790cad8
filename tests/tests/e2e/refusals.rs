//! Requests that are refused: each with its status, its stable code and its text, and the server answers on.

use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tests::scaler::{self, Scaling};
use tests::{Repository, Server, ServerOptions, fixtures, guests};

/// A request and how it must be refused.
struct Case {
    method: Method,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: String,
    status: u16,
    code: &'static str,
    text: &'static str,
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const BODY_BYTES_MAX: usize = 10_000;

impl Case {
    fn get(path: &'static str, status: u16, code: &'static str, text: &'static str) -> Self {
        Self { method: Method::GET, path, headers: &[], body: String::new(), status, code, text }
    }

    fn post(path: &'static str, body: impl Into<String>, status: u16, code: &'static str, text: &'static str) -> Self {
        Self { method: Method::POST, path, headers: JSON, body: body.into(), status, code, text }
    }

    fn with_headers(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    async fn check(&self, server: &Server) -> Result<()> {
        let body = Bytes::from(self.body.clone());
        let answer = server.client().send(self.method.clone(), self.path, self.headers, body).await?;
        let place = || format!("{} {}", self.method, self.path);
        let text = answer.expect_failure(self.status, self.code).with_context(place)?;
        assert_eq!(text, self.text, "{}", place());
        Ok(())
    }
}

async fn server_of_two_models() -> Result<(Repository, Server)> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    repository.add("plain", |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
    let limit = BODY_BYTES_MAX.to_string();
    let server = ServerOptions::new(&repository).flag("--http-max-input-size", limit).start().await?;
    Ok((repository, server))
}

#[tokio::test]
async fn routes_models_and_versions() -> Result<()> {
    const VERSION_TEXT: &str = "failed to get model version from specified version string 'x', version should be an \
                                integral value > 0";
    let cases = [
        Case::get("/nowhere", 404, "not_found", "Not Found: no route /nowhere"),
        Case::get("/v2/models/nope", 400, "model_not_found", "Request for unknown model: 'nope' is not found"),
        Case::get("/v2/models/nope/ready", 400, "model_not_found", "Request for unknown model: 'nope' is not found"),
        Case::get(
            "/v2/models/scaler/versions/7",
            404,
            "version_not_found",
            "Request for unknown model: 'scaler' version 7 is not found",
        ),
        Case::get("/v2/models/scaler/versions/x", 400, "malformed_request", VERSION_TEXT),
        Case::post("/v1/models/scaler/versions/x:predict", "{}", 400, "malformed_request", VERSION_TEXT),
        Case::get(
            "/v1/models/scaler:predict",
            405,
            "method_not_allowed",
            "Method Not Allowed: GET on /v1/models/scaler:predict",
        ),
        Case::post("/v2/health/live", "", 405, "method_not_allowed", "Method Not Allowed: POST on /v2/health/live"),
        Case::post(
            "/v1/models/scaler:explain",
            "{}",
            404,
            "not_found",
            "Not Found: no verb ':explain'; this server knows ':predict'",
        ),
        Case::post("/v1/models/scaler", "{}", 404, "not_found", "Not Found: the path ends without ':predict'"),
        Case::post(
            "/v1/models/scaler/versions/7:predict",
            "{}",
            404,
            "version_not_found",
            "Request for unknown model: 'scaler' version 7 is not found",
        ),
        Case::post(
            "/v1/models/scaler/labels/stable:predict",
            "{}",
            400,
            "malformed_request",
            "Unrecognized servable version label: stable",
        ),
        Case::post(
            "/v1/models/plain:explain",
            "{}",
            404,
            "not_found",
            "Not Found: no verb ':explain'; this server knows ':predict'",
        ),
    ];
    let (_repository, server) = server_of_two_models().await?;
    for case in &cases {
        case.check(&server).await?;
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn bodies_and_headers() -> Result<()> {
    const TOO_LARGE: &str = "request body size of 10001 bytes exceeds the maximum allowed input size of 10000 bytes. \
                             Use --http-max-input-size to increase the limit.";
    const TIMEOUT: &str = "X-Request-Timeout-Ms is \"0\"; it must be a number of milliseconds from 1 up";
    let infer = |tensor: serde_json::Value| json!({"inputs": [tensor]}).to_string();
    let predict = "/v1/models/scaler:predict";
    let cases = [
        Case::post(
            predict,
            "{",
            400,
            "malformed_request",
            "the body is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        Case::post(
            predict,
            r#"{"x": [1, 2, "3", 4]}"#,
            422,
            "invalid_fields",
            "/x/2: invalid type: string \"3\", expected f32",
        ),
        Case::post(
            predict,
            r#"{"x": [1, 2, 3, 4]}"#,
            415,
            "unsupported_media",
            "content type `text/plain` is not read here; send application/json",
        )
        .with_headers(&[("content-type", "text/plain")]),
        Case::post(predict, r#"{"x": [1, 2, 3, 4]}"#, 400, "malformed_request", TIMEOUT)
            .with_headers(&[("content-type", "application/json"), ("x-request-timeout-ms", "0")]),
        Case::post(predict, "x".repeat(BODY_BYTES_MAX + 1), 413, "body_too_large", TOO_LARGE),
        Case::post(
            "/v2/models/plain/infer",
            "[",
            400,
            "malformed_request",
            "failed to parse the request JSON buffer: expected an object at 0",
        ),
        Case::post(
            "/v2/models/scaler/infer",
            infer(json!({"name": "x", "shape": [1, 5], "datatype": "FP32", "data": [1, 2, 3, 4, 5]})),
            400,
            "invalid_tensors",
            "[request id: <id_unknown>] unexpected shape for input 'x' for model 'scaler'. Expected [-1,4], got [1,5]",
        ),
        Case::post(
            "/v2/models/scaler/infer",
            infer(json!({"name": "x", "shape": [1, 4], "datatype": "INT32", "data": [1, 2, 3, 4]})),
            400,
            "invalid_tensors",
            "[request id: <id_unknown>] inference input 'x' data-type is 'INT32', but model 'scaler' expects 'FP32'",
        ),
        Case::post(
            "/v2/models/scaler/infer",
            infer(json!({"name": "z", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]})),
            400,
            "invalid_tensors",
            "unexpected inference input 'z' for model 'scaler'",
        ),
    ];
    let (_repository, server) = server_of_two_models().await?;
    for case in &cases {
        case.check(&server).await?;
        let next = server.predict("scaler", scaler::body([1.0, 2.0, 3.0, 4.0])).await?;
        next.expect(200).with_context(|| format!("after {} {}", case.method, case.path))?;
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn wrong_fields_are_a_problem_document_with_pointers() -> Result<()> {
    let (_repository, server) = server_of_two_models().await?;
    let answer = server.predict("scaler", r#"{"x": [1, 2, "3", 4]}"#).await?.expect(422)?;
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let errors = &answer.json()?["errors"];
    assert_eq!(errors[0]["pointer"], "/x/2", "{answer}");
    assert!(errors[0]["code"].is_string() && errors[0]["message"].is_string(), "{answer}");
    assert_eq!(answer.header("x-model-version"), Some("1"));
    assert_eq!(answer.header("x-plugin-generation"), Some("1"));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_request_ends_at_the_time_its_client_gave_it() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let looping = scaler::add(&repository, "looping", &Scaling::new("one", 10.0))?;
    looping.write("plugin.toml", "[limits]\ntime_ms = 600000\n")?;
    looping.write("plugin.wasm", guests::guest("loop"))?;
    let server = Server::start(&repository).await?;
    let headers = [("content-type", "application/json"), ("x-request-timeout-ms", "50")];
    let body = || Bytes::from_static(b"{}");
    let answer = server.client().send(Method::POST, "/v1/models/looping:predict", &headers, body()).await?;
    let text = answer.expect_failure(504, "deadline_exceeded")?;
    assert!(text.contains("looping") && text.contains("send a longer deadline"), "{text}");
    server.predict("scaler", scaler::body([1.0, 2.0, 3.0, 4.0])).await?.expect(200)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn more_requests_than_the_server_may_hold_are_turned_away() -> Result<()> {
    let repository = Repository::new()?;
    let looping = scaler::add(&repository, "looping", &Scaling::new("one", 10.0))?;
    looping.write("plugin.toml", "[limits]\ntime_ms = 2000\n")?;
    looping.write("plugin.wasm", guests::guest("loop"))?;
    let server = ServerOptions::new(&repository).flag("--max-in-flight", "1").start().await?;
    let mut client = server.client();
    let held = tokio::spawn(async move { client.predict("looping", "{}").await });
    server.wait_for_metric("airlock_requests_in_flight", &[], 1.0).await?;
    let turned_away = server.predict("looping", "").await?;
    let text = turned_away.expect_failure(503, "overloaded")?;
    assert_eq!(text, "the server holds 1 requests already; raise --max-in-flight or send fewer at once");
    assert_eq!(turned_away.header("retry-after"), Some("1"));
    held.await??.expect_failure(504, "plugin_timeout")?;
    server.predict("looping", "").await?.expect(200)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn every_refusal_is_counted_once_and_ends_a_connection_with_an_unread_body() -> Result<()> {
    let (_repository, server) = server_of_two_models().await?;
    let unknown = [("model", ""), ("version", "")];
    let plain = [("model", "plain"), ("version", "1")];
    let cases = [
        ("/v1/models/nope:predict", &[][..], "{}", "model_not_found", unknown, Some("close")),
        (
            "/v2/models/plain/infer",
            &[("x-request-timeout-ms", "soon")][..],
            "{}",
            "malformed_request",
            plain,
            Some("close"),
        ),
        ("/v2/models/plain/infer", &[][..], "[", "malformed_request", plain, None),
    ];
    for (path, headers, body, code, of, connection) in cases {
        let labels: Vec<_> = of.into_iter().chain([("code", code)]).collect();
        let count = async || -> Result<f64> {
            let metrics = server.metrics().await?;
            Ok(if metrics.has("airlock_requests_total", &labels) {
                metrics.value("airlock_requests_total", &labels)
            } else {
                0.0
            })
        };
        let before = count().await?;
        let answer = server.client().send(Method::POST, path, headers, Bytes::from_static(body.as_bytes())).await?;
        assert_eq!(answer.header("connection"), connection, "{path} {code}");
        assert_eq!(count().await?, before + 1.0, "{path} {code}");
    }
    server.stop().await?;
    Ok(())
}
