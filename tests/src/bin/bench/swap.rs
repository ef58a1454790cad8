//! How long a swap takes beyond its settle time: the component gets new bytes each time, so it is compiled anew.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tests::scaler::{self, Scaling};
use tests::statistics::quantile;
use tests::wait::PATIENCE;
use tests::{Client, ModelFolder, Repository, ServerOptions};
use tokio::time::{Instant, sleep, timeout};

use crate::millis;

const MODEL: &str = "scaler";
/// Between two looks; also the error of a figure.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Args)]
pub(crate) struct SwapArgs {
    /// Swaps per settle time
    #[arg(long, value_name = "N", default_value_t = 20)]
    swaps: usize,
    /// Settle times to try
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [500, 20])]
    settle_ms: Vec<u64>,
}

pub(crate) async fn run(args: &SwapArgs) -> Result<()> {
    println!("from rename to the first answer of the new generation, less the settle time, over {} swaps", args.swaps);
    println!("{:>10} {:>12} {:>12} {:>12}", "settle ms", "median ms", "p90 ms", "longest ms");
    for settle_ms in &args.settle_ms {
        let times = swaps(*settle_ms, args.swaps).await?;
        let [median, p90, longest] = [0.5, 0.9, 1.0].map(|share| millis(quantile(&times, share)));
        println!("{settle_ms:>10} {median:>12.1} {p90:>12.1} {longest:>12.1}");
    }
    Ok(())
}

/// Times less the settle time, sorted.
async fn swaps(settle_ms: u64, count: usize) -> Result<Vec<Duration>> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("bench", 10.0))?;
    folder.write_folder("samples", &scaler::sample_of_shape())?;
    let server = ServerOptions::new(&repository).settle_ms(settle_ms).start().await?;
    let mut client = server.client();
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let component = scaler::component(&format!("settle {settle_ms}, swap {number}"))?;
        let time = timeout(PATIENCE, swap(&folder, &mut client, &component)).await;
        let time = time.with_context(|| format!("swap {number} was not published"))??;
        times.push(time.saturating_sub(Duration::from_millis(settle_ms)));
    }
    times.sort_unstable();
    server.stop().await?;
    Ok(times)
}

async fn swap(folder: &ModelFolder, client: &mut Client, component: &[u8]) -> Result<Duration> {
    let before = generation(client).await?;
    folder.write("plugin.wasm", component)?;
    let renamed = Instant::now();
    while generation(client).await? == before {
        sleep(LOOK_INTERVAL).await;
    }
    Ok(renamed.elapsed())
}

async fn generation(client: &mut Client) -> Result<u64> {
    let answer = client.predict(MODEL, scaler::body([1.0, 2.0, 3.0, 4.0])).await?.expect(200)?;
    answer.number("x-plugin-generation")
}
