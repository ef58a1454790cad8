//! The identity backend: scheduling made visible without a model.

use std::time::Duration;

use anyhow::{Result, ensure};
use tests::{Repository, Server, ServerOptions};
use tokio::time::Instant;

const TENSORS: &str = "backend: \"identity\" max_batch_size: 8\n\
                       input { name: \"INPUT0\" data_type: TYPE_INT32 dims: -1 }\n\
                       output { name: \"OUTPUT0\" data_type: TYPE_INT32 dims: -1 }\n";

fn repository(config: &str) -> Result<Repository> {
    let repository = Repository::new()?;
    let folder = repository.add("same", |folder| folder.write("config.pbtxt", format!("{TENSORS}{config}")))?;
    std::fs::create_dir(folder.path("1"))?;
    Ok(repository)
}

fn infer(value: i32) -> String {
    let input = format!(r#"{{"name": "INPUT0", "shape": [1, 2], "datatype": "INT32", "data": [{value}, -{value}]}}"#);
    format!(r#"{{"inputs": [{input}]}}"#)
}

/// Asks so many times at once; the status and the body of each answer, in the order of asking.
async fn ask(server: &Server, requests: i32) -> Result<Vec<(u16, String)>> {
    let asked: Vec<_> = (0..requests)
        .map(|value| {
            let mut client = server.client();
            tokio::spawn(async move { client.post("/v2/models/same/infer", infer(value)).await })
        })
        .collect();
    let mut answers = Vec::new();
    for answer in asked {
        let answer = answer.await??;
        answers.push((answer.status, answer.text()));
    }
    Ok(answers)
}

#[tokio::test]
async fn a_folder_is_a_version_and_each_output_an_input() -> Result<()> {
    let repository = repository("dynamic_batching { }")?;
    let server = ServerOptions::new(&repository).start().await?;
    let metadata = server.get("/v2/models/same").await?.expect(200)?.json()?;
    assert_eq!(metadata["platform"], "identity");
    for (value, (status, text)) in (0..).zip(ask(&server, 20).await?) {
        ensure!(status == 200 && text.contains(&format!("\"data\":[{value},{}]", -value)), "{value}: {text}");
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_held_scheduler_starts_with_a_full_batch() -> Result<()> {
    let repository = repository("dynamic_batching { }")?;
    let server = ServerOptions::new(&repository).variable("TRITONSERVER_DELAY_SCHEDULER", "8").start().await?;
    for (status, text) in ask(&server, 8).await? {
        ensure!(status == 200, "{text}");
    }
    let labels = [("model", "same"), ("version", "1")];
    let metrics = server.metrics().await?;
    let rows = ["count", "sum"].map(|part| metrics.value(&format!("airlock_batch_rows_{part}"), &labels));
    assert_eq!(rows, [1.0, 8.0], "one batch of all eight");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_timeout_in_the_queue_fires_while_a_batch_runs() -> Result<()> {
    let policy = "default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 100000 }";
    let delay = "parameters { key: \"execute_delay_ms\" value { string_value: \"3000\" } }";
    let repository = repository(&format!("dynamic_batching {{ preferred_batch_size: 1 {policy} }} {delay}"))?;
    let server = ServerOptions::new(&repository).start().await?;
    let mut first = server.client();
    let running = tokio::spawn(async move { first.post("/v2/models/same/infer", infer(1)).await });
    let labels = [("model", "same"), ("version", "1")];
    // Nothing waits any more: it runs.
    let in_flight = ("airlock_requests_in_flight", &[][..]);
    server.wait_for_metric(in_flight.0, in_flight.1, 1.0).await?;
    let asked = Instant::now();
    let answers = ask(&server, 2).await?;
    let waited = asked.elapsed();
    for (status, text) in answers {
        ensure!(status == 503 && text.contains("Request timeout expired"), "{status} {text}");
    }
    ensure!(waited < Duration::from_secs(2), "{waited:?}: before the running batch ends");
    running.await??.expect(200)?;
    let dropped =
        server.metrics().await?.value("airlock_queue_drops_total", &[labels[0], labels[1], ("reason", "expired")]);
    assert_eq!(dropped, 2.0);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_an_identity_is_refused_with_its_reason() -> Result<()> {
    let repository = repository("output { name: \"OUTPUT1\" data_type: TYPE_INT32 dims: -1 }")?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    let answer = server.client().post("/v2/models/same/infer", infer(1)).await?;
    ensure!(answer.status == 404 && answer.text().contains("declares 1 inputs and 2 outputs"), "{}", answer.text());
    server.stop().await?;
    Ok(())
}
