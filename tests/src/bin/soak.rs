//! Long tests: `soak swap` swaps a plugin under load for as long as it is told and ends with exit code 1 when a request
//! failed or memory grew. `cargo xtask soak swap --for 1h` builds everything it needs first.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser};
use tests::soak::{SoakPlan, SoakProgress, SoakReport, duration, swaps};

/// The most that resident memory may grow.
const SLOPE_BYTES_PER_SWAP_MAX: f64 = 4096.0;

#[derive(Parser)]
#[command(name = "soak", about = "Long tests of the built server")]
enum Command {
    /// Swap a plugin under load
    Swap(SwapArgs),
}

#[derive(Args)]
struct SwapArgs {
    /// How long, such as 60s, 10m or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// How many swaps [default: 1000 where no time is given]
    #[arg(long, value_name = "N")]
    swaps: Option<u64>,
    /// Time from one swap to the next, at least
    #[arg(long, value_name = "MS", default_value_t = 50)]
    every_ms: u64,
    /// Connections that send requests all the while
    #[arg(long, value_name = "N", default_value_t = 4)]
    connections: u64,
    /// The server's settle time
    #[arg(long, value_name = "MS", default_value_t = 5)]
    settle_ms: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let Command::Swap(args) = Command::parse();
    let swaps_max = args.swaps.or_else(|| args.time.is_none().then_some(1000));
    let plan = SoakPlan {
        swaps: swaps_max,
        time: args.time,
        interval: Duration::from_millis(args.every_ms),
        connections: args.connections,
        settle_ms: args.settle_ms,
    };
    println!("{:>8} {:>8} {:>12} {:>8} {:>12}", "time s", "swaps", "requests", "failed", "RSS MiB");
    let report = swaps(plan, show).await?;
    show(report.last);
    Ok(verdict(&report))
}

#[expect(clippy::cast_precision_loss, reason = "a size for people")]
fn show(progress: SoakProgress) {
    let SoakProgress { swaps, requests, failed, resident_bytes, elapsed } = progress;
    let resident_mib = resident_bytes as f64 / f64::from(1 << 20);
    println!("{:>8.1} {swaps:>8} {requests:>12} {failed:>8} {resident_mib:>12.1}", elapsed.as_secs_f64());
}

fn verdict(report: &SoakReport) -> ExitCode {
    let SoakReport { load, slope_bytes_per_swap, .. } = report;
    println!("slope of RSS over the last 70 %: {slope_bytes_per_swap:.0} bytes per swap (at most 4096)");
    println!("{} of {} requests failed", load.failed, load.requests);
    for failure in &load.failures {
        println!("  {failure}");
    }
    if load.failed > 0 || *slope_bytes_per_swap > SLOPE_BYTES_PER_SWAP_MAX {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
