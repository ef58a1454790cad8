//! What a model that is loaded again and again costs the model beside it. The watched model gets half the requests that it
//! can answer; runs beside a quiet neighbour and beside one that reloads take turns, and the medians are compared.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tests::log::Log;
use tests::scaler::{self, Scaled, Scaling};
use tests::statistics::{median, quantile};
use tests::{Answer, Caller, Load, ModelFolder, Outgoing, Repository, Server, ServerOptions, fixtures};
use tokio::time::{Instant, sleep};

use crate::millis;

/// The model that is loaded again and again.
const NEIGHBOUR: &str = "neighbour";
const WATCHED: &str = "watched";

#[derive(Args)]
pub(crate) struct ReloadArgs {
    /// Runs of each kind
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Seconds per run
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u64,
    /// Connections to the model that is watched
    #[arg(long, value_name = "N", default_value_t = 4)]
    connections: u32,
    /// How long a file must be still before it is loaded; the server's own default is 500
    #[arg(long, value_name = "MS", default_value_t = 500)]
    settle_ms: u64,
}

pub(crate) async fn run(args: &ReloadArgs) -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, WATCHED, &Scaling::new("watched", 10.0))?;
    let model = std::fs::read(fixtures::root().join("model_repository/fraud_v3/1/model.onnx"))
        .context("reading the sample model")?;
    let neighbour = repository.add(NEIGHBOUR, |folder| folder.write("1/model.onnx", &model))?;
    let server = ServerOptions::new(&repository).settle_ms(args.settle_ms).start().await?;
    let most = requests_per_second(&server, args).await?;
    let interval = Duration::from_secs_f64(2.0 * f64::from(args.connections) / most);
    println!(
        "a model answers {most:.0} requests/s alone; it is watched at half of them, {} runs of {} s",
        args.rounds, args.seconds
    );
    println!("{:>10} {:>10} {:>10} {:>8} {:>12}", "", "quiet ms", "reload ms", "ratio", "reloads/s");
    let mut figures: [(Vec<f64>, Vec<f64>); 2] = Default::default();
    let mut reloads = Vec::new();
    for _ in 0..args.rounds {
        let quiet = watch(&server, args, interval).await?;
        let before = loads(&server).await?;
        let reloader = tokio::spawn(reload(neighbour.clone(), model.clone(), server.log().clone()));
        let busy = watch(&server, args, interval).await?;
        reloader.abort();
        #[expect(clippy::cast_precision_loss, reason = "seconds are few")]
        reloads.push((loads(&server).await? - before) / args.seconds as f64);
        for (row, (quiet, busy)) in figures.iter_mut().zip(quiet.into_iter().zip(busy)) {
            row.0.push(quiet);
            row.1.push(busy);
        }
    }
    for (name, (quiet, busy)) in ["p50", "p99"].into_iter().zip(&figures) {
        let (quiet, busy, rate) = (median(quiet), median(busy), median(&reloads));
        println!("{name:>10} {quiet:>10.3} {busy:>10.3} {:>8.2} {rate:>12.1}", busy / quiet);
    }
    server.stop().await?;
    Ok(())
}

/// What the watched model answers with every connection always busy.
async fn requests_per_second(server: &Server, args: &ReloadArgs) -> Result<f64> {
    let load = Load::start(server.address(), Paced::callers(args.connections, Duration::ZERO));
    sleep(Duration::from_secs(2)).await;
    let report = load.stop().await?.expect_no_failure()?;
    #[expect(clippy::cast_precision_loss, reason = "requests are few")]
    Ok(report.requests as f64 / report.elapsed.as_secs_f64())
}

/// The median and the 99th percentile over one run, in milliseconds.
async fn watch(server: &Server, args: &ReloadArgs, interval: Duration) -> Result<[f64; 2]> {
    let load = Load::start(server.address(), Paced::callers(args.connections, interval));
    sleep(Duration::from_secs(args.seconds)).await;
    let report = load.stop().await?.expect_no_failure()?;
    Ok([0.5, 0.99].map(|share| millis(quantile(&report.latencies, share))))
}

async fn loads(server: &Server) -> Result<f64> {
    Ok(server.metrics().await?.value("airlock_engine_loads_total", &[("model", NEIGHBOUR)]))
}

/// Replaces the neighbour's model with one of other bytes as soon as the last one has been loaded. What has been loaded is
/// told by the log: whoever asks the server is load, too.
async fn reload(folder: ModelFolder, model: Vec<u8>, log: Log) -> Result<()> {
    for number in 0_u64.. {
        // An empty piece of metadata more or less makes other bytes of the same model.
        let mut bytes = model.clone();
        let text = format!("{number:016x}");
        bytes.extend([0x72, 21, 0x0a, 1, b'k', 0x12, 16]);
        bytes.extend(text.as_bytes());
        let mark = log.mark();
        folder.write("1/model.onnx", &bytes)?;
        while log.find(mark, &["message=published", "model=neighbour"]).is_none() {
            sleep(Duration::from_millis(2)).await;
        }
    }
    Ok(())
}

/// Calls the watched model at a pace.
struct Paced {
    connection: u64,
    interval: Duration,
    next: Instant,
}

impl Paced {
    fn callers(connections: u32, interval: Duration) -> impl Iterator<Item = Self> {
        (0..u64::from(connections)).map(move |connection| Self { connection, interval, next: Instant::now() })
    }

    fn figures(&self, number: u64) -> [f64; 4] {
        scaler::figures(self.connection * 131 + number)
    }
}

impl Caller for Paced {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request(WATCHED, self.figures(number))
    }

    fn next_at(&mut self) -> Option<Instant> {
        self.next = (self.next + self.interval).max(Instant::now());
        Some(self.next)
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        Scaled::read(answer, self.figures(number)).map(drop)
    }
}
