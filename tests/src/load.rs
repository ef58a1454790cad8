//! A load generator: some number of connections, each sending the next request as soon as the answer to the last one is
//! in and checked, or at the pace that the test sets. What a request is and what its answer must be is the test's to say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::http::{Answer, Client};
use crate::wait::eventually;

/// Failures whose text is kept per connection; all are counted.
const FAILURES_KEPT: usize = 5;

/// Times kept per connection, so that an hour of load does not fill the memory; the first ones.
const LATENCIES_KEPT: usize = 200_000;

/// A request to send, JSON in its body.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where to.
    pub path: Arc<str>,
    /// What.
    pub body: Bytes,
}

/// What one connection asks and expects.
pub trait Caller: Send + 'static {
    /// The request `number` of this connection, counted from 0.
    fn request(&mut self, number: u64) -> Outgoing;

    /// When the next request may be sent at the earliest; at once where nothing is said.
    fn next_at(&mut self) -> Option<Instant> {
        None
    }

    /// Whether the answer to the request `number` is right.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    fn check(&mut self, number: u64, answer: &Answer) -> Result<()>;
}

/// Progress that the connections share with their owner.
#[derive(Debug, Default)]
struct Progress {
    stop: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
}

/// A running load.
#[derive(Debug)]
pub struct Load {
    progress: Arc<Progress>,
    connections: JoinSet<Outcome>,
    started: Instant,
}

/// What one connection saw.
#[derive(Debug, Default)]
struct Outcome {
    latencies: Vec<Duration>,
    failures: Vec<String>,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Requests answered and checked, good and bad.
    pub requests: u64,
    /// Requests without an answer, or with a wrong one.
    pub failed: u64,
    /// The first failures of each connection.
    pub failures: Vec<String>,
    /// Times of the requests that were answered, sorted.
    pub latencies: Vec<Duration>,
    /// From start to stop.
    pub elapsed: Duration,
}

impl Load {
    /// Starts one connection per caller.
    pub fn start<C: Caller>(address: SocketAddr, callers: impl IntoIterator<Item = C>) -> Self {
        let progress = Arc::new(Progress::default());
        let mut connections = JoinSet::new();
        for caller in callers {
            connections.spawn(call(address, caller, Arc::clone(&progress)));
        }
        Self { progress, connections, started: Instant::now() }
    }

    /// Requests answered so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.progress.answered.load(Ordering::Relaxed)
    }

    /// Requests failed so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.progress.failed.load(Ordering::Relaxed)
    }

    /// Waits until `count` requests are answered.
    ///
    /// # Errors
    /// When they are not in time.
    pub async fn wait_for(&self, count: u64, limit: Duration) -> Result<()> {
        let what = format!("{count} requests to be answered");
        let reached = async || (self.answered() >= count).then_some(());
        eventually(&what, limit, reached).await.with_context(|| format!("{} were", self.answered()))
    }

    /// Lets the requests in flight finish and gives back what came of all of them.
    ///
    /// # Errors
    /// When a connection's task panicked.
    pub async fn stop(mut self) -> Result<LoadReport> {
        self.progress.stop.store(true, Ordering::Relaxed);
        let (mut latencies, mut failures) = (Vec::new(), Vec::new());
        while let Some(outcome) = self.connections.join_next().await {
            let outcome = outcome.context("a connection of the load ended early")?;
            latencies.extend(outcome.latencies);
            failures.extend(outcome.failures);
        }
        latencies.sort_unstable();
        let elapsed = self.started.elapsed();
        Ok(LoadReport { requests: self.answered(), failed: self.failed(), failures, latencies, elapsed })
    }
}

impl LoadReport {
    /// The same report, if no request failed.
    ///
    /// # Errors
    /// With the first failures.
    pub fn expect_no_failure(self) -> Result<Self> {
        let shown = self.failures.join("\n");
        ensure!(self.failed == 0, "{} of {} requests failed:\n{shown}", self.failed, self.requests);
        Ok(self)
    }
}

async fn call<C: Caller>(address: SocketAddr, mut caller: C, progress: Arc<Progress>) -> Outcome {
    let mut client = Client::new(address);
    let mut outcome = Outcome::default();
    for number in 0.. {
        if progress.stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(at) = caller.next_at() {
            sleep_until(at).await;
        }
        let started = Instant::now();
        let result = ask(&mut client, &mut caller, number).await;
        if outcome.latencies.len() < LATENCIES_KEPT {
            outcome.latencies.push(started.elapsed());
        }
        progress.answered.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            progress.failed.fetch_add(1, Ordering::Relaxed);
            if outcome.failures.len() < FAILURES_KEPT {
                outcome.failures.push(format!("request {number}: {error:#}"));
            }
        }
    }
    outcome
}

async fn ask<C: Caller>(client: &mut Client, caller: &mut C, number: u64) -> Result<()> {
    let Outgoing { path, body } = caller.request(number);
    let headers = [("content-type", "application/json")];
    let answer = client.send(Method::POST, &path, &headers, body).await?;
    caller.check(number, &answer)
}
