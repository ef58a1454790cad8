//! Swaps in a row under load, watching for a request that fails and for memory that grows: the body of `soak swap` and of
//! its short form among the tests. Every second swap changes the settings and every other one the component; one in ten
//! is a candidate that verification refuses.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::{Instant, sleep_until};

use crate::http::Answer;
use crate::load::{Caller, Load, LoadReport, Outgoing};
use crate::process;
use crate::repository::{ModelFolder, Repository};
use crate::scaler::{self, Scaled, Scaling};
use crate::server::{Server, ServerOptions};
use crate::statistics::slope;

const MODEL: &str = "scaler";

/// Different component bytes that take turns: the first time each is compiled, then it comes from the cache.
const COMPONENTS: u64 = 8;

/// The share of swaps after which memory counts, so that caches and pools are full by then.
const WARM_UP_SHARE: f64 = 0.3;

/// How many swaps, how fast, and under what load.
#[derive(Clone, Copy, Debug)]
pub struct SoakPlan {
    /// Swaps at most.
    pub swaps: Option<u64>,
    /// Time at most.
    pub time: Option<Duration>,
    /// From one swap to the next, at least.
    pub interval: Duration,
    /// Connections of the load.
    pub connections: u64,
    /// The server's settle time in milliseconds.
    pub settle_ms: u64,
}

/// Where a soak stands.
#[derive(Clone, Copy, Debug)]
pub struct SoakProgress {
    /// Swaps decided.
    pub swaps: u64,
    /// Requests answered.
    pub requests: u64,
    /// Requests failed.
    pub failed: u64,
    /// The server's resident memory.
    pub resident_bytes: u64,
    /// Since the start.
    pub elapsed: Duration,
}

/// What came of a soak.
#[derive(Clone, Debug)]
pub struct SoakReport {
    /// The end.
    pub last: SoakProgress,
    /// What the load saw.
    pub load: LoadReport,
    /// Bytes of resident memory per swap, over the swaps after the warm-up.
    pub slope_bytes_per_swap: f64,
}

/// Runs a soak. `report` is called every hundred swaps.
///
/// # Errors
/// When the server ends, or does not decide about a swap in time.
pub async fn swaps(plan: SoakPlan, mut report: impl FnMut(SoakProgress)) -> Result<SoakReport> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("swap 0", 10.0))?;
    folder.write_folder("samples", &scaler::sample_of_shape())?;
    let server = ServerOptions::new(&repository).settle_ms(plan.settle_ms).start().await?;
    let load = Load::start(server.address(), (0..plan.connections).map(|connection| SoakCaller { connection }));
    let started = Instant::now();
    let mut points = Vec::new();
    let mut last = progress(&server, &load, 0, started)?;
    for number in 1.. {
        let next = Instant::now() + plan.interval;
        swap(&folder, &server, number).await?;
        last = progress(&server, &load, number, started)?;
        points.push((to_f64(number), to_f64(last.resident_bytes)));
        if number % 100 == 0 {
            report(last);
        }
        if plan.swaps.is_some_and(|swaps| number >= swaps) || plan.time.is_some_and(|time| started.elapsed() >= time) {
            break;
        }
        sleep_until(next).await;
    }
    let load = load.stop().await?;
    server.stop().await?;
    let slope_bytes_per_swap = slope(after_warm_up(&points));
    Ok(SoakReport { last, load, slope_bytes_per_swap })
}

fn after_warm_up(points: &[(f64, f64)]) -> &[(f64, f64)] {
    let last = points.last().map_or(0.0, |(number, _)| *number);
    &points[points.partition_point(|(number, _)| *number <= last * WARM_UP_SHARE)..]
}

/// Reads a time such as `60s`, `10m` or `1h`; a bare number is seconds.
///
/// # Errors
/// When it is no such time.
pub fn duration(text: &str) -> Result<Duration> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let number: u64 = digits.parse().with_context(|| format!("{text:?} is no time; write 60s, 10m or 1h"))?;
    let seconds = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        unit => bail!("unknown unit {unit:?}; write 60s, 10m or 1h"),
    };
    Ok(Duration::from_secs(number * seconds))
}

/// Makes one change and waits until the server has decided about it.
async fn swap(folder: &ModelFolder, server: &Server, number: u64) -> Result<()> {
    let before = server.log().mark();
    let tag = format!("swap {number}");
    let mut decision = "message=published";
    match number % 10 {
        // Settings without a scale: every request would fail, so the sample does.
        8 => {
            folder.write("plugin.toml", "[config]\ntag = \"refused\"\n")?;
            decision = "message=refused";
        }
        even if even % 2 == 0 => folder.write("plugin.toml", Scaling::new(tag, 10.0).manifest())?,
        // The settings are mended first: a component is built with those that lie beside it.
        9 => folder.write("plugin.toml", Scaling::new(tag, 10.0).manifest())?,
        _ => folder.write("plugin.wasm", scaler::component(&format!("variant {}", (number / 2) % COMPONENTS))?)?,
    }
    server.log().wait_for(before, &[decision, "part=plugin"]).await.with_context(|| format!("swap {number}"))?;
    Ok(())
}

fn progress(server: &Server, load: &Load, swaps: u64, started: Instant) -> Result<SoakProgress> {
    let resident_bytes = process::resident_bytes(server.pid())?;
    let (requests, failed) = (load.answered(), load.failed());
    Ok(SoakProgress { swaps, requests, failed, resident_bytes, elapsed: started.elapsed() })
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes are below 2^52")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

struct SoakCaller {
    connection: u64,
}

impl SoakCaller {
    fn figures(&self, number: u64) -> [f64; 4] {
        scaler::figures(self.connection * 131 + number)
    }
}

impl Caller for SoakCaller {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request(MODEL, self.figures(number))
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        let scaled = Scaled::read(answer, self.figures(number))?;
        ensure!(scaled.scaling.tag.starts_with("swap ") && (scaled.weights_factor - 2.0).abs() < 1e-6, "{scaled:?}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_swaps_do_not_count() {
        let points: Vec<(f64, f64)> = (1..=10).map(|number| (f64::from(number), 0.0)).collect();
        assert_eq!(after_warm_up(&points).first().map(|(number, _)| *number), Some(4.0));
        assert!(after_warm_up(&[]).is_empty());
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("60", 60), ("60s", 60), ("10m", 600), ("1h", 3600)] {
            assert_eq!(duration(text).expect(text), Duration::from_secs(seconds));
        }
        for text in ["", "s", "1d", "1.5h", "-1s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
