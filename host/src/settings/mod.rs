//! Server settings: `airlock.toml`, then the environment, then flags, in that order of rising weight. One struct lists
//! them all ([`ServeArgs`]: a flag, a variable and a key each); [`Settings`] is the checked result, with every default
//! filled in and every limit inside its bounds. Problems are gathered and reported together.

mod args;
mod backend;
mod bounds;
mod control;
mod foreign;
mod forward;
mod groups;
mod grpc;
mod log;
mod metrics;
mod response_cache;
mod restricted;
mod shared_memory;
mod trace;
mod triton;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{GlobalThreads, LoaderOptions, RuntimeOptions};
use model::{SessionThreads, ThreadCount};
use plugin::RuntimeConfig;

pub use args::{LogFormat, ServeArgs};
pub use backend::{EngineSettings, RateLimitSettings};
use bounds::Bounds;
pub use control::{ModelControl, StartupModels};
pub use foreign::ForeignArgs;
pub use forward::HeaderPattern;
use groups::{header_pattern, listen, load_settings, request_limits, rescan_interval, sandbox_limits};
pub use grpc::{CompressionLevel, ConnectionAge, GrpcArgs, GrpcSettings, TlsFiles};
pub use log::{AccessLogTarget, LogLevels, LogSettings};
pub use metrics::MetricsSettings;
pub use restricted::{ApiKind, RequiredHeader, RestrictedApis};
pub use trace::{BatchLimits, TraceArgs, TraceLevels, TraceMode, TraceSettings, TraceValues};
pub use triton::{ModelControlMode, RateLimitMode, TritonArgs};

use crate::repository::config_choice::ConfigChoice;
use crate::shared_memory::RegionLimits;

/// Checked settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Model repositories, at least one.
    pub repositories: Vec<PathBuf>,
    /// Where the server writes for itself.
    pub state_dir: PathBuf,
    /// ONNX Runtime's library, where given.
    pub onnxruntime: Option<PathBuf>,
    /// Addresses.
    pub listen: Listen,
    /// The gRPC port.
    pub grpc: GrpcSettings,
    /// Threads that serve requests.
    pub serving_threads: NonZeroUsize,
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// When the repository is looked at.
    pub rescan: Rescan,
    /// Bounds on shared memory; `None` where it is off.
    pub shared_memory: Option<RegionLimits>,
    /// Waiting requests of a version whose config names no bound.
    pub max_queue_size: NonZeroUsize,
    /// Threads that load and compile.
    pub load_threads: NonZeroUsize,
    /// Generations kept on disk per model.
    pub history_keep: usize,
    /// Bounds of the sandbox.
    pub sandbox: SandboxLimits,
    /// Serving goes on for this long after SIGTERM, while readiness fails.
    pub drain: Duration,
    /// Work in flight gets this long after SIGTERM.
    pub exit_timeout: Duration,
    /// Who decides what is loaded.
    pub control: ModelControl,
    /// How models are loaded.
    pub loading: LoadSettings,
    /// Which series there are.
    pub metrics: MetricsSettings,
    /// Whether a model that does not load at the start ends the server.
    pub exit_on_error: bool,
    /// Whether readiness waits for every model of the start.
    pub strict_readiness: bool,
    /// Which headers become parameters of an inference request.
    pub forwarded_headers: Option<HeaderPattern>,
    /// The server's name in its metadata.
    pub server_name: String,
    /// What it logs, how and where to.
    pub log: LogSettings,
    /// Where the lines about requests go.
    pub access_log: AccessLogTarget,
    /// Which requests are traced, and where to.
    pub tracing: TraceSettings,
    /// Flags of Triton's that were given and have no effect.
    pub foreign: ForeignArgs,
}

/// How models are loaded.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// Which file is a model's configuration.
    pub config_choice: ConfigChoice,
    /// Whether nothing is taken from the model file that a configuration leaves out.
    pub is_strict: bool,
    /// How often a version that does not load is tried again.
    pub retries: usize,
    /// Bytes of memory that a load must leave free; `None` where nobody asked.
    pub headroom_bytes: Option<u64>,
    /// Libraries of custom operators that models may name.
    pub custom_op_libraries: Vec<PathBuf>,
    /// What `--backend-config` says.
    pub engine: EngineSettings,
    /// Whether instances share resources, and how much there is of each.
    pub rate_limit: RateLimitSettings,
    /// Most bytes of answers that are kept, for models that ask for it; `None` where none are.
    pub response_cache_bytes: Option<NonZeroU64>,
}

impl LoadSettings {
    /// How ONNX Runtime's environment is made.
    #[must_use]
    pub fn runtime_options(&self) -> RuntimeOptions {
        let EngineSettings { has_global_threads, intra_op_threads, inter_op_threads, .. } = self.engine;
        let count = |threads: Option<u16>| threads.map_or(ThreadCount::Cores, ThreadCount::from);
        let threads = GlobalThreads { intra_op: count(intra_op_threads), inter_op: count(inter_op_threads) };
        RuntimeOptions { global_threads: has_global_threads.then_some(threads) }
    }

    /// What holds for every model that ONNX Runtime runs.
    #[must_use]
    pub fn loader_options(&self) -> LoaderOptions {
        LoaderOptions { custom_op_libraries: self.custom_op_libraries.clone() }
    }

    /// The threads of a model that names none and shares none.
    #[must_use]
    pub fn session_threads(&self) -> SessionThreads {
        let EngineSettings { has_global_threads, intra_op_threads, inter_op_threads, .. } = self.engine;
        if has_global_threads {
            return SessionThreads::default();
        }
        let count = |threads: Option<u16>| threads.map(ThreadCount::from);
        SessionThreads { intra_op: count(intra_op_threads), inter_op: count(inter_op_threads) }
    }
}

/// Where the server listens.
#[derive(Clone, Debug)]
pub struct Listen {
    /// v2 and predict; `None` where HTTP is not served.
    pub http: Option<SocketAddr>,
    /// `/metrics`; `None` where it is not served.
    pub metrics: Option<SocketAddr>,
    /// What requests must bring.
    pub restricted: RestrictedApis,
    /// Where to write the ports taken.
    pub port_file: Option<PathBuf>,
    /// Flags given for ports that this version does not serve.
    pub reserved: Vec<(&'static str, u16)>,
}

/// Bounds on requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Bytes of a body.
    pub body_bytes_max: usize,
    /// Requests held at once.
    pub in_flight_max: usize,
    /// Open connections.
    pub connections_max: usize,
    /// Time for a request.
    pub timeout: Duration,
}

/// When the repository is looked at, and for how long a file must be still.
#[derive(Clone, Copy, Debug)]
pub struct Rescan {
    /// Stillness before a file is read.
    pub settle: Duration,
    /// When restlessness is reported.
    pub settle_cap: Duration,
    /// Between two scans.
    pub interval: Duration,
    /// Between two full hashes.
    pub rehash: Duration,
}

/// Bounds of the sandbox.
#[derive(Clone, Copy, Debug)]
pub struct SandboxLimits {
    /// Instances alive at once.
    pub instances: u32,
    /// Calls that may wait for an instance.
    pub waiting_max: usize,
    /// Core instances that one component may have.
    pub core_instances_max: u32,
    /// Bytes of a component.
    pub component_bytes_max: usize,
    /// Bytes of compiled components on disk.
    pub cache_bytes_max: u64,
    /// Bytes of compiled functions on disk.
    pub function_cache_bytes_max: u64,
    /// Memory of one instance, the most a plugin.toml may ask for.
    pub memory_bytes_max: usize,
    /// Threads for long guests.
    pub threads: NonZeroUsize,
}

/// What is wrong with the settings; every problem at once.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("reading {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Texts, one per problem.
    #[error("{}", .0.join("\n"))]
    Problems(Vec<String>),
}

impl Settings {
    /// Checks every value and fills in the defaults.
    ///
    /// # Errors
    /// [`SettingsError::Problems`] with every limit outside its bounds.
    pub fn from_args(args: ServeArgs) -> Result<Self, SettingsError> {
        let mut bounds = Bounds::default();
        let mut problems = Vec::new();
        let triton = &args.triton;
        let serving_threads = args.serving_threads.or(triton.http_thread_count);
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let limits = request_limits(&args, &mut bounds);
        let settings = Self {
            listen: listen(&args, &mut problems),
            serving_threads: bounds.at_least_one("serving_threads", serving_threads, cores),
            limits,
            grpc: GrpcSettings::of(&args, &limits, &mut bounds, &mut problems),
            rescan: Rescan {
                settle: bounds.millis("settle_ms", args.settle_ms, 500, (1, 600_000)),
                settle_cap: bounds.millis("settle_cap_ms", args.settle_cap_ms, 60_000, (1, 86_400_000)),
                interval: rescan_interval(&args, &mut bounds),
                rehash: Duration::from_secs(bounds.within_u64("rehash_secs", args.rehash_secs, 3_600, (1, 31_536_000))),
            },
            shared_memory: shared_memory::limits(&args, &mut bounds),
            max_queue_size: bounds.at_least_one(
                "max_queue_size",
                args.max_queue_size,
                model::QueuePolicy::DEFAULT_MAX_QUEUE_SIZE,
            ),
            load_threads: bounds.at_least_one(
                "model_load_thread_count",
                args.model_load_thread_count,
                NonZeroUsize::MIN.saturating_add(1),
            ),
            history_keep: bounds.within("history_keep", args.history_keep, 5, (1, 1000)),
            sandbox: sandbox_limits(&args, &mut bounds, cores),
            drain: Duration::from_secs(bounds.within_u64("drain_secs", args.drain_secs, 1, (0, 3_600))),
            exit_timeout: Duration::from_secs(bounds.within_u64(
                "exit_timeout_secs",
                args.exit_timeout_secs,
                30,
                (0, 86_400),
            )),
            control: ModelControl::of(triton, &mut problems),
            metrics: MetricsSettings::of(triton, &mut problems),
            exit_on_error: triton.exit_on_error.unwrap_or(false),
            strict_readiness: triton.strict_readiness.unwrap_or(true),
            forwarded_headers: header_pattern(
                "http_header_forward_pattern",
                triton.http_header_forward_pattern.as_deref(),
                &mut problems,
            ),
            server_name: triton.id.clone().unwrap_or_else(|| "airlock".to_owned()),
            loading: load_settings(&args, &mut bounds, &mut problems),
            log: LogSettings::of(&args),
            access_log: AccessLogTarget::of(&args),
            tracing: TraceSettings::of(&args.trace, &mut bounds, &mut problems),
            state_dir: args.state_dir.unwrap_or_else(|| PathBuf::from("airlock-state")),
            repositories: distinct(args.model_repository),
            onnxruntime: args.onnxruntime,
            foreign: args.foreign,
        };
        let bounds = bounds.problems.iter().map(ToString::to_string);
        let problems: Vec<String> = bounds.chain(problems).chain(settings.path_problems()).collect();
        if problems.is_empty() { Ok(settings) } else { Err(SettingsError::Problems(problems)) }
    }

    /// The sandbox's bounds, with what it keeps on disk below `state_dir`.
    #[must_use]
    pub fn sandbox_config(&self, state_dir: &Path) -> RuntimeConfig {
        let limits = self.sandbox;
        RuntimeConfig {
            instances_max: limits.instances,
            waiting_max: limits.waiting_max,
            core_instance_slots: limits.core_instances_max,
            memory_bytes_max: limits.memory_bytes_max,
            component_bytes_max: limits.component_bytes_max,
            cache_bytes_max: limits.cache_bytes_max,
            function_cache_bytes_max: limits.function_cache_bytes_max,
            serving_threads: self.serving_threads.get(),
            plugin_threads: limits.threads.get(),
            ..RuntimeConfig::new(state_dir.join("compiled"))
        }
    }

    fn path_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.repositories.is_empty() {
            problems.push("no model repository; give one with --model-repository DIR".to_owned());
        }
        for repository in &self.repositories {
            if !repository.is_dir() {
                problems.push(format!(
                    "model repository {} is not a folder; give the folder that holds the models' folders",
                    repository.display()
                ));
            } else if repository.join("config.pbtxt").exists() {
                let parent = absolute(repository).parent().map(Path::to_path_buf).unwrap_or_default();
                problems.push(format!(
                    "model repository {} is a model's own folder, since it has a config.pbtxt; give its parent {}",
                    repository.display(),
                    parent.display()
                ));
            } else if absolute(&self.state_dir).starts_with(absolute(repository)) {
                problems.push(format!(
                    "state_dir {} lies inside model repository {}; give another with --state-dir DIR",
                    self.state_dir.display(),
                    repository.display()
                ));
            }
        }
        problems
    }
}

/// The folders, each once, however it is written.
fn distinct(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    folders.into_iter().filter(|folder| seen.insert(absolute(folder))).collect()
}

fn absolute(path: &Path) -> PathBuf {
    let resolved = path.canonicalize().or_else(|_| std::path::absolute(path));
    resolved.unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests;
