//! What can be said on the command line, in the environment and in `airlock.toml`: one struct lists them all, a flag, a
//! variable and a key each.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use serde::{Deserialize, Serialize};

use super::SettingsError;
use super::foreign::ForeignArgs;
use super::grpc::GrpcArgs;
use super::trace::TraceArgs;
use super::triton::TritonArgs;

/// What `airlock serve` can be told. Names are Triton's where the same thing is meant.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServeArgs {
    /// Folder of model folders; may be given several times
    #[arg(long, visible_alias = "model-store", env = "AIRLOCK_MODEL_REPOSITORY", value_name = "DIR")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model_repository: Vec<PathBuf>,
    /// Folder for what the server writes for itself; created with mode 0700, outside every model
    /// repository [default: airlock-state]
    #[arg(long, env = "AIRLOCK_STATE_DIR", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<PathBuf>,
    /// ONNX Runtime's shared library, 1.24 or newer [default: ORT_DYLIB_PATH, else what xtask fetched, else the Python
    /// package onnxruntime]
    #[arg(long, env = "AIRLOCK_ONNXRUNTIME", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnxruntime: Option<PathBuf>,
    /// Address the HTTP and metrics ports listen on [default: 0.0.0.0]
    #[arg(long, env = "AIRLOCK_HTTP_ADDRESS", value_name = "IP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_address: Option<IpAddr>,
    /// Port of the v2 protocol and of predict; 0 takes a free one [default: 8000]
    #[arg(long, env = "AIRLOCK_HTTP_PORT", value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_port: Option<u16>,
    /// Port of /metrics; 0 takes a free one [default: 8002]
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
    /// Seconds that the server goes on serving after SIGTERM while readiness fails already, so that load balancers see
    /// it before anything is refused [default: 1]
    #[arg(long, env = "AIRLOCK_DRAIN_SECS", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_secs: Option<u64>,
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
    /// How log lines look: json, text for people, or as Triton writes them, default and ISO8601 [default: json unless
    /// standard error is a terminal]
    #[arg(long, env = "AIRLOCK_LOG_FORMAT", value_name = "FORMAT", ignore_case = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
    /// What is logged, such as `info` or `airlock=debug` [default: info]
    #[arg(long, env = "AIRLOCK_LOG", value_name = "FILTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Where a line of JSON for each answered inference and predict goes: a file that lines are added to, - for standard
    /// output, or off [default: off]
    #[arg(long, env = "AIRLOCK_ACCESS_LOG", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_log: Option<String>,
    /// Native library of custom operators that models may name in model_operations; without it they are refused. May be
    /// given several times
    #[arg(long, env = "AIRLOCK_CUSTOM_OP_LIBRARY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub custom_op_library: Vec<PathBuf>,
    /// Memory that loading a model must leave free, in MiB, of what the system or the container has left; a load that
    /// would not is refused before it starts [default: loads are not held to any]
    #[arg(long, env = "AIRLOCK_MODEL_LOAD_HEADROOM_MB", value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_load_headroom_mb: Option<usize>,
    /// With --allow-client-shm: most shared memory regions registered at once [default: 1024]
    #[arg(long, env = "AIRLOCK_SHARED_MEMORY_REGIONS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_memory_regions: Option<usize>,
    /// With --allow-client-shm: all registered regions together, in MiB [default: 4096]
    #[arg(long, env = "AIRLOCK_SHARED_MEMORY_MB", value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_memory_mb: Option<u64>,
    /// With --allow-client-shm: what the inputs of one request may take out of regions, in MiB [default: 64]
    #[arg(long, env = "AIRLOCK_SHARED_MEMORY_REQUEST_MB", value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_memory_request_mb: Option<u64>,
    #[command(flatten, next_help_heading = "gRPC")]
    #[serde(flatten)]
    #[expect(missing_docs, reason = "documented where it is declared")]
    pub grpc: GrpcArgs,
    #[command(flatten, next_help_heading = "As in Triton")]
    #[serde(flatten)]
    #[expect(missing_docs, reason = "documented where it is declared")]
    pub triton: TritonArgs,
    #[command(flatten, next_help_heading = "Tracing, as in Triton")]
    #[serde(flatten)]
    #[expect(missing_docs, reason = "documented where it is declared")]
    pub trace: TraceArgs,
    #[command(flatten)]
    #[serde(skip)]
    #[expect(missing_docs, reason = "documented where it is declared")]
    pub foreign: ForeignArgs,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
    /// As Triton writes them: `I1231 23:59:59.999999 1 file.rs:7] "text"`.
    Default,
    /// The same with the time as ISO 8601 has it.
    Iso8601,
}

impl LogFormat {
    const NAMES: [(&str, Self); 4] =
        [("json", Self::Json), ("text", Self::Text), ("default", Self::Default), ("ISO8601", Self::Iso8601)];

    /// The format of this name, as clients write it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, format)| *format == self).map_or("json", |(name, _)| name)
    }
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

    pub(super) fn over_text(self, text: &str, file: &str) -> Result<Self, SettingsError> {
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
    // What is hidden has no effect, so the file has no key for it.
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown.map(|argument| argument.get_id().as_str().to_owned()).collect()
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
