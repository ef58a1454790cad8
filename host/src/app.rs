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

use crate::grpc::server::{GrpcServer, GrpcServerParts};
use crate::grpc::tls::{self, TlsError};
use crate::grpc::{FrontParts, GrpcFront};
use crate::http::server::{Server, ServerParts};
use crate::http::v2_json::extensions;
use crate::http::{metrics_router, router};
use crate::janitor::{ChoreSender, Janitor, chore_queue};
use crate::metrics::Metrics;
use crate::observed::{AccessLogError, Observer};
use crate::registry::ModelRegistry;
use crate::repository::config_text::ConfigDefaults;
use crate::repository::control::{ModelControlQueue, REQUESTS_WAITING_MAX};
use crate::repository::history::History;
use crate::repository::overrides::OverridesFolder;
use crate::repository::private_copy::LoadingFolder;
use crate::repository::reconciler::{Reconciler, ReconcilerParts};
use crate::repository::workshop::{Verification, Workshop};
use crate::repository_api::RepositoryApi;
use crate::response_cache::ResponseCache;
use crate::serving::{ServerTraits, ServingParts, ServingState};
use crate::settings::{GrpcSettings, Settings};
use crate::shared_memory::{RegionLimits, SharedMemory};
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
    /// TLS cannot be served.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The access log cannot be written.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    /// A port or a thread cannot be had.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A running server.
pub struct App {
    serving: Arc<ServingState>,
    tasks: Tasks,
    reconciler: Reconciler,
    janitor: Janitor,
    /// Held for as long as this server uses the state folder.
    _state_lock: File,
    /// Where v2 and predict listen; `None` where they do not.
    pub http_address: Option<SocketAddr>,
    /// Where gRPC listens; `None` where it does not.
    pub grpc_address: Option<SocketAddr>,
    /// Where `/metrics` listens; `None` where it does not.
    pub metrics_address: Option<SocketAddr>,
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
        let metrics = shown_metrics(settings);
        let sandbox = SandboxRuntime::new(settings.sandbox_config(&settings.state_dir))?;
        show_sandbox_limits(&metrics, sandbox.config());
        tracing::info!(allocator = ?sandbox.allocator(), "plugin sandbox ready");
        let registry = Arc::new(ModelRegistry::default());
        let (chores, chore_receiver) = chore_queue();

        let tasks = Tasks::default();
        let requests = ModelControlQueue::default();
        let observer = Observer::start(settings, &tasks, &metrics)?;
        let serving = Arc::new(serving_state(settings, &registry, (&metrics, &sandbox), (&requests, observer)));
        let bind = async |address: Option<SocketAddr>, (port, port_flag), router| {
            let Some(address) = address else { return Ok(None) };
            let parts = ServerParts {
                port_flag,
                router,
                connections_max: settings.limits.connections_max,
                open: metrics.connections(port),
                tasks: tasks.clone(),
                leaving: serving.leaving(),
            };
            Server::bind(address, parts).await.map(Some)
        };
        let http_server = bind(settings.listen.http, ("http", "--http-port"), router(Arc::clone(&serving))).await?;
        let metrics_router = metrics_router(Arc::clone(&serving));
        let metrics_server = bind(settings.listen.metrics, ("metrics", "--metrics-port"), metrics_router).await?;
        let grpc_server = bind_grpc(&settings.grpc, &serving, &tasks).await?;
        let grpc_address = grpc_server.as_ref().map(GrpcServer::local_address).transpose()?;
        let address = |server: &Option<Server>| server.as_ref().map(Server::local_address).transpose();
        let (http_address, metrics_address) = (address(&http_server)?, address(&metrics_server)?);

        let loading = LoadingFolder::new(&settings.state_dir);
        loading.clear();
        let janitor = Janitor::start(chores.clone(), chore_receiver, Arc::clone(&registry), metrics.clone())?;
        let tools = Tools { loader, sandbox, metrics, chores, loading };
        let workshop = Arc::new(workshop(settings, tools));
        let reconciler = Reconciler::start(ReconcilerParts {
            roots: settings.repositories.clone(),
            rescan: settings.rescan,
            control: settings.control.clone(),
            requests,
            load_threads: settings.load_threads.get(),
            registry,
            workshop,
        })?;
        http_server.into_iter().chain(metrics_server).for_each(Server::start);
        grpc_server.into_iter().for_each(GrpcServer::start);
        if let Some(path) = &settings.listen.port_file {
            write_ports(path, [("http", http_address), ("grpc", grpc_address), ("metrics", metrics_address)])?;
        }
        let shown = |address: Option<SocketAddr>| address.map_or("nowhere".to_owned(), |address| address.to_string());
        let (http, grpc, metrics) = (shown(http_address), shown(grpc_address), shown(metrics_address));
        tracing::info!(http, grpc, metrics, "listening");
        Ok(Self {
            serving,
            tasks,
            reconciler,
            janitor,
            _state_lock: state_lock,
            http_address,
            grpc_address,
            metrics_address,
        })
    }

    /// Readiness fails and new requests are refused from now on; work in flight goes on.
    pub fn start_stopping(&self) {
        self.serving.start_stopping();
    }

    /// What is served.
    #[must_use]
    pub fn registry(&self) -> &ModelRegistry {
        &self.serving.registry
    }

    /// What `/metrics` shows.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        crate::http::metrics_text(&self.serving).unwrap_or_default()
    }

    /// Once the first pass over the repositories is over: the models of which nothing serves, and why.
    #[must_use]
    pub fn failed_at_start(&self) -> Option<Vec<String>> {
        let map = self.serving.registry.snapshot();
        let failed = map.models().filter(|model| model.releases.is_empty()).map(|model| {
            let reasons: Vec<_> = model.problems.iter().map(|(part, reason)| format!("{part}: {reason}")).collect();
            format!("{}: {}", model.name, reasons.join("; "))
        });
        map.is_complete().then(|| failed.collect())
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
        self.serving.start_leaving();
        // Sleeping for no time takes a tick of the clock, in which new requests would still be let in.
        if !drain.is_zero() {
            tokio::time::sleep(drain.min(patience)).await;
        }
        self.start_stopping();
        let patience = patience.saturating_sub(started.elapsed());
        let started = tokio::time::Instant::now();
        let idle = self.serving.wait_until_idle(patience).await;
        let ended = self.tasks.stop(patience.saturating_sub(started.elapsed()).max(Duration::from_millis(100))).await;
        let Self { serving, reconciler, janitor, _state_lock, .. } = self;
        let registry = Arc::clone(&serving.registry);
        serving.observer.flush();
        drop(serving);
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

/// What every route can reach, of one server.
fn serving_state(
    settings: &Settings,
    registry: &Arc<ModelRegistry>,
    (metrics, sandbox): (&Metrics, &Arc<SandboxRuntime>),
    (requests, observer): (&ModelControlQueue, Observer),
) -> ServingState {
    let overrides = OverridesFolder::new(&settings.state_dir);
    overrides.clear();
    let shared_memory = SharedMemory::new(settings.shared_memory);
    ServingState::new(ServingParts {
        registry: Arc::clone(registry),
        limits: settings.limits,
        metrics: metrics.clone(),
        sandbox: Arc::clone(sandbox),
        server: ServerTraits {
            name: settings.server_name.clone(),
            extensions: extensions(&shared_memory),
            strict_readiness: settings.strict_readiness,
            restricted: settings.listen.restricted.clone(),
            forwarded_headers: settings.forwarded_headers.clone(),
        },
        repository: RepositoryApi {
            roots: settings.repositories.clone(),
            requests: settings.control.takes_requests().then(|| requests.clone()),
            overrides,
        },
        shared_memory,
        observer,
    })
}

/// What candidates are built with.
struct Tools {
    loader: Arc<dyn ModelLoader>,
    sandbox: Arc<SandboxRuntime>,
    metrics: Metrics,
    chores: ChoreSender,
    loading: LoadingFolder,
}

fn workshop(settings: &Settings, tools: Tools) -> Workshop {
    let Tools { loader, sandbox, metrics, chores, loading } = tools;
    let rate_limiter = settings.loading.rate_limit.limiter();
    if let Some(limiter) = rate_limiter.clone() {
        metrics.show_resources(move || limiter.resources());
    }
    let response_cache = settings.loading.response_cache_bytes.map(|bytes| Arc::new(ResponseCache::new(bytes.get())));
    if let Some(cache) = response_cache.clone() {
        metrics.show_response_cache(move || cache.snapshot());
    }
    Workshop {
        loader,
        sandbox,
        runtime: Handle::current(),
        metrics,
        chores,
        history: History::new(&settings.state_dir, settings.history_keep),
        loading,
        config_choice: settings.loading.config_choice.clone(),
        rate_limiter,
        response_cache,
        defaults: ConfigDefaults::of(settings),
        load_retries: settings.loading.retries,
        headroom_bytes: settings.loading.headroom_bytes,
        held_until: scheduler_delay(),
        verification: Verification::RunSamples,
        sample_timeout: settings.limits.timeout,
        plugin_memory_bytes_max: settings.sandbox.memory_bytes_max,
    }
}

/// Requests that must wait for each version before the first of them runs: `TRITONSERVER_DELAY_SCHEDULER`, with which
/// Triton's tests make batches come together.
fn scheduler_delay() -> usize {
    const VARIABLE: &str = "TRITONSERVER_DELAY_SCHEDULER";
    let held_until = std::env::var(VARIABLE).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if held_until > 0 {
        tracing::warn!(held_until, "{VARIABLE} is set: no version runs anything before so many requests wait for it");
    }
    held_until
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

fn write_ports(path: &Path, addresses: [(&str, Option<SocketAddr>); 3]) -> std::io::Result<()> {
    let ports = addresses.map(|(name, address)| (name.to_owned(), address.map(|address| address.port()).into()));
    let ports = serde_json::Value::Object(ports.into_iter().collect());
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, ports.to_string())?;
    std::fs::rename(&temporary, path)
}

/// Binds the gRPC port, where there is to be one.
async fn bind_grpc(
    settings: &GrpcSettings,
    serving: &Arc<ServingState>,
    tasks: &Tasks,
) -> Result<Option<GrpcServer>, StartError> {
    let Some(address) = settings.address else { return Ok(None) };
    let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
    let front = GrpcFront::new(FrontParts { state: Arc::clone(serving), settings, stop: tasks.stop_token() });
    let parts = GrpcServerParts {
        front,
        settings,
        connections_max: serving.limits.connections_max,
        open: serving.metrics.connections("grpc"),
        tls,
        tasks: tasks.clone(),
    };
    Ok(Some(GrpcServer::bind(address, parts).await?))
}

/// The families that the settings ask for, with every limit of theirs.
fn shown_metrics(settings: &Settings) -> Metrics {
    let metrics = Metrics::with(&settings.metrics.triton);
    if let Some(interval) = settings.metrics.system_interval {
        metrics.show_system(interval);
    }
    show_limits(&metrics, settings);
    metrics
}

/// Every limit from the settings, visible in `/metrics`.
fn show_limits(metrics: &Metrics, settings: &Settings) {
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    let count = |name: &str, value: usize| metrics.show_limit(name, value as f64);
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    let bytes = |name: &str, value: u64| metrics.show_limit(name, value as f64);
    let seconds = |name: &str, value: Duration| metrics.show_limit(name, value.as_secs_f64());
    count("http_max_input_size_bytes", settings.limits.body_bytes_max);
    count("grpc_max_message_size_bytes", settings.grpc.message_bytes_max);
    count("grpc_stream_requests", settings.grpc.stream_requests_max);
    count("grpc_connection_streams", settings.grpc.connection_streams_max as usize);
    seconds("grpc_keepalive_time_seconds", settings.grpc.keepalive_time);
    seconds("grpc_keepalive_timeout_seconds", settings.grpc.keepalive_timeout);
    if let Some(age) = settings.grpc.connection_age {
        seconds("grpc_max_connection_age_seconds", age.max);
    }
    count("max_in_flight", settings.limits.in_flight_max);
    count("max_connections", settings.limits.connections_max);
    count("serving_threads", settings.serving_threads.get());
    seconds("request_timeout_seconds", settings.limits.timeout);
    count("max_queue_size", settings.max_queue_size.get());
    count("response_cache_bytes", settings.loading.response_cache_bytes.map_or(0, |bytes| bytes.get() as usize));
    count("model_load_threads", settings.load_threads.get());
    count("model_load_retries", settings.loading.retries);
    count("model_control_requests", REQUESTS_WAITING_MAX);
    count("history_keep", settings.history_keep);
    seconds("settle_seconds", settings.rescan.settle);
    seconds("settle_cap_seconds", settings.rescan.settle_cap);
    seconds("rescan_seconds", settings.rescan.interval);
    seconds("rehash_seconds", settings.rescan.rehash);
    if let Some(RegionLimits { regions_max, bytes_max, request_bytes_max }) = settings.shared_memory {
        count("shared_memory_regions", regions_max);
        bytes("shared_memory_bytes", bytes_max);
        bytes("shared_memory_request_bytes", request_bytes_max);
    }
    seconds("drain_seconds", settings.drain);
    seconds("exit_timeout_seconds", settings.exit_timeout);
    count("access_log_lines_waiting", crate::line_queue::LINES_WAITING_MAX);
    count("trace_requests_waiting", settings.tracing.batch.queue_max);
    count("trace_requests_at_once", settings.tracing.batch.export_max);
    seconds("trace_delay_seconds", settings.tracing.batch.delay);
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
