//! What plugins say reaches the server's log with the request it belongs to: lines printed through WASI, and panics of the
//! Rust SDK, which nothing else survives.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use tests::process::Signal;
use tests::scaler::{self, Scaling};
use tests::{Answer, Repository, Server, fixtures, guests};

/// The trace that every request belongs to.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Predicts under a request id, in a trace.
async fn predict(server: &Server, model: &str, id: &str, body: &'static [u8]) -> Result<Answer> {
    let path = format!("/v1/models/{model}:predict");
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [("x-request-id", id), ("traceparent", traceparent.as_str())];
    server.client().send(Method::POST, &path, &headers, Bytes::from_static(body)).await
}

#[tokio::test]
async fn what_a_wasip2_guest_prints() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "wasip2", &Scaling::new("unused", 1.0))?;
    folder.write("plugin.wasm", guests::guest("wasip2"))?;
    let server = Server::start(&repository).await?;
    let start = server.log().mark_of_start();
    for id in ["first", "second"] {
        predict(&server, "wasip2", id, b"to the log").await?.expect(200)?;
    }
    let exited = predict(&server, "wasip2", "exited", b"exit").await?.expect_failure(500, "plugin_crashed")?;
    assert_eq!(
        exited,
        "plugin of model 'wasip2' (generation 1) in preprocess crashed; the plugin's log has the reason"
    );
    predict(&server, "wasip2", "third", b"to the log").await?.expect(200)?;
    let log = server.stop().await?;
    for id in ["first", "second", "third"] {
        for level in ["level=INFO", "level=WARN"] {
            let (id, trace) = (format!("request_id={id}"), format!("trace_id={TRACE}"));
            let parts = [level, "target=airlock::plugin", "model=wasip2", &id, &trace, "message=to the log"];
            assert_eq!(log.count(start, &parts), 1, "{parts:?}");
        }
    }
    let reason = ["level=ERROR", "target=airlock::plugin", "request_id=exited", "Exited with i32 exit status 1"];
    assert_eq!(log.count(start, &reason), 1, "{}", log.tail(start));
    Ok(())
}

#[tokio::test]
async fn a_panic_in_rust_with_its_text_and_place() -> Result<()> {
    let repository = Repository::new()?;
    let assets = fixtures::root().join("model_repository/file_type/assets");
    // More tokens than a 32-bit address can count: the sum with those of the start wraps to 1023.
    let (sound, unsound) = ("\"end_size\":1024", "\"end_size\":4294967295");
    let parameters = std::fs::read_to_string(assets.join("config.min.json"))?;
    ensure!(parameters.contains(sound), "config.min.json has no {sound}");
    let folder = scaler::add(&repository, "panicking", &Scaling::new("unused", 1.0))?;
    folder.write("assets/config.min.json", parameters.replace(sound, unsound))?;
    folder.write("assets/content_types_kb.min.json", std::fs::read(assets.join("content_types_kb.min.json"))?)?;
    folder.write("plugin.wasm", fixtures::plugin("file-type")?)?;
    folder.write("plugin.toml", "")?;
    let mut server = Server::start(&repository).await?;
    let start = server.log().mark_of_start();
    let answer = predict(&server, "panicking", "the-one", &[b'x'; 1024]).await?;
    let text = "plugin of model 'panicking' (generation 1) in preprocess crashed; the plugin's log has the reason";
    assert_eq!(answer.expect_failure(500, "plugin_crashed")?, text);
    predict(&server, "panicking", "the-next", b"short").await?.expect(200)?;
    server.signal(Signal::TERM)?;
    ensure!(server.wait().await?.success());

    let said = ["level=ERROR", "target=airlock::plugin", "model=panicking", "request_id=the-one"];
    let panic = server.log().find(start, &[&said[..], &["panicked at"]].concat()).context("the panic is not logged")?;
    let place = "file-type/src/features.rs:";
    let reason = "range start index 4294967295 out of range for slice of length 1023";
    ensure!(panic.contains(place) && panic.contains(reason), "{place} or {reason:?} is not in {panic}");
    assert_eq!(server.log().count(start, &["panicked at"]), 1);
    assert_eq!(server.log().count(start, &[&said[..], &["wasm trap: wasm `unreachable`"]].concat()), 1);
    Ok(())
}
