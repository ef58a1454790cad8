//! Triton's statistics and counters add up to what the clients saw.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::http::Answer;
use tests::load::{Caller, Load, Outgoing};
use tests::wait::{PATIENCE, eventually};
use tests::{Repository, ServerOptions, fixtures};

/// What the clients saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    answered: u64,
    rows: u64,
    rejected: u64,
    invalid: u64,
}

/// Sends requests of one to four rows, and some that are wrong.
struct Client {
    state: u64,
    rows: u64,
    seen: Arc<Mutex<Seen>>,
}

impl Client {
    fn next(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }
}

impl Caller for Client {
    fn request(&mut self, _number: u64) -> Outgoing {
        self.rows = 1 + self.next(4);
        let name = if self.next(10) == 0 { "WRONG" } else { "INPUT0" };
        let data = vec!["1"; usize::try_from(self.rows).unwrap_or(0)].join(",");
        let input = format!(r#"{{"name":"{name}","shape":[{},1],"datatype":"INT32","data":[{data}]}}"#, self.rows);
        Outgoing { path: "/v2/models/same/infer".into(), body: format!(r#"{{"inputs":[{input}]}}"#).into() }
    }

    fn check(&mut self, _number: u64, answer: &Answer) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match answer.status {
            200 => {
                seen.answered += 1;
                seen.rows += self.rows;
            }
            503 => seen.rejected += 1,
            400 => seen.invalid += 1,
            status => anyhow::bail!("{status}: {}", answer.text()),
        }
        Ok(())
    }
}

fn count(stats: &Value, phase: &str) -> u64 {
    stats["inference_stats"][phase]["count"].as_u64().unwrap_or(u64::MAX)
}

#[tokio::test]
async fn counters_add_up_to_what_the_clients_saw() -> Result<()> {
    let repository = Repository::new()?;
    let folder = repository.add("same", |folder| {
        let policy = "default_queue_policy { default_timeout_microseconds: 12000 max_queue_size: 5 }";
        let config = format!(
            "backend: \"identity\" max_batch_size: 8 dynamic_batching {{ {policy} }}\n\
             input {{ name: \"INPUT0\" data_type: TYPE_INT32 dims: 1 }}\n\
             output {{ name: \"OUTPUT0\" data_type: TYPE_INT32 dims: 1 }}\n\
             parameters {{ key: \"execute_delay_ms\" value {{ string_value: \"5\" }} }}\n"
        );
        folder.write("config.pbtxt", config)
    })?;
    std::fs::create_dir(folder.path("1"))?;
    let server = ServerOptions::new(&repository).start().await?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let callers = (0..12).map(|seed| Client { state: seed, rows: 0, seen: Arc::clone(&seen) });
    let load = Load::start(server.address(), callers);
    load.wait_for(2_000, PATIENCE).await?;
    load.stop().await?.expect_no_failure()?;
    let seen = *seen.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(seen.answered > 0 && seen.rejected > 0 && seen.invalid > 0, "{seen:?}");

    let stats = server.get("/v2/models/same/stats").await?.expect(200)?.json()?["model_stats"][0].clone();
    assert_eq!((count(&stats, "success"), count(&stats, "fail")), (seen.answered, seen.rejected + seen.invalid));
    for phase in ["queue", "compute_input", "compute_infer", "compute_output"] {
        assert_eq!(count(&stats, phase), seen.answered, "{phase}");
    }
    assert_eq!(stats["inference_count"], seen.rows);
    let batches = stats["batch_stats"].as_array().context("batches")?;
    let of_batch = |batch: &Value| (batch["batch_size"].as_u64(), batch["compute_infer"]["count"].as_u64());
    let (mut executions, mut rows) = (0, 0);
    for (size, runs) in batches.iter().map(of_batch) {
        let (size, runs) = (size.context("a size")?, runs.context("a count")?);
        executions += runs;
        rows += size * runs;
    }
    assert_eq!((stats["execution_count"].as_u64(), rows), (Some(executions), seen.rows), "{batches:?}");
    let infer_ns = stats["inference_stats"]["compute_infer"]["ns"].as_u64().context("a time")?;
    ensure!(infer_ns >= seen.answered * 5_000_000, "each waited for the delay of 5 ms");

    let metrics = server.metrics().await?;
    let labels = [("model", "same"), ("version", "1")];
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let expect = |name: &str, reason: Option<&str>, expected: u64| {
        let labels: Vec<_> = labels.into_iter().chain(reason.map(|reason| ("reason", reason))).collect();
        assert_eq!(metrics.value(name, &labels), expected as f64, "{name} {reason:?}");
    };
    expect("nv_inference_request_success", None, seen.answered);
    expect("nv_inference_count", None, seen.rows);
    expect("nv_inference_exec_count", None, executions);
    expect("nv_inference_request_failure", Some("REJECTED"), seen.rejected);
    expect("nv_inference_request_failure", Some("OTHER"), seen.invalid);
    expect("nv_inference_request_failure", Some("BACKEND"), 0);
    expect("nv_inference_pending_request_count", None, 0);
    ensure!(metrics.value("nv_inference_compute_infer_duration_us", &labels) > 0.0);

    // Statistics are of what is loaded now; counters go on.
    folder.write("config.pbtxt", std::fs::read_to_string(folder.path("config.pbtxt"))?.replace("12000", "13000"))?;
    eventually("the version to be loaded again", Duration::from_secs(30), async || {
        let stats = server.get("/v2/models/same/stats").await.ok()?.json().ok()?;
        (stats["model_stats"][0]["inference_count"] == 0).then_some(())
    })
    .await?;
    assert_eq!(server.get("/v2/models/stats").await?.json()?["model_stats"].as_array().map(Vec::len), Some(1));
    let again = server.metrics().await?;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let answered = seen.answered as f64;
    assert_eq!(again.value("nv_inference_request_success", &labels), answered);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn answers_that_are_no_numbers_are_counted_and_refused_where_they_are_to_be() -> Result<()> {
    let repository = Repository::new()?;
    for (name, parameter) in [("counting", ""), ("refusing", "refuse")] {
        let folder = repository.add(name, |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
        if !parameter.is_empty() {
            let value = format!("value {{ string_value: \"{parameter}\" }}");
            folder.write("config.pbtxt", format!("parameters {{ key: \"airlock.non_finite\" {value} }}"))?;
        }
    }
    let server = ServerOptions::new(&repository).start().await?;
    // The largest number twice is an infinity.
    let infer = r#"{"inputs":[{"name":"a","shape":[1,2],"datatype":"FP32","data":[3e38,1]},
                              {"name":"b","shape":[1,2],"datatype":"FP32","data":[3e38,1]}]}"#;
    server.client().post("/v2/models/counting/infer", infer).await?.expect(200)?;
    let text = server.client().post("/v2/models/refusing/infer", infer).await?.expect_failure(500, "engine_failed")?;
    ensure!(text.contains("output 'sum' holds a NaN or an infinity"), "{text}");
    let metrics = server.metrics().await?;
    for name in ["counting", "refusing"] {
        let labels = [("model", name), ("version", "1"), ("output", "sum")];
        assert_eq!(metrics.value("airlock_non_finite_outputs_total", &labels), 1.0, "{name}");
    }
    let labels = [("model", "refusing"), ("version", "1"), ("reason", "BACKEND")];
    assert_eq!(metrics.value("nv_inference_request_failure", &labels), 1.0);
    server.stop().await?;
    Ok(())
}
