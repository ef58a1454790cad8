//! Benchmarks of the built server that print figures and assert nothing about them: `bench swap`, `bench isolation`,
//! `bench reload` and `bench predict`. The load comes from this process, so on a small machine server and load share the cores; ratios
//! within one run are what counts. `cargo xtask bench --profile dist swap` builds everything it needs first.

mod isolation;
mod predict;
mod reload;
mod swap;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
#[command(name = "bench", about = "Benchmarks of the built server")]
enum Command {
    /// From a plugin renamed into place to the first answer of its generation
    Swap(swap::SwapArgs),
    /// The 99th percentile of a model, alone and beside each hostile plugin
    Isolation(isolation::IsolationArgs),
    /// Latency of a model beside one that is loaded again and again
    Reload(reload::ReloadArgs),
    /// Throughput and latency of predict on the sample model fraud_v3
    Predict(predict::PredictArgs),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Command::parse() {
        Command::Swap(args) => swap::run(&args).await,
        Command::Isolation(args) => isolation::run(&args).await,
        Command::Reload(args) => reload::run(&args).await,
        Command::Predict(args) => predict::run(&args).await,
    }
}

/// Milliseconds, for people.
fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
