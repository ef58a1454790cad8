//! Server settings: `airlock.toml`, then the environment, then flags, in that order of rising weight. One struct lists
//! them all ([`ServeArgs`]: a flag, a variable and a key each); [`Settings`] is the checked result, with every default
//! filled in and every limit inside its bounds. Problems are gathered and reported together.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Command};
use model::LimitError;
use serde::{Deserialize, Serialize};

/// What `airlock serve` can be told. Names are Triton's where the same thing is meant.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServeArgs {
    /// Folder of model folders; may be given several times
    #[arg(long, env = "AIRLOCK_MODEL_REPOSITORY", value_name = "DIR")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model_repository: Vec<PathBuf>,
    /// Folder for what the server writes for itself; created with mode 0700, outside every model repository
    #[arg(long, env = "AIRLOCK_STATE_DIR", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<PathBuf>,
    /// ONNX Runtime's shared library, 1.24 or newer
    #[arg(long, env = "AIRLOCK_ONNXRUNTIME", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnxruntime: Option<PathBuf>,
    /// Address the HTTP and metrics ports listen on
    #[arg(long, env = "AIRLOCK_HTTP_ADDRESS", value_name = "IP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_address: Option<IpAddr>,
    /// Port of the v2 protocol and of predict; 0 takes a free one
    #[arg(long, env = "AIRLOCK_HTTP_PORT", value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_port: Option<u16>,
    /// Port reserved for gRPC, which this version does not serve yet
    #[arg(long, env = "AIRLOCK_GRPC_PORT", value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_port: Option<u16>,
    /// Port of /metrics; 0 takes a free one
    #[arg(long, env = "AIRLOCK_METRICS_PORT", value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<u16>,
    /// Port reserved for the admin API, which this version does not serve yet
    #[arg(long, env = "AIRLOCK_ADMIN_PORT", value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_port: Option<u16>,
    /// File to write the ports to, as JSON, once they listen
    #[arg(long, env = "AIRLOCK_PORT_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_file: Option<PathBuf>,
    /// Threads that serve requests [default: one per core]
    #[arg(long, env = "AIRLOCK_SERVING_THREADS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_threads: Option<usize>,
    /// Largest request body in bytes [default: 67108864]
    #[arg(long, env = "AIRLOCK_HTTP_MAX_INPUT_SIZE", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_max_input_size: Option<usize>,
    /// Most requests held at once; more get 503 [default: 4096]
    #[arg(long, env = "AIRLOCK_MAX_IN_FLIGHT", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<usize>,
    /// Most open connections; more wait to be accepted [default: 8192]
    #[arg(long, env = "AIRLOCK_MAX_CONNECTIONS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<usize>,
    /// Time a request may take where it sets no X-Request-Timeout-Ms, and the most it may ask for [default: 30000]
    #[arg(long, env = "AIRLOCK_REQUEST_TIMEOUT_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout_ms: Option<u64>,
    /// Seconds that work in flight gets after SIGTERM [default: 30]
    #[arg(long, env = "AIRLOCK_EXIT_TIMEOUT_SECS", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_timeout_secs: Option<u64>,
    /// Most requests waiting for one model version where its config names no max_queue_size [default: 4096]
    #[arg(long, env = "AIRLOCK_MAX_QUEUE_SIZE", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue_size: Option<usize>,
    /// How long a file must be still before it is read [default: 500]
    #[arg(long, env = "AIRLOCK_SETTLE_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_ms: Option<u64>,
    /// When a file that never comes to rest is reported as still changing [default: 60000]
    #[arg(long, env = "AIRLOCK_SETTLE_CAP_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_cap_ms: Option<u64>,
    /// Time between two scans of the repositories; file events only make them sooner [default: 5000]
    #[arg(long, env = "AIRLOCK_RESCAN_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescan_ms: Option<u64>,
    /// Time between two full hashes of all files, changed or not [default: 3600]
    #[arg(long, env = "AIRLOCK_REHASH_SECS", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehash_secs: Option<u64>,
    /// Threads that load models and compile plugins, besides the serving ones [default: 2]
    #[arg(long, env = "AIRLOCK_MODEL_LOAD_THREAD_COUNT", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_load_thread_count: Option<usize>,
    /// Good generations of a plugin kept on disk per model [default: 5]
    #[arg(long, env = "AIRLOCK_HISTORY_KEEP", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_keep: Option<usize>,
    /// Most plugin instances alive at once, over all models [default: 256]
    #[arg(long, env = "AIRLOCK_PLUGIN_INSTANCES", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_instances: Option<usize>,
    /// Most plugin calls waiting for an instance once --plugin-instances live; more get 503 [default: 1024]
    #[arg(long, env = "AIRLOCK_PLUGIN_QUEUE_SIZE", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_queue_size: Option<usize>,
    /// Most core instances one plugin may be made of; a Rust plugin has 1, a Python plugin 14 to 38 [default: 64]
    #[arg(long, env = "AIRLOCK_PLUGIN_CORE_INSTANCES", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_core_instances: Option<usize>,
    /// Largest plugin.wasm, in MiB [default: 64]
    #[arg(long, env = "AIRLOCK_PLUGIN_COMPONENT_MB", value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_component_mb: Option<usize>,
    /// Compiled plugins kept on disk, in MiB; the least recently used go first [default: 1024]
    #[arg(long, env = "AIRLOCK_PLUGIN_CACHE_MB", value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_cache_mb: Option<usize>,
    /// Compiled functions kept on disk, so that a plugin much like an earlier one compiles quickly, in MiB; 0 keeps
    /// none [default: 512]
    #[arg(long, env = "AIRLOCK_PLUGIN_FUNCTION_CACHE_MB", value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_function_cache_mb: Option<usize>,
    /// Largest memory one plugin instance may be given, in MiB [default: 1024]
    #[arg(long, env = "AIRLOCK_PLUGIN_MEMORY_MB", value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_memory_mb: Option<usize>,
    /// Threads for plugins that take long [default: one per core]
    #[arg(long, env = "AIRLOCK_PLUGIN_THREADS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_threads: Option<usize>,
    /// How log lines look: json, or text for people [default: json unless standard error is a terminal]
    #[arg(long, env = "AIRLOCK_LOG_FORMAT", value_name = "FORMAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
    /// What is logged, such as `info` or `airlock=debug` [default: info]
    #[arg(long, env = "AIRLOCK_LOG", value_name = "FILTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

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
    /// Threads that serve requests.
    pub serving_threads: NonZeroUsize,
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// When the repository is looked at.
    pub rescan: Rescan,
    /// Waiting requests of a version whose config names no bound.
    pub max_queue_size: NonZeroUsize,
    /// Threads that load and compile.
    pub load_threads: NonZeroUsize,
    /// Generations kept on disk per model.
    pub history_keep: usize,
    /// Bounds of the sandbox.
    pub sandbox: SandboxLimits,
    /// Work in flight gets this long after SIGTERM.
    pub exit_timeout: Duration,
    /// Log format; `None` chooses by terminal.
    pub log_format: Option<LogFormat>,
    /// Log filter.
    pub log_filter: String,
}

/// Where the server listens.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Address of HTTP and metrics.
    pub address: IpAddr,
    /// v2 and predict.
    pub http_port: u16,
    /// `/metrics`.
    pub metrics_port: u16,
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

impl ServeArgs {
    /// Lays flags and environment (which clap has already read into `self`) over `file`, where there is one.
    ///
    /// # Errors
    /// [`SettingsError`] with every unknown key and wrong value of the file.
    pub fn over_file(self, file: Option<&Path>) -> Result<Self, SettingsError> {
        let Some(path) = file else { return Ok(self) };
        let text =
            std::fs::read_to_string(path).map_err(|error| SettingsError::Read { path: path.to_path_buf(), error })?;
        self.over_text(&text, &path.display().to_string())
    }

    fn over_text(self, text: &str, file: &str) -> Result<Self, SettingsError> {
        let mut table: toml::Table =
            text.parse().map_err(|error| SettingsError::Problems(vec![format!("{file}: {error}")]))?;
        let known = setting_names();
        let mut problems: Vec<String> =
            table.keys().filter(|key| !known.contains(key)).map(|key| unknown_key(file, key, &known)).collect();
        for (key, value) in &table {
            let alone = toml::Table::from_iter([(key.clone(), value.clone())]);
            if let Err(error) = alone.try_into::<Self>() {
                let shown = toml_value(value);
                problems.push(format!("{file}: {key} = {shown}: {}", error.message()));
            }
        }
        if !problems.is_empty() {
            return Err(SettingsError::Problems(problems));
        }
        let flags =
            toml::Table::try_from(&self).map_err(|error| SettingsError::Problems(vec![format!("flags: {error}")]))?;
        table.extend(flags);
        table.try_into().map_err(|error: toml::de::Error| SettingsError::Problems(vec![format!("{file}: {error}")]))
    }
}

/// A value as it stands in the file, as far as a message needs it.
fn toml_value(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("{text:?}"),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(truth) => truth.to_string(),
        other => format!("<{}>", other.type_str()),
    }
}

fn setting_names() -> Vec<String> {
    let command = ServeArgs::augment_args(Command::new("serve"));
    command.get_arguments().map(|argument| argument.get_id().as_str().to_owned()).collect()
}

fn unknown_key(file: &str, key: &str, known: &[String]) -> String {
    let nearest = known.iter().map(|name| (strsim::damerau_levenshtein(key, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= 3 => {
            format!("{file}: unknown key '{key}'; did you mean '{name}'?")
        }
        _ => format!("{file}: unknown key '{key}'; known keys: {}", known.join(", ")),
    }
}

impl Settings {
    /// Checks every value and fills in the defaults.
    ///
    /// # Errors
    /// [`SettingsError::Problems`] with every limit outside its bounds.
    pub fn from_args(args: ServeArgs) -> Result<Self, SettingsError> {
        let mut bounds = Bounds::default();
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let settings = Self {
            listen: listen(&args),
            serving_threads: bounds.at_least_one("serving_threads", args.serving_threads, cores),
            limits: RequestLimits {
                body_bytes_max: bounds.within("http_max_input_size", args.http_max_input_size, 64 << 20, (1, 4 << 30)),
                in_flight_max: bounds.within("max_in_flight", args.max_in_flight, 4096, (1, 1 << 20)),
                connections_max: bounds.within("max_connections", args.max_connections, 8192, (1, 1 << 20)),
                timeout: bounds.millis("request_timeout_ms", args.request_timeout_ms, 30_000, (1, 3_600_000)),
            },
            rescan: Rescan {
                settle: bounds.millis("settle_ms", args.settle_ms, 500, (1, 600_000)),
                settle_cap: bounds.millis("settle_cap_ms", args.settle_cap_ms, 60_000, (1, 86_400_000)),
                interval: bounds.millis("rescan_ms", args.rescan_ms, 5_000, (10, 86_400_000)),
                rehash: Duration::from_secs(bounds.within_u64("rehash_secs", args.rehash_secs, 3_600, (1, 31_536_000))),
            },
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
            exit_timeout: Duration::from_secs(bounds.within_u64(
                "exit_timeout_secs",
                args.exit_timeout_secs,
                30,
                (0, 86_400),
            )),
            state_dir: args.state_dir.unwrap_or_else(|| PathBuf::from("airlock-state")),
            repositories: args.model_repository,
            onnxruntime: args.onnxruntime,
            log_format: args.log_format,
            log_filter: args.log.unwrap_or_else(|| "info".to_owned()),
        };
        let mut problems: Vec<String> = bounds.problems.iter().map(ToString::to_string).collect();
        problems.extend(settings.path_problems());
        if problems.is_empty() { Ok(settings) } else { Err(SettingsError::Problems(problems)) }
    }

    fn path_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.repositories.is_empty() {
            problems.push("no model repository; give one with --model-repository DIR".to_owned());
        }
        for repository in &self.repositories {
            if !repository.is_dir() {
                problems.push(format!("model repository {} is not a folder", repository.display()));
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

fn absolute(path: &Path) -> PathBuf {
    let resolved = path.canonicalize().or_else(|_| std::path::absolute(path));
    resolved.unwrap_or_else(|_| path.to_path_buf())
}

fn listen(args: &ServeArgs) -> Listen {
    let reserved = [("--grpc-port", args.grpc_port), ("--admin-port", args.admin_port)];
    Listen {
        address: args.http_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        http_port: args.http_port.unwrap_or(8000),
        metrics_port: args.metrics_port.unwrap_or(8002),
        port_file: args.port_file.clone(),
        reserved: reserved.into_iter().filter_map(|(flag, port)| port.map(|port| (flag, port))).collect(),
    }
}

fn sandbox_limits(args: &ServeArgs, bounds: &mut Bounds, cores: NonZeroUsize) -> SandboxLimits {
    let mut mebibytes = |name, given, default, range| bounds.within(name, given, default, range) << 20;
    let memory_bytes_max = mebibytes("plugin_memory_mb", args.plugin_memory_mb, 1024, (1, 4095));
    let component_bytes_max = mebibytes("plugin_component_mb", args.plugin_component_mb, 64, (1, 1024));
    let cache_bytes_max = mebibytes("plugin_cache_mb", args.plugin_cache_mb, 1024, (1, 1 << 20)) as u64;
    let function_cache_bytes_max =
        mebibytes("plugin_function_cache_mb", args.plugin_function_cache_mb, 512, (0, 1 << 20)) as u64;
    let mut count = |name, given, default, most| {
        // The bound of each is far below.
        u32::try_from(bounds.within(name, given, default, (1, most))).unwrap_or(u32::MAX)
    };
    SandboxLimits {
        instances: count("plugin_instances", args.plugin_instances, 256, 65_536),
        core_instances_max: count("plugin_core_instances", args.plugin_core_instances, 64, 1_024),
        waiting_max: bounds.within("plugin_queue_size", args.plugin_queue_size, 1_024, (0, 1 << 20)),
        memory_bytes_max,
        component_bytes_max,
        cache_bytes_max,
        function_cache_bytes_max,
        threads: bounds.at_least_one("plugin_threads", args.plugin_threads, cores),
    }
}

/// Gathers what lies outside its bounds.
#[derive(Default)]
struct Bounds {
    problems: Vec<LimitError>,
}

impl Bounds {
    fn within_u64(&mut self, name: &'static str, given: Option<u64>, default: u64, (low, high): (u64, u64)) -> u64 {
        let value = given.unwrap_or(default);
        if !(low..=high).contains(&value) {
            let bound = format!("from {low} to {high}");
            self.problems.push(LimitError { name, bound, got: value.to_string() });
        }
        value
    }

    fn within(&mut self, name: &'static str, given: Option<usize>, default: usize, bounds: (u64, u64)) -> usize {
        let value = self.within_u64(name, given.map(|v| v as u64), default as u64, bounds);
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    fn at_least_one(&mut self, name: &'static str, given: Option<usize>, default: NonZeroUsize) -> NonZeroUsize {
        NonZeroUsize::new(self.within(name, given, default.get(), (1, 1 << 20))).unwrap_or(default)
    }

    fn millis(&mut self, name: &'static str, given: Option<u64>, default: u64, bounds: (u64, u64)) -> Duration {
        Duration::from_millis(self.within_u64(name, given, default, bounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(result: Result<impl std::fmt::Debug, SettingsError>) -> Vec<String> {
        match result {
            Err(SettingsError::Problems(problems)) => problems,
            other => panic!("expected problems, got {other:?}"),
        }
    }

    #[test]
    fn flags_outweigh_the_file() {
        let flags = ServeArgs { http_port: Some(1), ..ServeArgs::default() };
        let merged = flags.over_text("http_port = 2\nsettle_ms = 7\nmodel_repository = ['m']", "airlock.toml");
        let merged = merged.expect("known keys");
        assert_eq!((merged.http_port, merged.settle_ms), (Some(1), Some(7)));
        assert_eq!(merged.model_repository, [PathBuf::from("m")]);
    }

    #[test]
    fn every_problem_of_the_file_is_reported_at_once() {
        let got = problems(ServeArgs::default().over_text("http_prot = 1\nsettle_ms = 'x'\nfoo_bar_baz = 1", "a.toml"));
        assert_eq!(got.len(), 3, "{got:#?}");
        assert!(got.contains(&"a.toml: unknown key 'http_prot'; did you mean 'http_port'?".to_owned()), "{got:#?}");
        assert!(got.iter().any(|text| text.starts_with("a.toml: settle_ms = \"x\": invalid type: string")), "{got:#?}");
    }

    #[test]
    fn limits_outside_their_bounds_are_named_together() {
        let args = ServeArgs { max_in_flight: Some(0), rescan_ms: Some(1), ..ServeArgs::default() };
        assert_eq!(
            problems(Settings::from_args(args)),
            [
                "max_in_flight is 0; it must be from 1 to 1048576",
                "rescan_ms is 1; it must be from 10 to 86400000",
                "no model repository; give one with --model-repository DIR",
            ]
        );
    }

    #[test]
    fn state_stays_outside_the_repository() {
        let repository = tempfile::tempdir().expect("temporary folder");
        let args = ServeArgs {
            model_repository: vec![repository.path().to_path_buf()],
            state_dir: Some(repository.path().join("state")),
            ..ServeArgs::default()
        };
        assert!(problems(Settings::from_args(args))[0].contains("lies inside model repository"));
    }
}
