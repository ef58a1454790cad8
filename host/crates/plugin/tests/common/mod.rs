//! What the tests share: a runtime with a cache of its own, a sink that remembers, and plugins made of the guests in
//! `tests/guests`.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test uses its part")]

#[path = "../../../../../tests/guests/component.rs"]
mod component;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
pub use component::{guest, text};
use model::{DataType, ModelName, Signature, TensorSpec, VersionNumber};
use plugin::{
    Call, Dropped, Limits, LogEntry, LogLevel, LogSource, MetricKind, Placement, PlacementPolicy, Plugin,
    PluginFailure, PluginSink, PluginSpec, Prepared, Reuse, RuntimeConfig, SandboxRuntime, Stage, StageTiming,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// A runtime whose cache goes with it.
pub struct Host {
    pub runtime: Arc<SandboxRuntime>,
    pub folder: TempDir,
}

pub fn host() -> Host {
    host_with(|_| {})
}

/// Few instances, so that tests run side by side on small machines; `change` sets what the test is about.
pub fn host_with(change: impl FnOnce(&mut RuntimeConfig)) -> Host {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = SandboxRuntime::new(config(&folder, change)).expect("the runtime starts");
    Host { runtime, folder }
}

pub fn config(folder: &TempDir, change: impl FnOnce(&mut RuntimeConfig)) -> RuntimeConfig {
    let mut config = RuntimeConfig::new(folder.path().join("compiled"));
    (config.instances_max, config.serving_threads) = (8, 2);
    (config.plugin_threads, config.compile_threads) = (1, 1);
    change(&mut config);
    config
}

/// A line as the sink heard it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub level: LogLevel,
    pub source: LogSource,
    pub message: String,
    pub request_id: String,
}

/// Remembers what a plugin said.
#[derive(Default)]
pub struct Heard {
    lines: Mutex<Vec<Line>>,
    metrics: Mutex<Vec<(String, MetricKind, f64)>>,
    dropped: Mutex<Vec<(Dropped, u64)>>,
    stages: Mutex<Vec<(Stage, Placement)>>,
}

impl Heard {
    pub fn lines(&self) -> Vec<Line> {
        self.lines.lock().expect("not poisoned").clone()
    }

    pub fn metrics(&self) -> Vec<(String, MetricKind, f64)> {
        self.metrics.lock().expect("not poisoned").clone()
    }

    pub fn dropped(&self) -> Vec<(Dropped, u64)> {
        self.dropped.lock().expect("not poisoned").clone()
    }

    pub fn stages(&self) -> Vec<(Stage, Placement)> {
        self.stages.lock().expect("not poisoned").clone()
    }
}

impl PluginSink for Heard {
    fn log(&self, entry: &LogEntry<'_>) {
        let (level, source) = (entry.level, entry.source);
        let (message, request_id) = (entry.message.to_owned(), entry.request_id.to_owned());
        self.lines.lock().expect("not poisoned").push(Line { level, source, message, request_id });
    }

    fn metric(&self, name: &str, kind: MetricKind, value: f64) {
        self.metrics.lock().expect("not poisoned").push((name.to_owned(), kind, value));
    }

    fn dropped(&self, what: Dropped, count: u64) {
        self.dropped.lock().expect("not poisoned").push((what, count));
    }

    fn stage(&self, stage: Stage, timing: StageTiming) {
        self.stages.lock().expect("not poisoned").push((stage, timing.placement));
    }
}

/// Placed inline, warm, with the default limits.
pub fn spec(heard: &Arc<Heard>) -> PluginSpec {
    PluginSpec {
        model: ModelName::new("fraud").expect("a name"),
        generation: 3,
        limits: Limits::default(),
        reuse: Reuse::default(),
        placement: PlacementPolicy::Inline,
        config: BTreeMap::new(),
        assets: Arc::default(),
        metrics: BTreeMap::new(),
        sink: Arc::clone(heard) as Arc<dyn PluginSink>,
    }
}

/// A plugin under test and what it said.
pub struct Subject {
    pub plugin: Arc<Plugin>,
    pub heard: Arc<Heard>,
}

impl Host {
    pub fn plugin(&self, name: &str) -> Subject {
        self.plugin_with(name, |_| {})
    }

    pub fn plugin_with(&self, name: &str, change: impl FnOnce(&mut PluginSpec)) -> Subject {
        let heard = Arc::new(Heard::default());
        let mut spec = spec(&heard);
        change(&mut spec);
        let compiled = self.runtime.compile(&guest(name)).expect("the guest compiles");
        let plugin = Plugin::new(Arc::clone(&self.runtime), compiled, spec).expect("the limits fit");
        Subject { plugin, heard }
    }
}

impl Subject {
    pub async fn preprocess(&self, body: &'static [u8]) -> Result<Prepared, PluginFailure> {
        self.plugin.preprocess(&call(), Bytes::from_static(body), soon()).await
    }

    /// The body of the answer that preprocess gives at once.
    pub async fn answer(&self, body: &'static [u8]) -> String {
        match self.preprocess(body).await {
            Ok(Prepared::Respond(response)) => String::from_utf8_lossy(&response.body).into_owned(),
            other => panic!("expected an answer at once, got {other:?}"),
        }
    }

    pub async fn failure(&self, body: &'static [u8]) -> PluginFailure {
        self.preprocess(body).await.expect_err("a failure")
    }
}

pub fn call() -> Arc<Call> {
    let spec = |name: &str| TensorSpec { name: name.into(), data_type: DataType::Uint8, shape: vec![-1, -1] };
    Arc::new(Call {
        request_id: "r-17".to_owned(),
        trace_id: None,
        version: VersionNumber::new(1).expect("not zero"),
        content_type: Some("application/json".to_owned()),
        accept: None,
        headers: Vec::new(),
        signature: Arc::new(Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], optional_inputs: 0 }),
        is_counted: true,
    })
}

/// A deadline far enough that no lawful call meets it, even on a busy machine.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
