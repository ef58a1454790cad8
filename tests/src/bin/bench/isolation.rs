//! What a hostile plugin costs the model beside it: quiet and attacked runs take turns, and the medians are compared. The
//! first neighbour is a good plugin, called just as often: what it costs is the price of sharing the cores.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use clap::Args;
use tests::scaler::{self, Scaled, Scaling};
use tests::statistics::{median, quantile};
use tests::{Answer, Caller, Load, Outgoing, Repository, Server, guests};
use tokio::time::{Instant, sleep};

use crate::millis;

/// Guests of `tests/guests` and the body that makes each misbehave.
const NEIGHBOURS: [(&str, &[u8]); 10] = [
    ("echo", b"x"),
    ("trap", b"x"),
    ("trap-at-start", b"x"),
    ("loop", b"x"),
    ("loop-at-start", b"x"),
    ("memory", b"x"),
    ("huge-output", b"\x04"),
    ("wrong-length", b"abc"),
    ("wrong-status", b"x"),
    ("log-flood", b"x"),
];

#[derive(Args)]
pub(crate) struct IsolationArgs {
    /// Runs of each kind per hostile plugin
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Seconds per run
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    seconds: u64,
    /// Connections to the model that is watched
    #[arg(long, value_name = "N", default_value_t = 2)]
    connections: u64,
    /// Connections that call the hostile plugin
    #[arg(long, value_name = "N", default_value_t = 1)]
    attackers: usize,
    /// Only these neighbours
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    beside: Vec<String>,
    /// Calls per second that each of those makes at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    attacks_per_second: u32,
}

pub(crate) async fn run(args: &IsolationArgs) -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "watched", &Scaling::new("watched", 10.0))?;
    for (guest, _) in NEIGHBOURS {
        let folder = scaler::add(&repository, guest, &Scaling::new("unused", 1.0))?;
        folder.write("plugin.toml", "[limits]\nmemory_mb = 64\ntime_ms = 100\noutput_mb = 1\nlog_lines = 10\n")?;
        folder.write("plugin.wasm", guests::guest(guest))?;
    }
    let server = Server::start(&repository).await?;
    let interval = Duration::from_secs(1) / args.attacks_per_second.max(1);
    println!("p99 of a model in ms, medians of {} runs of {} s, alone and beside a plugin", args.rounds, args.seconds);
    println!("{:>14} {:>10} {:>10} {:>8} {:>14}", "beside", "alone", "attacked", "ratio", "attacks/s");
    let chosen = |guest: &str| args.beside.is_empty() || args.beside.iter().any(|name| name == guest);
    for (guest, body) in NEIGHBOURS.into_iter().filter(|(guest, _)| chosen(guest)) {
        let mut figures = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            figures.0.push(watch(&server, args).await?);
            let attack =
                Load::start(server.address(), (0..args.attackers).map(|_| Attacker::new(guest, body, interval)));
            figures.1.push(watch(&server, args).await?);
            let attack = attack.stop().await?;
            #[expect(clippy::cast_precision_loss, reason = "requests are few")]
            figures.2.push(attack.requests as f64 / attack.elapsed.as_secs_f64());
        }
        let [alone, attacked, rate] = [&figures.0, &figures.1, &figures.2].map(|values| median(values));
        println!("{guest:>14} {alone:>10.3} {attacked:>10.3} {:>8.2} {rate:>14.0}", attacked / alone);
    }
    server.stop().await?;
    Ok(())
}

/// The 99th percentile of the watched model over one run.
async fn watch(server: &Server, args: &IsolationArgs) -> Result<f64> {
    let load = Load::start(server.address(), (0..args.connections).map(Watched));
    sleep(Duration::from_secs(args.seconds)).await;
    let report = load.stop().await?.expect_no_failure()?;
    Ok(millis(quantile(&report.latencies, 0.99)))
}

struct Watched(u64);

impl Watched {
    fn figures(&self, number: u64) -> [f64; 4] {
        scaler::figures(self.0 * 131 + number)
    }
}

impl Caller for Watched {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request("watched", self.figures(number))
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        Scaled::read(answer, self.figures(number)).map(drop)
    }
}

struct Attacker {
    outgoing: Outgoing,
    interval: Duration,
    next: Instant,
}

impl Attacker {
    fn new(guest: &str, body: &'static [u8], interval: Duration) -> Self {
        let path = format!("/v1/models/{guest}:predict").into();
        Self { outgoing: Outgoing { path, body: Bytes::from_static(body) }, interval, next: Instant::now() }
    }
}

impl Caller for Attacker {
    fn request(&mut self, _number: u64) -> Outgoing {
        self.outgoing.clone()
    }

    fn next_at(&mut self) -> Option<Instant> {
        self.next = (self.next + self.interval).max(Instant::now());
        Some(self.next)
    }

    fn check(&mut self, _number: u64, answer: &Answer) -> Result<()> {
        ensure!(answer.status != 503, "turned away: {answer}");
        Ok(())
    }
}
