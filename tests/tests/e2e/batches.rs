//! Requests that share a batch with one that the engine cannot run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::http::Answer;
use tests::load::{Caller, Load, Outgoing};
use tests::{Repository, ServerOptions, fixtures};

/// Rows of the table that the model reads.
const TABLE_ROWS: u64 = 4;

/// Asks for a row of the table, or for one that is not there, which ends the batch it is in.
struct Reader {
    asks_for_too_much: bool,
}

impl Caller for Reader {
    fn request(&mut self, number: u64) -> Outgoing {
        let row = if self.asks_for_too_much { TABLE_ROWS } else { number % TABLE_ROWS };
        let body =
            format!(r#"{{"inputs": [{{"name": "index", "shape": [1, 1], "datatype": "INT64", "data": [{row}]}}]}}"#);
        Outgoing { path: "/v2/models/table/infer".into(), body: body.into() }
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        if self.asks_for_too_much {
            let text = answer.expect_failure(500, "engine_failed")?;
            ensure!(text.contains("indices element out of data bounds, idx=4 must be within"), "{text}");
            return Ok(());
        }
        ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
        let row = (number % TABLE_ROWS) * 2;
        let data = answer.json()?["outputs"][0]["data"].clone();
        let numbers: Vec<_> =
            data.as_array().context("an output")?.iter().filter_map(serde_json::Value::as_f64).collect();
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let expected = [row as f64, (row + 1) as f64];
        ensure!(numbers == expected, "row {row}: {numbers:?}");
        Ok(())
    }
}

#[tokio::test]
async fn what_the_engine_cannot_run_costs_its_own_request_and_nobody_elses() -> Result<()> {
    let repository = Repository::new()?;
    repository.add("table", |folder| {
        let config = "max_batch_size: 16 dynamic_batching { max_queue_delay_microseconds: 1000 }";
        folder.write("config.pbtxt", config)?;
        folder.write("1/model.onnx", fixtures::model("gather")?)
    })?;
    let server = ServerOptions::new(&repository).start().await?;
    // As many that ask for too much as others: nearly every batch has one.
    let load = Load::start(server.address(), (0..16).map(|number| Reader { asks_for_too_much: number % 2 == 0 }));
    load.wait_for(4_000, Duration::from_secs(60)).await?;
    let report = load.stop().await?.expect_no_failure()?;
    ensure!(report.requests >= 4_000);
    let metrics = server.metrics().await?;
    let batches = metrics.value("airlock_batch_rows_count", &[("model", "table"), ("version", "1")]);
    let rows = metrics.value("airlock_batch_rows_sum", &[("model", "table"), ("version", "1")]);
    ensure!(rows > batches, "{batches} batches of {rows} rows in all: requests did share batches");
    Ok(())
}
