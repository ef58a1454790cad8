//! Composition: builds every part from the settings, in the order in which they need each other, and takes them apart
//! in the reverse order. Everything that listens, watches or runs is started here and nowhere else.

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::ModelLoader;
use plugin::{RuntimeConfig, SandboxRuntime};
use tokio::runtime::Handle;

use crate::http::server::{Server, ServerParts};
use crate::http::{HttpState, metrics_router, router};
use crate::janitor::{Janitor, chore_queue};
use crate::metrics::Metrics;
use crate::registry::ModelRegistry;
use crate::repository::config_text::ConfigDefaults;
use crate::repository::history::History;
use crate::repository::private_copy::LoadingFolder;
use crate::repository::reconciler::{Reconciler, ReconcilerParts};
use crate::repository::workshop::{Verification, Workshop};
use crate::settings::Settings;
use crate::tasks::Tasks;

/// How long loads and models get to end once no request is left.
const TAKEDOWN_TIME: Duration = Duration::from_secs(2);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state folder cannot be made.
    #[error("creating the state folder {path}: {error}; choose another with --state-dir DIR")]
    StateDir {
        /// The folder.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Another server works with the same state folder.
    #[error("the state folder {path} is in use by another server; give each its own with --state-dir DIR")]
    StateDirInUse {
        /// The folder.
        path: String,
    },
    /// The sandbox cannot be set up.
    #[error("setting up the plugin sandbox: {0}")]
    Sandbox(#[from] plugin::RuntimeError),
    /// A port or a thread cannot be had.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A running server.
pub struct App {
    http: Arc<HttpState>,
    tasks: Tasks,
    reconciler: Reconciler,
    janitor: Janitor,
    /// Held for as long as this server uses the state folder.
    _state_lock: File,
    /// Where v2 and predict listen.
    pub http_address: SocketAddr,
    /// Where `/metrics` listens.
    pub metrics_address: SocketAddr,
}

impl App {
    /// Starts everything on the current tokio runtime. The server listens at once; it is ready after the first pass over
    /// the repositories.
    ///
    /// # Errors
    /// A [`StartError`]; nothing keeps running then.
    pub async fn start(settings: &Settings, loader: Arc<dyn ModelLoader>) -> Result<Self, StartError> {
        create_private(&settings.state_dir)?;
        let state_lock = lock_state(&settings.state_dir)?;
        let metrics = Metrics::new();
        show_limits(&metrics, settings);
        let sandbox = SandboxRuntime::new(settings.sandbox_config(&settings.state_dir))?;
        show_sandbox_limits(&metrics, sandbox.config());
        tracing::info!(allocator = ?sandbox.allocator(), "plugin sandbox ready");
        let registry = Arc::new(ModelRegistry::default());
        let (chores, chore_receiver) = chore_queue();

        let tasks = Tasks::default();
        let state = HttpState::new(Arc::clone(&registry), settings.limits, metrics.clone(), Arc::clone(&sandbox));
        let http = Arc::new(state);
        let listen = |port| SocketAddr::new(settings.listen.address, port);
        let bind = |port, port_flag, router| {
            let parts = ServerParts {
                port_flag,
                router,
                connections_max: settings.limits.connections_max,
                open: metrics.connections.clone(),
                tasks: tasks.clone(),
                leaving: http.leaving(),
            };
            Server::bind(listen(port), parts)
        };
        let http_server = bind(settings.listen.http_port, "--http-port", router(Arc::clone(&http))).await?;
        let metrics_router = metrics_router(Arc::clone(&http));
        let metrics_server = bind(settings.listen.metrics_port, "--metrics-port", metrics_router).await?;
        let (http_address, metrics_address) = (http_server.local_address()?, metrics_server.local_address()?);

        let loading = LoadingFolder::new(&settings.state_dir);
        loading.clear();
        let workshop = Arc::new(Workshop {
            loader,
            sandbox,
            runtime: Handle::current(),
            metrics,
            chores: chores.clone(),
            history: History::new(&settings.state_dir, settings.history_keep),
            loading,
            rate_limiter: None,
            defaults: ConfigDefaults { max_queue_size: settings.max_queue_size },
            verification: Verification::RunSamples,
            sample_timeout: settings.limits.timeout,
            plugin_memory_bytes_max: settings.sandbox.memory_bytes_max,
        });
        let janitor = Janitor::start(chores, chore_receiver, Arc::clone(&registry))?;
        let reconciler = Reconciler::start(ReconcilerParts {
            roots: settings.repositories.clone(),
            rescan: settings.rescan,
            load_threads: settings.load_threads.get(),
            registry,
            workshop,
        })?;
        http_server.start();
        metrics_server.start();
        if let Some(path) = &settings.listen.port_file {
            write_ports(path, http_address, metrics_address)?;
        }
        tracing::info!(http = %http_address, metrics = %metrics_address, "listening");
        Ok(Self { http, tasks, reconciler, janitor, http_address, metrics_address, _state_lock: state_lock })
    }

    /// Readiness fails and new requests are refused from now on; work in flight goes on.
    pub fn start_stopping(&self) {
        self.http.start_stopping();
    }

    /// What is served.
    #[must_use]
    pub fn registry(&self) -> &ModelRegistry {
        &self.http.registry
    }

    /// What `/metrics` shows.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        crate::http::metrics_text(&self.http).unwrap_or_default()
    }

    /// Whether the reconciler still picks up changes.
    #[must_use]
    pub fn is_reconciling(&self) -> bool {
        self.reconciler.is_running()
    }

    /// Serves on for `drain` while readiness fails, lets work in flight finish, `patience` at most for both, then takes
    /// everything apart. Says whether all of it finished.
    pub async fn stop(self, drain: Duration, patience: Duration) -> bool {
        let started = tokio::time::Instant::now();
        self.http.start_leaving();
        tokio::time::sleep(drain.min(patience)).await;
        self.start_stopping();
        let patience = patience.saturating_sub(started.elapsed());
        let started = tokio::time::Instant::now();
        let idle = wait_until_idle(&self.http, patience).await;
        let ended = self.tasks.stop(patience.saturating_sub(started.elapsed()).max(Duration::from_millis(100))).await;
        let Self { http, reconciler, janitor, _state_lock, .. } = self;
        let registry = Arc::clone(&http.registry);
        drop(http);
        let takedown = tokio::task::spawn_blocking(move || {
            reconciler.stop();
            let names: Vec<_> = registry.snapshot().models().map(|model| model.name.clone()).collect();
            for name in names {
                registry.remove(&name);
            }
            janitor.stop();
        });
        // A load or a model that never ends must not keep the process from ending.
        let left = patience.saturating_sub(started.elapsed()).max(TAKEDOWN_TIME);
        let taken_down = matches!(tokio::time::timeout(left, takedown).await, Ok(Ok(())));
        if !taken_down {
            tracing::error!("a model or a load did not end in time; the process ends without it");
        }
        taken_down && idle && ended
    }
}

/// Waits until no request is held.
async fn wait_until_idle(http: &HttpState, patience: Duration) -> bool {
    let all = u32::try_from(http.limits.in_flight_max).unwrap_or(u32::MAX);
    // Holding every permit at once means that no request does.
    tokio::time::timeout(patience, http.admission.acquire_many(all)).await.is_ok()
}

/// Two servers in one state folder would take each other's history for their own.
fn lock_state(dir: &Path) -> Result<File, StartError> {
    let path = || dir.display().to_string();
    let file = File::create(dir.join("lock")).map_err(|error| StartError::StateDir { path: path(), error })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError::StateDirInUse { path: path() }),
        // A file system without locks: as before there was one.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(%error, state_dir = %dir.display(), "the state folder cannot be locked");
            Ok(file)
        }
    }
}

fn create_private(dir: &Path) -> Result<(), StartError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| StartError::StateDir { path: dir.display().to_string(), error })
}

fn write_ports(path: &Path, http: SocketAddr, metrics: SocketAddr) -> std::io::Result<()> {
    let ports = serde_json::json!({ "http": http.port(), "metrics": metrics.port() });
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, ports.to_string())?;
    std::fs::rename(&temporary, path)
}

/// Every limit from the settings, visible in `/metrics`.
fn show_limits(metrics: &Metrics, settings: &Settings) {
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    let count = |name: &str, value: usize| metrics.show_limit(name, value as f64);
    let seconds = |name: &str, value: Duration| metrics.show_limit(name, value.as_secs_f64());
    count("http_max_input_size_bytes", settings.limits.body_bytes_max);
    count("max_in_flight", settings.limits.in_flight_max);
    count("max_connections", settings.limits.connections_max);
    count("serving_threads", settings.serving_threads.get());
    seconds("request_timeout_seconds", settings.limits.timeout);
    count("max_queue_size", settings.max_queue_size.get());
    count("model_load_threads", settings.load_threads.get());
    count("history_keep", settings.history_keep);
    seconds("settle_seconds", settings.rescan.settle);
    seconds("settle_cap_seconds", settings.rescan.settle_cap);
    seconds("rescan_seconds", settings.rescan.interval);
    seconds("rehash_seconds", settings.rescan.rehash);
    seconds("drain_seconds", settings.drain);
    seconds("exit_timeout_seconds", settings.exit_timeout);
}

/// Every limit of the sandbox side, visible in `/metrics`.
fn show_sandbox_limits(metrics: &Metrics, config: &RuntimeConfig) {
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    let count = |name: &str, value: u64| metrics.show_limit(name, value as f64);
    count("plugin_instances", config.instances_max.into());
    count("plugin_queue_size", config.waiting_max as u64);
    count("plugin_core_instances", config.core_instance_slots.into());
    count("plugin_memories", config.memories_per_instance.into());
    count("plugin_tables", config.tables_per_instance.into());
    count("plugin_table_elements", config.table_elements_max as u64);
    count("plugin_memory_bytes", config.memory_bytes_max as u64);
    count("plugin_component_bytes", config.component_bytes_max as u64);
    count("plugin_cache_bytes", config.cache_bytes_max);
    count("plugin_function_cache_bytes", config.function_cache_bytes_max);
    count("plugin_threads", config.plugin_threads as u64);
    count("plugin_compile_threads", config.compile_threads as u64);
}
