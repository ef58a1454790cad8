//! Swaps under traffic, seeded: the real reconciler, sandbox and engine in this process, one seed after another. After
//! every step: each request has at most one answer, made by one generation with one tag; nothing is older than what was
//! published when it was pinned; a refused candidate has answered nobody; the queue keeps its bound. At the end the
//! engine has loaded once and every gauge is back at zero.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use airlock::app::App;
use airlock::failure::RequestFailure;
use airlock::pipeline::{PredictRequest, predict};
use airlock::registry::{PluginSlot, Release};
use airlock::settings::{ServeArgs, Settings};
use bytes::Bytes;
use engine::{OrtLoader, OrtRuntime, find_library};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const SEEDS: u64 = 4;
const STEPS: usize = 60;
const QUEUE_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("host lies in the repository").to_path_buf()
}

fn component() -> Vec<u8> {
    let folder =
        std::env::var_os("AIRLOCK_PLUGINS").map_or_else(|| root().join("plugins/target/components"), PathBuf::from);
    let file = folder.join("score-scaler.wasm");
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; build it: cargo xtask plugins", file.display()))
}

/// One model folder, written the way people write: beside, then renamed.
struct Folder(PathBuf);

impl Folder {
    fn create(repository: &Path) -> Self {
        let dir = repository.join("m");
        let sample = dir.join("samples/any");
        std::fs::create_dir_all(&sample).expect("folders");
        std::fs::create_dir_all(dir.join("1")).expect("folders");
        std::fs::copy(root().join("tests/fixtures/models/scaler_v1.onnx"), dir.join("1/model.onnx")).expect("model");
        let folder = Self(dir);
        folder.write("config.pbtxt", CONFIG.as_bytes());
        folder.write("plugin.wasm", &component());
        folder.write("samples/any/request.json", br#"{"x": [1, 2, 3, 4]}"#);
        folder.write("samples/any/expected.json", br#"{"tag": "any", "scale": 1.0, "y": [1.0, 1.0, 1.0, 1.0]}"#);
        folder.write("samples/any/expect.toml", b"mode = 'shape'\n");
        folder
    }

    fn write(&self, path: &str, content: &[u8]) {
        let temporary = self.0.join(".new");
        std::fs::write(&temporary, content).expect("written");
        std::fs::rename(&temporary, self.0.join(path)).expect("renamed");
    }

    fn good_plugin(&self, tag: &str) {
        self.write("plugin.toml", format!("[config]\ntag = '{tag}'\nscale = 1.0\n").as_bytes());
    }

    /// It compiles, and its sample answers 500.
    fn bad_plugin(&self, tag: &str) {
        self.write("plugin.toml", format!("[config]\ntag = '{tag}'\n").as_bytes());
    }
}

const CONFIG: &str = r#"
backend: "onnxruntime"
max_batch_size: 8
dynamic_batching { default_queue_policy { max_queue_size: 64 } }
instance_group [ { count: 1 kind: KIND_CPU } ]
"#;

/// A request on its way, and the release it pinned.
struct Outstanding {
    release: Arc<Release>,
    x: f64,
    task: JoinHandle<Result<plugin::Response, RequestFailure>>,
}

struct Simulation {
    app: App,
    folder: Folder,
    random: SmallRng,
    outstanding: Vec<Outstanding>,
    /// Tag by generation, as published.
    published: BTreeMap<u64, String>,
    refused_tags: Vec<String>,
    candidates: usize,
    answers: usize,
}

fn generation(release: &Release) -> (u64, String) {
    let PluginSlot::Serving(generation) = &release.plugin else { panic!("the model has a plugin") };
    (generation.number, generation.plugin.spec().config["tag"].clone())
}

impl Simulation {
    async fn start(seed: u64, loader: OrtLoader, home: &Path) -> Self {
        let repository = home.join("repository");
        let folder = Folder::create(&repository);
        folder.good_plugin("good-0");
        let settings = Settings::from_args(ServeArgs {
            model_repository: vec![repository],
            state_dir: Some(home.join("state")),
            http_address: Some(std::net::Ipv4Addr::LOCALHOST.into()),
            http_port: Some(0),
            metrics_port: Some(0),
            settle_ms: Some(2),
            rescan_ms: Some(200),
            ..ServeArgs::default()
        });
        let app = App::start(&settings.expect("valid settings"), Arc::new(loader)).await.expect("starts");
        let random = SmallRng::seed_from_u64(seed);
        let (published, refused_tags) = (BTreeMap::new(), Vec::new());
        let mut simulation =
            Self { app, folder, random, outstanding: Vec::new(), published, refused_tags, candidates: 0, answers: 0 };
        simulation.until("the first generation serves", |sim| sim.app.registry().pin("m", None).is_ok()).await;
        simulation
    }

    /// Waits for a condition, checking what always holds on the way.
    async fn until(&mut self, what: &str, mut reached: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        while !reached(self) {
            assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
            tick.tick().await;
        }
    }

    fn note_published(&mut self) -> Arc<Release> {
        let release = self.app.registry().pin("m", None).expect("serves");
        let (number, tag) = generation(&release);
        assert!(!self.refused_tags.contains(&tag), "refused candidate {tag} was published");
        let known = self.published.entry(number).or_insert_with(|| tag.clone());
        assert_eq!(*known, tag, "generation {number} has one tag");
        let newest = *self.published.keys().next_back().expect("one at least");
        assert_eq!(number, newest, "what serves is the newest published");
        release
    }

    fn send(&mut self, count: usize) {
        for _ in 0..count {
            let release = self.note_published();
            let x = f64::from(self.random.random_range(-1000..1000_i32));
            let request = PredictRequest {
                request_id: "simulated".to_owned(),
                content_type: Some("application/json".to_owned()),
                accept: None,
                body: Bytes::from(format!(r#"{{"x": [{x}, 0, 0, 0]}}"#)),
                deadline: Instant::now() + PATIENCE,
            };
            let pinned = Arc::clone(&release);
            let task = tokio::spawn(async move { predict(&pinned, request).await });
            self.outstanding.push(Outstanding { release, x, task });
        }
    }

    /// A client leaves.
    fn cancel_one(&mut self) {
        if !self.outstanding.is_empty() {
            let index = self.random.random_range(0..self.outstanding.len());
            self.outstanding.swap_remove(index).task.abort();
        }
    }

    async fn swap_good(&mut self) {
        self.candidates += 1;
        let tag = format!("good-{}", self.candidates);
        self.folder.good_plugin(&tag);
        self.until(&format!("{tag} is published"), |sim| generation(&sim.note_published()).1 == tag).await;
    }

    async fn swap_bad(&mut self) {
        self.candidates += 1;
        let tag = format!("bad-{}", self.candidates);
        self.refused_tags.push(tag.clone());
        self.folder.bad_plugin(&tag);
        let outcome = r#"airlock_swaps_total{model="m",outcome="failed_to_verify"}"#;
        let refusals = self.refused_tags.len();
        self.until(&format!("{tag} is refused"), |sim| {
            sim.note_published();
            sim.metric(outcome) >= refusals
        })
        .await;
    }

    async fn collect(&mut self, mut one: Outstanding) {
        let answer = (&mut one.task).await.expect("no panic");
        let answer = answer.unwrap_or_else(|failure| panic!("a request failed: {failure:?}"));
        assert_eq!(answer.status, 200);
        let body: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let (number, tag) = generation(&one.release);
        assert_eq!(body["tag"], tag.as_str(), "answered by the generation it pinned");
        assert_eq!(self.published[&number], tag);
        assert_eq!(body["y"][0].as_f64(), Some(one.x * 2.0), "its own row");
        self.answers += 1;
    }

    async fn collect_finished(&mut self) {
        let (finished, waiting) = std::mem::take(&mut self.outstanding).into_iter().partition(|o| o.task.is_finished());
        self.outstanding = waiting;
        let finished: Vec<Outstanding> = finished;
        for one in finished {
            self.collect(one).await;
        }
        let queued = self.note_published().version.batch.snapshot().queued_requests;
        assert!(queued <= QUEUE_MAX, "{queued} requests wait");
    }

    fn metric(&self, series: &str) -> usize {
        let text = self.app.metrics_text();
        let value = text.lines().find_map(|line| line.strip_prefix(series)).map(|value| value.trim().parse::<f64>());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        value.map_or(0, |value| value.expect("a number") as usize)
    }

    async fn run(&mut self) {
        for _ in 0..STEPS {
            match self.random.random_range(0..10_u8) {
                0..=5 => {
                    let burst = self.random.random_range(1..=12);
                    self.send(burst.min(QUEUE_MAX - self.outstanding.len().min(QUEUE_MAX)));
                }
                6 => self.cancel_one(),
                7 | 8 => self.swap_good().await,
                _ => self.swap_bad().await,
            }
            self.collect_finished().await;
        }
        for one in std::mem::take(&mut self.outstanding) {
            self.collect(one).await;
        }
    }

    async fn finish(mut self) {
        assert_eq!(self.metric(r#"airlock_engine_loads_total{model="m"}"#), 1, "a plugin swap loads nothing");
        let idle = |sim: &mut Self| {
            let snapshot = sim.note_published().version.batch.snapshot();
            snapshot.queued_requests == 0 && snapshot.batches_in_flight == 0
        };
        self.until("the queue is idle", idle).await;
        assert_eq!(self.metric("airlock_releases_draining"), 0);
        assert_eq!(self.metric("airlock_requests_in_flight"), 0);
        assert!(self.answers > 0, "the simulation answered requests");
        assert!(self.app.stop(Duration::ZERO, PATIENCE).await, "everything ends in time");
    }
}

#[test]
fn swaps_under_traffic_hold_their_promises() {
    engine::prepare_process();
    let location = find_library(None).unwrap_or_else(|error| panic!("{error}"));
    let loader = OrtLoader::new(OrtRuntime::init(&location.path).unwrap_or_else(|error| panic!("{error}")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    for seed in 0..SEEDS {
        let home = tempfile::tempdir().expect("temporary folder");
        runtime.block_on(async {
            let mut simulation = Simulation::start(seed, loader.clone(), home.path()).await;
            simulation.run().await;
            simulation.finish().await;
        });
    }
}
