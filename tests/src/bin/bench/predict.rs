//! Throughput and latency of predict on the sample repository's fraud model, at several numbers of connections.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::Args;
use tests::statistics::{median, quantile};
use tests::{Answer, Caller, Load, Outgoing, Server, ServerOptions, fixtures};
use tokio::time::sleep;

use crate::millis;

#[derive(Args)]
pub(crate) struct PredictArgs {
    /// Connections to try
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64])]
    connections: Vec<usize>,
    /// Runs per number of connections
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Seconds per run
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u64,
}

pub(crate) async fn run(args: &PredictArgs) -> Result<()> {
    let server = ServerOptions::of_folder(&fixtures::root().join("model_repository")).settle_ms(500).start().await?;
    let body = Bytes::from(fraud_body());
    measure(&server, &body, 16, 1).await.context("warming up")?;
    let mut runs: Vec<Vec<[f64; 3]>> = vec![Vec::new(); args.connections.len()];
    for _ in 0..args.rounds {
        for (connections, runs) in args.connections.iter().zip(&mut runs) {
            runs.push(measure(&server, &body, *connections, args.seconds).await?);
        }
    }
    println!("predict on fraud_v3, {} bytes, medians of {} runs of {} s", body.len(), args.rounds, args.seconds);
    println!("{:>12} {:>12} {:>10} {:>10}", "connections", "requests/s", "p50 ms", "p99 ms");
    for (connections, runs) in args.connections.iter().zip(&runs) {
        let figure = |index: usize| median(&runs.iter().map(|run| run[index]).collect::<Vec<_>>());
        println!("{connections:>12} {:>12.0} {:>10.3} {:>10.3}", figure(0), figure(1), figure(2));
    }
    server.stop().await?;
    Ok(())
}

/// Requests per second, median and 99th percentile.
async fn measure(server: &Server, body: &Bytes, connections: usize, seconds: u64) -> Result<[f64; 3]> {
    let load = Load::start(server.address(), (0..connections).map(|_| FraudCaller { body: body.clone() }));
    sleep(Duration::from_secs(seconds)).await;
    let report = load.stop().await?.expect_no_failure()?;
    #[expect(clippy::cast_precision_loss, reason = "requests are few")]
    let rate = report.requests as f64 / report.elapsed.as_secs_f64();
    Ok([rate, millis(quantile(&report.latencies, 0.5)), millis(quantile(&report.latencies, 0.99))])
}

/// A request of the usual size.
fn fraud_body() -> String {
    let features: Vec<f64> = (0..128).map(|index| f64::from((index * 37) % 101) / 50.0 - 1.0).collect();
    serde_json::json!({"user_id": "user-1", "age": "25", "features": features}).to_string()
}

struct FraudCaller {
    body: Bytes,
}

impl Caller for FraudCaller {
    fn request(&mut self, _number: u64) -> Outgoing {
        Outgoing { path: "/v1/models/fraud_v3:predict".into(), body: self.body.clone() }
    }

    fn check(&mut self, _number: u64, answer: &Answer) -> Result<()> {
        ensure!(answer.status == 200, "got {answer}");
        Ok(())
    }
}
