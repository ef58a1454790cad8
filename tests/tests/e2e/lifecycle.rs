//! Versions that come, go and are replaced while requests are served: nobody fails, nothing unfinished is read, nothing is
//! kept.

use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::http::Answer;
use tests::load::{Caller, Load, Outgoing};
use tests::process::resident_bytes;
use tests::scaler::{self, Scaled, Scaling, Weights};
use tests::wait::{PATIENCE, eventually};
use tests::{Repository, Server, ServerOptions, fixtures};
use tokio::time::{Instant, sleep};

const MODEL: &str = "scaler";
const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

/// Calls the scaler at a pace of its own, and holds each answer to one of the two sets of weights.
struct Paced {
    connection: u64,
    interval: Duration,
    next: Instant,
}

impl Paced {
    /// So many requests per second, over eight connections.
    fn callers(per_second: u32) -> impl Iterator<Item = Self> {
        let interval = Duration::from_secs(8) / per_second;
        (0..8).map(move |connection| Self { connection, interval, next: Instant::now() })
    }

    fn figures(&self, number: u64) -> [f64; 4] {
        scaler::figures(self.connection * 7919 + number)
    }
}

impl Caller for Paced {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request(MODEL, self.figures(number))
    }

    fn next_at(&mut self) -> Option<Instant> {
        self.next = (self.next + self.interval).max(Instant::now());
        Some(self.next)
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        let weights = Scaled::read(answer, self.figures(number))?.weights_factor;
        let known = [Weights::Double, Weights::Triple].map(Weights::factor);
        ensure!(known.iter().any(|factor| (factor - weights).abs() < 1e-3), "weights of {weights}");
        Ok(())
    }
}

/// Asks for readiness again and again, and counts the answers that were not 200.
struct Readiness {
    stop: Arc<AtomicBool>,
    watch: tokio::task::JoinHandle<Result<(usize, usize)>>,
}

impl Readiness {
    fn watch(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut client) = (Arc::clone(&stop), server.client());
        let watch = tokio::spawn(async move {
            let (mut asked, mut dropped) = (0, 0);
            while !stopped.load(Ordering::Relaxed) {
                for path in ["/v2/health/ready", "/v2/models/scaler/ready"] {
                    dropped += usize::from(client.get(path).await?.status != 200);
                    asked += 1;
                }
                sleep(Duration::from_millis(2)).await;
            }
            anyhow::Ok((asked, dropped))
        });
        Self { stop, watch }
    }

    async fn expect_always(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let (asked, dropped) = self.watch.await??;
        ensure!(asked > 0 && dropped == 0, "{dropped} of {asked} times not ready");
        Ok(())
    }
}

async fn engine_loads(server: &Server, model: &str) -> Result<f64> {
    Ok(server.metrics().await?.value("airlock_engine_loads_total", &[("model", model)]))
}

#[tokio::test]
async fn a_version_replaced_fifty_times_at_a_thousand_requests_a_second_fails_nobody() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("one", 10.0))?;
    let server = ServerOptions::new(&repository).start().await?;
    let readiness = Readiness::watch(&server);
    let load = Load::start(server.address(), Paced::callers(1_000));
    for replacement in 1..=50_u32 {
        let weights = if replacement % 2 == 0 { Weights::Double } else { Weights::Triple };
        folder.write("1/model.onnx", weights.onnx()?)?;
        eventually("the new weights to answer", PATIENCE, async || {
            let answer = server.predict(MODEL, scaler::body(X)).await.ok()?;
            let factor = Scaled::read(&answer, X).ok()?.weights_factor;
            ((factor - weights.factor()).abs() < 1e-3).then_some(())
        })
        .await?;
    }
    load.wait_for(load.answered() + 500, PATIENCE).await?;
    let report = load.stop().await?.expect_no_failure()?;
    ensure!(report.requests > 1_000, "{} requests", report.requests);
    readiness.expect_always().await?;
    ensure!(engine_loads(&server, MODEL).await? >= 51.0, "each replacement was loaded");
    server.stop().await?;
    Ok(())
}

/// The model with so many bytes in its metadata: large, and quick to load.
fn enlarged(mut model: Vec<u8>, bytes: usize) -> Vec<u8> {
    let varint = |mut value: usize| {
        let mut encoded = Vec::new();
        while value >= 0x80 {
            encoded.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
            value >>= 7;
        }
        encoded.push(u8::try_from(value).unwrap_or(0));
        encoded
    };
    // ModelProto.metadata_props (14), a StringStringEntryProto of key (1) and value (2).
    let mut head = vec![0x0a, 1, b'k', 0x12];
    head.extend(varint(bytes));
    model.push(0x72);
    model.extend(varint(head.len() + bytes));
    model.extend(head);
    model.resize(model.len() + bytes, b'x');
    model
}

#[tokio::test]
async fn a_large_model_that_is_copied_slowly_is_not_opened_before_it_is_whole() -> Result<()> {
    const PIECES: usize = 30;
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("one", 10.0))?;
    let server = ServerOptions::new(&repository).start().await?;
    let start = server.log().mark();
    let model = enlarged(Weights::Triple.onnx()?, 300 << 20);
    let places = [(MODEL, folder.path("2")), ("late", repository.path().join("late/1"))];
    for (name, folder) in places {
        let before = engine_loads(&server, name).await?;
        std::fs::create_dir_all(&folder)?;
        let mut file = File::create(folder.join("model.onnx"))?;
        for piece in model.chunks(model.len().div_ceil(PIECES)) {
            ensure!((engine_loads(&server, name).await? - before).abs() < 0.5, "opened before it was whole");
            file.write_all(piece)?;
            // Longer than files must be still: only their structure tells that they are not whole.
            sleep(Duration::from_millis(60)).await;
        }
        server.wait_for_metric("airlock_engine_loads_total", &[("model", name)], before + 1.0).await?;
    }
    let told = eventually("version 2 to serve", PATIENCE, async || {
        let answer = server.get("/v2/models/scaler/versions/2/ready").await.ok()?;
        (answer.status == 200).then_some(())
    });
    told.await?;
    ensure!(server.log().find(start, &["level=ERROR"]).is_none(), "{}", server.log().tail(start));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn instances_come_and_go_without_a_load() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("one", 10.0))?;
    let server = ServerOptions::new(&repository).start().await?;
    let readiness = Readiness::watch(&server);
    let load = Load::start(server.address(), Paced::callers(400));
    let one = "instance_group [ { count: 1 kind: KIND_CPU } ]";
    let base = scaler::config(MODEL);
    ensure!(base.contains(one), "{base}");
    for count in [3, 1, 4, 2].map(|count| NonZeroUsize::new(count).expect("not zero")) {
        let before = server.log().mark();
        folder
            .write("config.pbtxt", base.replace(one, &format!("instance_group {{ count: {count} kind: KIND_CPU }}")))?;
        let instances = format!("instances={count}");
        server.log().wait_for(before, &["instances changed; nothing was loaded again", &instances]).await?;
        let config = server.get("/v2/models/scaler/config").await?.expect(200)?.json()?;
        assert_eq!(config["instance_group"][0]["count"], count.get());
    }
    assert!((engine_loads(&server, MODEL).await? - 1.0).abs() < 0.5, "loaded once");
    load.stop().await?.expect_no_failure()?;
    readiness.expect_always().await?;
    // What the session itself is made of needs a new one.
    let threads = "parameters { key: \"intra_op_thread_count\" value { string_value: \"2\" } }";
    folder.write("config.pbtxt", format!("{base}\n{threads}\n"))?;
    server.wait_for_metric("airlock_engine_loads_total", &[("model", MODEL)], 2.0).await?;
    server.stop().await?;
    Ok(())
}

/// A load again and again.
struct Cycle {
    times: usize,
    /// What each load is answered with.
    status: u16,
    /// Whether each load is followed by an unload.
    unloads: bool,
}

impl Cycle {
    /// The resident memory after each fiftieth time.
    async fn run(&self, server: &Server) -> Result<Vec<u64>> {
        let mut client = server.client();
        let mut resident = Vec::new();
        for done in 1..=self.times {
            let loaded = client.post("/v2/repository/models/fraud/load", "").await?.expect(self.status)?;
            if self.status == 400 {
                ensure!(loaded.text().contains("tensor 'logit'"), "it fails for its shape: {}", loaded.text());
            }
            if self.unloads {
                client.post("/v2/repository/models/fraud/unload", "").await?.expect(200)?;
            }
            if done % 50 == 0 {
                eventually("what was unloaded to be freed", PATIENCE, async || {
                    let draining = server.metrics().await.ok()?.value("airlock_releases_draining", &[]);
                    (draining < 0.5).then_some(())
                })
                .await?;
                resident.push(resident_bytes(server.pid())?);
            }
        }
        Ok(resident)
    }
}

/// What the file's names are, with an output of seven values where the file has one.
const WRONG_SHAPE: &str = "max_batch_size: 0\n\
    input { name: \"features\" data_type: TYPE_FP32 dims: [ -1, 8 ] }\n\
    output { name: \"probability\" data_type: TYPE_FP32 dims: [ -1, 1 ] }\n\
    output { name: \"logit\" data_type: TYPE_FP32 dims: [ -1, 7 ] }";

#[tokio::test]
async fn loading_and_unloading_keeps_no_memory() -> Result<()> {
    let repository = Repository::new()?;
    let folder = repository.add("fraud", |folder| folder.write("1/model.onnx", fixtures::model("fraud_mlp")?))?;
    let server = ServerOptions::new(&repository).flag("--model-control-mode", "explicit").start().await?;
    let cycles = [
        Cycle { times: 500, status: 200, unloads: true },
        Cycle { times: 200, status: 400, unloads: true },
        Cycle { times: 200, status: 400, unloads: false },
    ];
    for cycle in cycles {
        if cycle.status == 400 {
            folder.write("config.pbtxt", WRONG_SHAPE)?;
        }
        let resident = cycle.run(&server).await?;
        let (first, last) = (resident[0], *resident.last().context("measured")?);
        let Cycle { times, status, unloads } = cycle;
        ensure!(
            last <= first + first / 10,
            "{times} times with status {status}, unloads {unloads}: {resident:?} bytes"
        );
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn loads_that_fail_keep_no_memory_of_a_large_file() -> Result<()> {
    let repository = Repository::new()?;
    let folder = repository
        .add("fraud", |folder| folder.write("1/model.onnx", enlarged(fixtures::model("fraud_mlp")?, 16 << 20)))?;
    folder.write("config.pbtxt", WRONG_SHAPE)?;
    let server = ServerOptions::new(&repository).flag("--model-control-mode", "explicit").start().await?;
    let before = resident_bytes(server.pid())?;
    let resident = Cycle { times: 50, status: 400, unloads: false }.run(&server).await?;
    let last = *resident.last().context("measured")?;
    ensure!(last <= before + (16 << 20), "{before} bytes before, {last} after: as much as the file is left");
    server.stop().await?;
    Ok(())
}
