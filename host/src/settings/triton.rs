//! Flags of tritonserver that mean the same here, under the same names, so that one manifest starts either server.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

/// Flags that Triton has too, besides those of [`ServeArgs`](super::ServeArgs) itself.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TritonArgs {
    /// Who decides what is loaded: poll, the files, whenever they change; none, the files as they are at the start;
    /// explicit, load and unload requests. A model-level plugin is swapped when its file changes in every mode
    /// [default: poll, sooner where the system reports file events]
    #[arg(long, env = "AIRLOCK_MODEL_CONTROL_MODE", value_name = "MODE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_control_mode: Option<ModelControlMode>,
    /// With --model-control-mode=poll: seconds between two scans of the repositories; outweighs --rescan-ms
    #[arg(long, env = "AIRLOCK_REPOSITORY_POLL_SECS", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_poll_secs: Option<u64>,
    /// With --model-control-mode=explicit: a model to load at the start; may be given several times, * stands for all
    #[arg(long, env = "AIRLOCK_LOAD_MODEL", value_name = "MODEL")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load_model: Vec<String>,
    /// Read configs/NAME.pbtxt of a model's folder in place of its config.pbtxt, where there is one
    #[arg(long, env = "AIRLOCK_MODEL_CONFIG_NAME", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_config_name: Option<String>,
    /// End with an error when a model does not load at the start [default: false]
    #[arg(long, env = "AIRLOCK_EXIT_ON_ERROR", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_on_error: Option<bool>,
    /// Readiness waits for every model of the start, and not only for the first look at them [default: true]
    #[arg(long, env = "AIRLOCK_STRICT_READINESS", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_readiness: Option<bool>,
    /// Take nothing from the model file that a configuration leaves out
    #[arg(long, env = "AIRLOCK_DISABLE_AUTO_COMPLETE_CONFIG", num_args = 0, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_auto_complete_config: Option<bool>,
    /// The old name: true is --disable-auto-complete-config
    #[arg(long, env = "AIRLOCK_STRICT_MODEL_CONFIG", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_model_config: Option<bool>,
    /// How often a version that does not load is tried again before it counts as refused [default: 0]
    #[arg(long, env = "AIRLOCK_MODEL_LOAD_RETRY_COUNT", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_load_retry_count: Option<usize>,
    /// A setting of the engine, as onnxruntime,KEY=VALUE: default-max-batch-size, enable-global-threadpool,
    /// intra_op_thread_count or inter_op_thread_count; may be given several times
    #[arg(long, env = "AIRLOCK_BACKEND_CONFIG", value_name = "BACKEND,KEY=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_config: Vec<String>,
    /// Whether the rate_limiter of instance groups is obeyed: execution_count or off [default: off]
    #[arg(long, env = "AIRLOCK_RATE_LIMIT", value_name = "MODE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitMode>,
    /// How much there is of a resource that instance groups name [default: the most that an instance asks for]
    #[arg(long, env = "AIRLOCK_RATE_LIMIT_RESOURCE", value_name = "NAME:COUNT[:DEVICE]")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_limit_resource: Vec<String>,
    /// Memory for what models answered, as local,size=BYTES; a model whose configuration enables its response_cache is
    /// not run again for the same inputs [default: none]
    #[arg(long, env = "AIRLOCK_CACHE_CONFIG", value_name = "CACHE,KEY=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_config: Vec<String>,
    /// The old name: N is --cache-config=local,size=N
    #[arg(long, env = "AIRLOCK_RESPONSE_CACHE_BYTE_SIZE", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_cache_byte_size: Option<u64>,
    /// Listen on the HTTP port [default: true]
    #[arg(long, env = "AIRLOCK_ALLOW_HTTP", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_http: Option<bool>,
    /// Listen on the metrics port [default: true]
    #[arg(long, env = "AIRLOCK_ALLOW_METRICS", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_metrics: Option<bool>,
    /// Address that the metrics port listens on [default: that of --http-address]
    #[arg(long, env = "AIRLOCK_METRICS_ADDRESS", value_name = "IP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_address: Option<IpAddr>,
    /// Let clients register shared memory and name parts of it in requests; whoever may can read and write what the
    /// server's user may below /dev/shm [default: false]
    #[arg(long, env = "AIRLOCK_ALLOW_CLIENT_SHM", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_client_shm: Option<bool>,
    /// Show how busy the whole system is, in /metrics [default: true]
    #[arg(long, env = "AIRLOCK_ALLOW_CPU_METRICS", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_cpu_metrics: Option<bool>,
    /// How old what /metrics says of the whole system may be, in milliseconds [default: 2000]
    #[arg(long, env = "AIRLOCK_METRICS_INTERVAL_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_interval_ms: Option<f64>,
    /// Which latencies of models /metrics shows: counter_latencies=BOOL, histogram_latencies=BOOL,
    /// summary_latencies=BOOL, and summary_quantiles=QUANTILE:ERROR[,QUANTILE:ERROR]; may be given several times
    /// [default: counters alone]
    #[arg(long, env = "AIRLOCK_METRICS_CONFIG", value_name = "KEY=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics_config: Vec<String>,
    /// The other name of --serving-threads, which outweighs it
    #[arg(long, env = "AIRLOCK_HTTP_THREAD_COUNT", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_thread_count: Option<usize>,
    /// HTTP requests of these kinds must bring this header with this value: health, metadata, inference,
    /// model-repository, model-config, statistics, trace, logging, shared-memory; may be given several times
    #[arg(long, env = "AIRLOCK_HTTP_RESTRICTED_API", value_name = "API[,API]:HEADER=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http_restricted_api: Vec<String>,
    /// Headers whose names match this regular expression become parameters of their inference request, whatever their
    /// case; a part of a name is enough
    #[arg(long, env = "AIRLOCK_HTTP_HEADER_FORWARD_PATTERN", value_name = "REGEX")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_header_forward_pattern: Option<String>,
    /// Name of this server in its metadata [default: airlock]
    #[arg(long, env = "AIRLOCK_ID", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// 1 logs what is for debugging, 2 and more also every detail; --log outweighs this and the next three [default: 0]
    #[arg(long, env = "AIRLOCK_LOG_VERBOSE", value_name = "LEVEL", value_parser = verbosity)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_verbose: Option<u32>,
    /// Log information [default: true]
    #[arg(long, env = "AIRLOCK_LOG_INFO", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_info: Option<bool>,
    /// Log warnings, where information is not logged [default: true]
    #[arg(long, env = "AIRLOCK_LOG_WARNING", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_warning: Option<bool>,
    /// Log errors, where warnings are not logged [default: true]
    #[arg(long, env = "AIRLOCK_LOG_ERROR", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_error: Option<bool>,
    /// File that log lines are added to, in place of standard error
    #[arg(long, env = "AIRLOCK_LOG_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_file: Option<PathBuf>,
}

/// Triton's `--model-control-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ModelControlMode {
    /// The files as they are at the start.
    None,
    /// The files, whenever they change.
    Poll,
    /// Load and unload requests.
    Explicit,
}

/// Triton's `--rate-limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum RateLimitMode {
    /// Resources and priorities of instance groups are obeyed.
    ExecutionCount,
    /// They are not.
    Off,
}

/// A level, or `true` for 1 and `false` for 0, in any case, as Triton reads them.
fn verbosity(text: &str) -> Result<u32, String> {
    switch(text).map(u32::from).or_else(|_| text.parse().map_err(|_| "it must be a level, true or false".to_owned()))
}

/// `true`, `false`, `1` or `0`, in any case, as Triton reads them.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}
