//! Swaps under load: no request fails, every answer comes from one generation, refused candidates leave exactly one
//! record each and change nothing, and the engine never notices a plugin.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use tests::scaler::{self, Scaled, Scaling, Weights};
use tests::wait::PATIENCE;
use tests::{Answer, Caller, Load, ModelFolder, Outgoing, Repository, Server, ServerOptions, eventually};
use tests::{component, guests};

const MODEL: &str = "scaler";
const CONCURRENCY: u64 = 16;
const REQUESTS_MIN: u64 = 20_000;
const SWAPS: usize = 50;

/// What every connection together knows of the generations seen.
type Generations = Arc<Mutex<BTreeMap<u64, Scaling>>>;

/// One connection: checks that each answer is whole and that no connection goes back to an older generation.
struct SwapCaller {
    connection: u64,
    newest: u64,
    generations: Generations,
}

impl SwapCaller {
    fn figures(&self, number: u64) -> [f64; 4] {
        scaler::figures(self.connection * 131 + number)
    }
}

impl Caller for SwapCaller {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request(MODEL, self.figures(number))
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        let scaled = Scaled::read(answer, self.figures(number))?;
        let weights = if scaled.version == 1 { Weights::Double } else { Weights::Triple };
        let factor = weights.factor();
        ensure!((scaled.weights_factor - factor).abs() < 1e-6, "not the weights of its version: {scaled:?}");
        ensure!(scaled.generation >= self.newest, "generation {} served before: {scaled:?}", self.newest);
        self.newest = scaled.generation;
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let first = generations.entry(scaled.generation).or_insert_with(|| scaled.scaling.clone());
        ensure!(*first == scaled.scaling, "its generation has answered {first:?} too: {scaled:?}");
        Ok(())
    }
}

/// A change of one file of the plugin, and what must come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swap {
    NewSettings,
    NewComponent,
    WrongAnswers,
    Traps,
    CoreModule,
    HalfCopied,
    WrongWorld,
}

impl Swap {
    /// Ten in a row, good and bad mixed; what a bad one broke, the next one mends.
    const ROUND: [Self; 10] = [
        Self::NewSettings,
        Self::NewComponent,
        Self::WrongAnswers,
        Self::NewSettings,
        Self::Traps,
        Self::NewComponent,
        Self::CoreModule,
        Self::HalfCopied,
        Self::WrongWorld,
        Self::NewComponent,
    ];

    /// Outcome and a piece of the reason.
    fn refusal(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::NewSettings | Self::NewComponent | Self::HalfCopied => None,
            Self::WrongAnswers => Some(("failed_to_verify", "/scale: expected a number from 1 to 100, got 1000")),
            Self::Traps => Some(("failed_to_verify", "sample 'shape': status: expected 200, got 500")),
            Self::CoreModule => Some(("failed_to_build", "core WebAssembly module")),
            Self::WrongWorld => Some(("failed_to_build", "airlock:plugin/adapter")),
        }
    }

    /// Makes the change and waits until the server has decided about it.
    async fn apply(self, folder: &ModelFolder, server: &Server, number: usize) -> Result<()> {
        let before = server.log().mark();
        let note = format!("swap {number}");
        match self {
            Self::NewSettings => folder.write("plugin.toml", Scaling::new(note, 10.0).manifest())?,
            Self::WrongAnswers => folder.write("plugin.toml", Scaling::new(note, 1000.0).manifest())?,
            Self::NewComponent => folder.write("plugin.wasm", scaler::component(&note)?)?,
            Self::Traps => folder.write("plugin.wasm", component::with_note(&guests::guest("trap"), &note))?,
            Self::CoreModule => folder.write("plugin.wasm", component::core_module()?)?,
            Self::WrongWorld => folder.write("plugin.wasm", component::with_note(&guests::text("pipeline"), &note))?,
            Self::HalfCopied => {
                let whole = scaler::component(&note)?;
                let copy = folder.start_copy("plugin.wasm", &whole)?;
                server.log().wait_for(before, &["model=scaler", "part=plugin", "outcome=still_changing"]).await?;
                copy.finish()?;
            }
        }
        let decided = match self.refusal() {
            None => vec!["message=published", "model=scaler", "part=plugin"],
            Some((outcome, reason)) => vec!["message=refused", "model=scaler", "part=plugin", outcome, reason],
        };
        server.log().wait_for(before, &decided).await.with_context(|| format!("{self:?}, swap {number}"))?;
        Ok(())
    }
}

async fn start() -> Result<(Repository, ModelFolder, Server)> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("first", 10.0))?;
    folder.write("config.pbtxt", scaler::config_of_all_versions(MODEL))?;
    folder.write_folder("samples", &scaler::sample_of_shape())?;
    let server = ServerOptions::new(&repository).flag("--settle-cap-ms", "200").start().await?;
    Ok((repository, folder, server))
}

async fn engine_loads(server: &Server) -> Result<f64> {
    Ok(server.metrics().await?.value("airlock_engine_loads_total", &[("model", MODEL)]))
}

async fn wait_for_version(server: &Server, version: &str) -> Result<()> {
    let mut client = server.client();
    let body = scaler::body([1.0, 2.0, 3.0, 4.0]);
    eventually(&format!("version {version} to serve"), PATIENCE, async || {
        let answer = client.predict(MODEL, body.clone()).await.ok()?;
        (answer.header("x-model-version") == Some(version)).then_some(())
    })
    .await
}

#[tokio::test]
async fn fifty_swaps_and_a_version_under_load_fail_no_request() -> Result<()> {
    let (_repository, folder, server) = start().await?;
    let generations = Generations::default();
    let caller = |connection| SwapCaller { connection, newest: 0, generations: Arc::clone(&generations) };
    let load = Load::start(server.address(), (0..CONCURRENCY).map(caller));
    let start = server.log().mark_of_start();
    let metrics_before = server.metrics().await?;

    for number in 0..SWAPS {
        Swap::ROUND[number % Swap::ROUND.len()].apply(&folder, &server, number).await?;
        ensure!(load.failed() == 0, "after swap {number}: {:?}", load.stop().await?.failures);
        match number {
            14 => {
                assert_eq!(engine_loads(&server).await?, 1.0, "a plugin swap loaded a version");
                folder.write_folder("2", &[("model.onnx", &Weights::Triple.onnx()?)])?;
                wait_for_version(&server, "2").await?;
            }
            34 => {
                assert_eq!(engine_loads(&server).await?, 2.0, "one version was added");
                folder.remove("2")?;
                wait_for_version(&server, "1").await?;
            }
            _ => {}
        }
    }
    load.wait_for(REQUESTS_MIN, 10 * PATIENCE).await?;
    let report = load.stop().await?.expect_no_failure()?;
    assert!(report.requests >= REQUESTS_MIN);
    assert_eq!(engine_loads(&server).await?, 2.0, "plugin swaps and a removed version load nothing");

    let rounds = SWAPS / Swap::ROUND.len();
    let metrics = server.metrics().await?;
    for (outcome, expected) in [
        ("published", 6 * rounds + 1),
        ("failed_to_verify", 2 * rounds),
        ("failed_to_build", 2 * rounds),
        ("still_changing", rounds),
    ] {
        let labels = [("model", MODEL), ("outcome", outcome)];
        let counted =
            metrics.value("airlock_swaps_total", &labels) - metrics_before.value("airlock_swaps_total", &labels);
        assert_eq!(counted, expected as f64, "{outcome}");
    }
    for (outcome, reason) in Swap::ROUND.iter().filter_map(|swap| swap.refusal()) {
        let parts = ["level=ERROR", "message=refused", "model=scaler", "part=plugin", outcome, reason];
        assert_eq!(server.log().count(start, &parts), rounds, "{parts:?}");
    }
    let seen = generations.lock().unwrap_or_else(PoisonError::into_inner).len();
    assert!(seen > 1, "only {seen} generation was seen in {} requests", report.requests);
    assert_eq!(metrics.value("airlock_plugin_failures_total", &[]), 0.0, "verification counts in no statistic");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_swap_shows_in_the_next_answer() -> Result<()> {
    let (_repository, folder, server) = start().await?;
    let x = [1.0, 2.0, 3.0, 4.0];
    let mut client = server.client();
    for generation in 2..5 {
        let before = server.log().mark();
        let scaling = Scaling::new(format!("generation {generation}"), 10.0 + f64::from(generation));
        folder.write("plugin.toml", scaling.manifest())?;
        server
            .log()
            .wait_for(before, &["message=published", "part=plugin", &format!("generation={generation}")])
            .await?;
        let answer = Scaled::read(&client.predict(MODEL, scaler::body(x)).await?, x)?;
        let expected = Scaled { scaling, generation: u64::try_from(generation)?, version: 1, weights_factor: 2.0 };
        assert_eq!(answer, expected);
    }
    let metrics = server.metrics().await?;
    assert_eq!(metrics.value("airlock_plugin_generation", &[("model", MODEL)]), 4.0);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn the_same_content_again_is_no_swap() -> Result<()> {
    let (_repository, folder, server) = start().await?;
    let before = server.log().mark();
    folder.write("plugin.wasm", scaler::component("first")?)?;
    // The next real swap is taken after the one without a difference, which must have left no record by then.
    folder.write(
        "config.pbtxt",
        scaler::config_of_all_versions(MODEL).replace("max_batch_size: 16", "max_batch_size: 8"),
    )?;
    server.log().wait_for(before, &["message=published", "part=config.pbtxt"]).await?;
    folder.write("plugin.toml", Scaling::new("second", 10.0).manifest())?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=2"]).await?;
    assert_eq!(server.log().count(before, &["part=plugin"]), 1, "{}", server.log().tail(before));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn without_file_events_the_periodic_scan_is_enough() -> Result<()> {
    let repository = Repository::new()?;
    let real = scaler::add(&repository, MODEL, &Scaling::new("first", 10.0))?;
    // Events of what a link leads to are not seen: the folder that is watched does not change.
    let linked = Repository::new()?;
    std::os::unix::fs::symlink(real.path(""), linked.path().join(MODEL))?;
    let server = ServerOptions::new(&linked).rescan_ms(50).start().await?;
    let before = server.log().mark();
    real.write("plugin.toml", Scaling::new("second", 10.0).manifest())?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=2"]).await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_plugin_and_a_version_changed_at_once_take_no_step_back_to_an_older_version() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("first", 10.0))?;
    folder.write("2/model.onnx", Weights::Triple.onnx()?)?;
    let server = ServerOptions::new(&repository).settle_ms(200).start().await?;
    let before = server.log().mark();
    folder.write("plugin.toml", Scaling::new("second", 10.0).manifest())?;
    folder.write("2/model.onnx", Weights::Triple.onnx()?)?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=2"]).await?;
    folder.write("plugin.toml", Scaling::new("third", 10.0).manifest())?;
    server.log().wait_for(before, &["message=published", "part=plugin", "generation=3"]).await?;
    assert_eq!(server.log().count(before, &["part=version"]), 0, "{}", server.log().tail(before));
    assert_eq!(engine_loads(&server).await?, 1.0, "the newest version serves on as it is");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_plugin_and_the_only_version_changed_at_once_are_no_refusal() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("first", 10.0))?;
    let server = ServerOptions::new(&repository).settle_ms(200).start().await?;
    let before = server.log().mark();
    folder.write("plugin.toml", Scaling::new("second", 10.0).manifest())?;
    folder.write("1/model.onnx", Weights::Triple.onnx()?)?;
    server.log().wait_for(before, &["message=published", "part=version 1"]).await?;
    assert_eq!(server.log().count(before, &["level=ERROR"]), 0, "{}", server.log().tail(before));
    server.stop().await?;
    Ok(())
}
