//! Swaps under traffic, seeded: the real reconciler, sandbox and engine in this process, one seed after another. Always:
//! each request has at most one answer, made by one generation with one tag and the weights of its version; nothing is
//! older than what was published when it was sent; a refused candidate has answered nobody; a queue refuses what is past its
//! bound, and only that. At the end the engine has loaded each version once and every gauge is at rest.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use airlock::metrics::names;
use axum::body::Body;
use axum::http::Response;
use common::{Asked, Gauge, Host, PATIENCE, Served};
use engine::{LoaderOptions, OrtLoader, OrtRuntime, RuntimeOptions, find_library};
use http_body_util::BodyExt as _;
use plugin::{RuntimeConfig, SandboxRuntime};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const SEEDS: u64 = 4;
const STEPS: usize = 120;
const QUEUE_MAX: usize = 16;
/// Requests on their way in ordinary traffic: with the samples of a verification they stay within the queue's bound.
const OUTSTANDING_MAX: usize = 12;

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

/// What a `plugin.toml` makes of the plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quality {
    Good,
    /// It compiles, and its sample answers 500.
    Bad,
}

fn manifest(tag: &str, quality: Quality) -> String {
    let scale = if quality == Quality::Good { "scale = 1.0\n" } else { "" };
    format!("[config]\ntag = '{tag}'\n{scale}")
}

/// One model folder, written the way people write: beside, then renamed.
struct Folder(PathBuf);

impl Folder {
    fn create(repository: &Path) -> Self {
        let folder = Self(repository.join("m"));
        std::fs::create_dir_all(folder.0.join("samples/any")).expect("folders");
        folder.version(1, "scaler_v1", None);
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

    /// Adds a version, with a plugin of its own where there is a manifest for one.
    fn version(&self, number: u64, weights: &str, plugin: Option<String>) {
        let staged = self.0.join(".version");
        std::fs::create_dir(&staged).expect("a folder");
        let model = root().join("tests/fixtures/models").join(weights).with_extension("onnx");
        std::fs::copy(model, staged.join("model.onnx")).expect("model");
        if let Some(manifest) = plugin {
            std::fs::write(staged.join("plugin.toml"), manifest).expect("written");
            std::fs::write(staged.join("plugin.wasm"), component()).expect("written");
        }
        std::fs::rename(&staged, self.0.join(number.to_string())).expect("renamed");
    }

    fn remove_version(&self, number: u64) {
        let gone = self.0.join(".gone");
        std::fs::rename(self.0.join(number.to_string()), &gone).expect("renamed");
        std::fs::remove_dir_all(&gone).expect("removed");
    }
}

/// Batches run on the requests' own threads, so that nothing leaves a queue before a request is polled again.
const CONFIG: &str = r#"
backend: "onnxruntime"
max_batch_size: 8
version_policy { all { } }
dynamic_batching { default_queue_policy { max_queue_size: 16 } }
instance_group [ { count: 1 kind: KIND_CPU } ]
parameters { key: "airlock.execution" value { string_value: "inline" } }
"#;

const IN_FLIGHT: &str = r#"airlock_requests_in_flight{surface="http"}"#;
const QUEUED: &str = r#"airlock_queue_requests{model="m",version="1"}"#;
const QUEUE_FULL: &str = r#"airlock_queue_drops_total{model="m",reason="queue_full",version="1"}"#;
const FAILED_TO_VERIFY: &str = r#"airlock_swaps_total{model="m",outcome="failed_to_verify"}"#;

/// A request on its way.
struct Outstanding {
    /// The state that was published last when it was sent.
    since: usize,
    /// The version asked for; `None` is the newest.
    version: Option<u64>,
    x: i32,
    task: JoinHandle<Response<Body>>,
}

struct Simulation {
    host: Host,
    folder: Folder,
    random: SmallRng,
    outstanding: Vec<Outstanding>,
    /// What has served, in order.
    published: Vec<Served>,
    /// Tag by generation.
    tags: BTreeMap<u64, String>,
    refused_tags: Vec<String>,
    candidates: usize,
    loads: usize,
    answers: usize,
}

async fn json(response: Response<Body>) -> Value {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}"))
}

fn header(response: &Response<Body>, name: &str) -> u64 {
    let value = response.headers().get(name).unwrap_or_else(|| panic!("no {name}"));
    value.to_str().expect("text").parse().expect("a number")
}

/// Polls each once, in order: it comes as far as it gets without waiting.
async fn poll_once(asked: &mut [Asked]) -> Vec<Poll<Response<Body>>> {
    std::future::poll_fn(|context| Poll::Ready(asked.iter_mut().map(|one| one.as_mut().poll(context)).collect())).await
}

impl Simulation {
    async fn start(seed: u64, loader: OrtLoader, sandbox: &Arc<SandboxRuntime>, home: &Path) -> Self {
        let (repository, state_dir) = (home.join("repository"), home.join("state"));
        let folder = Folder::create(&repository);
        folder.write("plugin.toml", manifest("good-0", Quality::Good).as_bytes());
        std::fs::create_dir(&state_dir).expect("a folder");
        let host = Host::start(&repository, &state_dir, sandbox, loader);
        let random = SmallRng::seed_from_u64(seed);
        let mut simulation = Self {
            host,
            folder,
            random,
            outstanding: Vec::new(),
            published: Vec::new(),
            tags: BTreeMap::new(),
            refused_tags: Vec::new(),
            candidates: 0,
            loads: 1,
            answers: 0,
        };
        simulation.until("the first generation serves", |sim| !sim.host.served("m").is_empty()).await;
        simulation
    }

    async fn until(&mut self, what: &str, mut reached: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        while !reached(self) {
            assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}; gauges: {:?}", self.host.gauges());
            tick.tick().await;
        }
    }

    /// Waits for a condition while requests come and go.
    async fn under_traffic(&mut self, what: &str, mut reached: impl FnMut(&Self, &Served) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        loop {
            let served = self.observe();
            if reached(self, &served) {
                return;
            }
            assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
            let count = self.random.random_range(0..=2);
            self.send(count);
            self.collect_finished().await;
            tick.tick().await;
        }
    }

    /// What serves now, noted and checked where it is new.
    fn observe(&mut self) -> Served {
        let served = self.host.served("m");
        for (number, tag) in served.values() {
            assert!(!self.refused_tags.contains(tag), "refused candidate {tag} was published");
            let known = self.tags.entry(*number).or_insert_with(|| tag.clone());
            assert_eq!(known, tag, "generation {number} has one tag");
        }
        if self.published.last() != Some(&served) {
            self.published.push(served.clone());
        }
        served
    }

    /// Sends as many as ordinary traffic still may have on their way.
    fn send(&mut self, count: usize) {
        self.observe();
        let since = self.published.len() - 1;
        for _ in 0..count.min(OUTSTANDING_MAX.saturating_sub(self.outstanding.len())) {
            let x = self.random.random_range(-1000..1000);
            let version = self.random.random_bool(0.5).then_some(1);
            let path = if version.is_some() { "/v1/models/m/versions/1:predict" } else { "/v1/models/m:predict" };
            let task = tokio::spawn(self.host.post(path, format!(r#"{{"x": [{x}, 0, 0, 0]}}"#)));
            self.outstanding.push(Outstanding { since, version, x, task });
        }
    }

    /// A client leaves.
    fn cancel_one(&mut self) {
        if !self.outstanding.is_empty() {
            let index = self.random.random_range(0..self.outstanding.len());
            self.outstanding.swap_remove(index).task.abort();
        }
    }

    fn next_tag(&mut self, quality: Quality) -> String {
        self.candidates += 1;
        let tag = format!("{}-{}", if quality == Quality::Good { "good" } else { "bad" }, self.candidates);
        if quality == Quality::Bad {
            self.refused_tags.push(tag.clone());
        }
        tag
    }

    async fn swap(&mut self, quality: Quality) {
        let tag = self.next_tag(quality);
        self.folder.write("plugin.toml", manifest(&tag, quality).as_bytes());
        if quality == Quality::Good {
            self.under_traffic(&format!("{tag} is published"), |_, served| served[&1].1 == tag).await;
        } else {
            self.refusal(&tag).await;
        }
    }

    async fn refusal(&mut self, tag: &str) {
        let refusals = self.refused_tags.len();
        self.under_traffic(&format!("{tag} is refused"), |sim, _| sim.host.metric(FAILED_TO_VERIFY) >= refusals).await;
        assert_eq!(self.host.metric(FAILED_TO_VERIFY), refusals, "one record for each refusal");
    }

    /// Version 2 comes, alone or with a plugin of its own, good or bad, or goes.
    async fn change_version(&mut self) {
        if self.observe().contains_key(&2) {
            return self.withdraw_version().await;
        }
        self.loads += 1;
        match self.random.random_range(0..3_u8) {
            0 => {
                self.folder.version(2, "scaler_v2", None);
                self.under_traffic("version 2 serves", |_, served| served.get(&2) == Some(&served[&1])).await;
            }
            1 => {
                let tag = self.next_tag(Quality::Good);
                self.folder.version(2, "scaler_v2", Some(manifest(&tag, Quality::Good)));
                let serves = |_: &Self, served: &Served| served.get(&2).is_some_and(|plugin| plugin.1 == tag);
                self.under_traffic(&format!("version 2 serves with {tag}"), serves).await;
            }
            _ => {
                let tag = self.next_tag(Quality::Bad);
                self.folder.version(2, "scaler_v2", Some(manifest(&tag, Quality::Bad)));
                self.refusal(&tag).await;
                self.folder.remove_version(2);
            }
        }
    }

    async fn withdraw_version(&mut self) {
        self.folder.remove_version(2);
        self.under_traffic("version 2 is gone", |_, served| !served.contains_key(&2)).await;
    }

    /// More at once than version 1 lets wait: what is past the bound is refused, and the rest is answered.
    async fn overload(&mut self) {
        self.collect_all().await;
        self.until("nothing is held", |sim| sim.host.metric(IN_FLIGHT) == 0 && sim.host.metric(QUEUED) == 0).await;
        let refused_before = self.host.metric(QUEUE_FULL);
        let surplus = self.random.random_range(1..=QUEUE_MAX);
        let infer = |x: usize| {
            let input = format!(r#"{{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [{x}, 0, 0, 0]}}"#);
            self.host.post("/v2/models/m/versions/1/infer", format!(r#"{{"inputs": [{input}]}}"#))
        };
        let mut burst: Vec<Asked> = (0..QUEUE_MAX + surplus).map(infer).collect();
        let mut polled = poll_once(&mut burst).await;
        assert_eq!((self.host.metric(IN_FLIGHT), self.host.metric(QUEUED)), (QUEUE_MAX, QUEUE_MAX));
        assert_eq!(self.host.metric(QUEUE_FULL) - refused_before, surplus);
        for refused in polled.split_off(QUEUE_MAX) {
            let Poll::Ready(refused) = refused else { panic!("a request past the bound waits") };
            assert_eq!(refused.status(), 503);
            assert_eq!(json(refused).await["code"], "queue_full");
        }
        assert!(polled.iter().all(Poll::is_pending), "a request within the bound waits");
        burst.truncate(QUEUE_MAX);
        let waiting: Vec<_> = burst.into_iter().map(tokio::spawn).collect();
        for (x, task) in waiting.into_iter().enumerate() {
            let answer = json(task.await.expect("no panic")).await;
            assert_eq!(answer["outputs"][0]["data"][0].as_f64(), Some(2.0 * x as f64), "its own row: {answer}");
        }
    }

    async fn collect(&mut self, mut one: Outstanding) {
        let response = (&mut one.task).await.expect("no panic");
        self.observe();
        let (status, version) = (response.status(), header(&response, "x-model-version"));
        let number = header(&response, "x-plugin-generation");
        let body = json(response).await;
        assert_eq!(status, 200, "{body}");
        let plugin = (number, body["tag"].as_str().expect("a tag").to_owned());
        let explains = |served: &Served| {
            let newest = served.keys().next_back().copied();
            served.get(&version) == Some(&plugin) && one.version.or(newest) == Some(version)
        };
        let since = &self.published[one.since..];
        assert!(since.iter().any(explains), "version {version} with {plugin:?} has not served since: {since:?}");
        let weights = if version == 1 { 2.0 } else { 3.0 };
        assert_eq!(body["y"][0].as_f64(), Some(f64::from(one.x) * weights), "its own row, by its version's weights");
        self.answers += 1;
    }

    async fn collect_finished(&mut self) {
        let is_finished = |one: &Outstanding| one.task.is_finished();
        let (finished, waiting): (Vec<_>, _) = std::mem::take(&mut self.outstanding).into_iter().partition(is_finished);
        self.outstanding = waiting;
        for one in finished {
            self.collect(one).await;
        }
    }

    async fn collect_all(&mut self) {
        for one in std::mem::take(&mut self.outstanding) {
            self.collect(one).await;
        }
    }

    async fn run(&mut self) {
        for _ in 0..STEPS {
            match self.random.random_range(0..12_u8) {
                0..=3 => {
                    let count = self.random.random_range(1..=12);
                    self.send(count);
                }
                4 => self.cancel_one(),
                5 | 6 => self.overload().await,
                7 | 8 => self.swap(Quality::Good).await,
                9 => self.swap(Quality::Bad).await,
                _ => self.change_version().await,
            }
            self.collect_finished().await;
        }
        self.collect_all().await;
    }

    /// Gauges that do not show what they should once nothing is under way and version 1 alone serves.
    fn restless(&mut self) -> Vec<Gauge> {
        let generation = self.observe()[&1].0;
        let gauges = self.host.gauges();
        let shown = |name: &str| gauges.iter().find(|gauge| gauge.name == name).map_or(f64::NAN, |gauge| gauge.value);
        let warm = shown(names::PLUGIN_WARM);
        let rest = |gauge: &Gauge| match (gauge.name.as_str(), gauge.labels.as_str()) {
            (names::IN_FLIGHT | names::CONNECTIONS, _)
            | (
                names::DRAINING | names::SANDBOX_WAITING | names::SHARED_MEMORY_REGIONS | names::SHARED_MEMORY_BYTES,
                "",
            ) => 0.0,
            (names::QUEUE_SIZE | names::NV_PENDING, VERSION_1) => 0.0,
            (names::QUEUE_LIMIT, VERSION_1) => QUEUE_MAX as f64,
            (names::RUNS_INLINE, VERSION_1) => 1.0,
            (names::PLUGIN_GENERATION, VERSION_1) => generation as f64,
            (names::MODELS, r#"{state="ready"}"#) => 1.0,
            (names::MODELS, r#"{state="unavailable"}"#) => 0.0,
            // Whatever lives is warm.
            (names::SANDBOX_INSTANCES, "") => warm,
            // What is in force, and what has been since the start.
            (names::NV_LOAD_DURATION, VERSION_1) => gauge.value,
            (names::BUILD | names::PLUGIN_WARM | names::PLUGIN_CREATED | names::SANDBOX_POOL, _) => gauge.value,
            _ => f64::NAN,
        };
        gauges.iter().filter(|gauge| gauge.value != rest(gauge)).cloned().collect()
    }

    async fn finish(mut self) {
        if self.observe().contains_key(&2) {
            self.withdraw_version().await;
        }
        self.collect_all().await;
        assert_eq!(self.host.metric(r#"airlock_engine_loads_total{model="m"}"#), self.loads, "one load for a version");
        self.until("every gauge is at rest", |sim| sim.restless().is_empty()).await;
        assert!(self.answers > 0, "the simulation answered requests");
        self.host.stop().await;
    }
}

const VERSION_1: &str = r#"{model="m",version="1"}"#;

#[test]
fn swaps_under_traffic_hold_their_promises() {
    engine::prepare_process();
    let location = find_library(None).unwrap_or_else(|error| panic!("{error}"));
    let runtime = OrtRuntime::init(&location.path, &RuntimeOptions::default());
    let loader = OrtLoader::new(runtime.unwrap_or_else(|error| panic!("{error}")), LoaderOptions::default());
    let home = tempfile::tempdir().expect("temporary folder");
    let sandbox = SandboxRuntime::new(RuntimeConfig::new(home.path().join("compiled"))).expect("the sandbox starts");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    for seed in 0..SEEDS {
        runtime.block_on(async {
            let home = home.path().join(seed.to_string());
            let mut simulation = Simulation::start(seed, loader.clone(), &sandbox, &home).await;
            simulation.run().await;
            simulation.finish().await;
        });
        assert_eq!(sandbox.snapshot().instances, 0, "seed {seed} has left instances behind");
    }
}
