//! Reads `plugin.toml`: what a plugin is, what it may use and what it asks for. What it is granted is the operator's
//! decision, taken elsewhere; everything here is only a request, within named bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use model::ModelName;

use super::problem::{Problem, Report};
use super::toml_reader::{Table, read_document};

mod declared;

/// Most bytes of a `plugin.toml`.
pub const PLUGIN_TOML_BYTES_MAX: usize = 1 << 20;
/// Most names in one list of grants, and most metrics.
pub const NAMES_MAX: usize = 64;
/// Most keys of `[config]`.
pub const CONFIG_KEYS_MAX: usize = 1024;

/// A plugin's description of itself. The default is what a plugin without `plugin.toml` gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginManifest {
    /// Its world.
    pub kind: PluginKind,
    /// Where its calls run.
    pub execution: StageExecution,
    /// Whether an instance serves more than one request.
    pub reuse: Reuse,
    /// Bounds of one call.
    pub limits: PluginLimits,
    /// Capabilities it asks for.
    pub grants: RequestedGrants,
    /// Metrics it may write.
    pub metrics: DeclaredMetrics,
    /// What `config.get` gives it: strings as they are, other values as JSON text.
    pub config: BTreeMap<String, String>,
}

/// A plugin's world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PluginKind {
    /// Pre- and postprocessing around one model.
    #[default]
    Adapter,
    /// Calls models itself.
    Pipeline,
}

/// Where a plugin's calls run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageExecution {
    /// Inline while measured calls are short, on the plugin runtime otherwise.
    #[default]
    Auto,
    /// On the thread that holds the request.
    Inline,
    /// On the plugin runtime's threads.
    Runtime,
}

/// Whether a sandbox instance serves more than one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// It is kept and used again.
    #[default]
    Warm,
    /// Every request gets a new one.
    Fresh,
}

/// Bounds of one call into a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Linear memory of one instance, in MiB.
    pub memory_mb: u32,
    /// Time of one call, in milliseconds.
    pub time_ms: u32,
    /// What one call may return, in MiB.
    pub output_mb: u32,
    /// Log lines of one call.
    pub log_lines: u32,
    /// Bytes of one log line.
    pub log_line_bytes: u32,
    /// What `preprocess` may have carried to `postprocess`, in KiB.
    pub carry_kb: u32,
    /// Headers of an answer.
    pub headers: u32,
    /// Bytes of the names and values of an answer's headers.
    pub header_bytes: u32,
}

impl PluginLimits {
    /// Linear memory of one instance, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_mb) << 20
    }

    /// Time of one call.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms.into())
    }

    /// What one call may return, in bytes.
    #[must_use]
    pub fn output_bytes(&self) -> u64 {
        u64::from(self.output_mb) << 20
    }
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            memory_mb: 256,
            time_ms: 1000,
            output_mb: 16,
            log_lines: 100,
            log_line_bytes: 4096,
            carry_kb: 1024,
            headers: 32,
            header_bytes: 8192,
        }
    }
}

/// Capabilities a plugin asks for; nothing is granted by asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedGrants {
    /// Request headers it wants to see, in lower case.
    pub headers: BTreeSet<String>,
    /// Key-value stores.
    pub key_value: BTreeSet<String>,
    /// Models a pipeline calls.
    pub models: BTreeSet<ModelName>,
    /// A clock that advances.
    pub clock: bool,
    /// Random numbers that differ.
    pub random: bool,
}

impl RequestedGrants {
    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for RequestedGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            [("headers", self.headers.len()), ("key_value", self.key_value.len()), ("models", self.models.len())];
        let named = named.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name);
        let flags = [("clock", self.clock), ("random", self.random)];
        let flags = flags.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name);
        f.write_str(&named.chain(flags).collect::<Vec<_>>().join(", "))
    }
}

/// Metrics a plugin may write; others are dropped and counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredMetrics {
    /// Counters.
    pub counters: BTreeSet<String>,
    /// Histograms with their bucket bounds, ascending; none given means the host's default ones.
    pub histograms: BTreeMap<String, Vec<f64>>,
}

/// Reads the text of `file`.
///
/// # Errors
/// Every problem, in the order of the text.
pub fn parse_plugin_toml(file: &Path, text: &str) -> Result<PluginManifest, Vec<Problem>> {
    if text.len() > PLUGIN_TOML_BYTES_MAX {
        let message = format!("the file has {} bytes; it may have at most {PLUGIN_TOML_BYTES_MAX}", text.len());
        return Err(vec![Problem::of_file(file, message)]);
    }
    let mut report = Report::new(file, text);
    let manifest = read_document(text, &mut report, manifest);
    report.finish(manifest).map(|(manifest, _)| manifest)
}

fn manifest(root: &Table<'_>, report: &mut Report<'_>) -> PluginManifest {
    root.check_keys(&["kind", "execution", "reuse", "limits", "grants", "metrics", "config"], report);
    let kinds = [("adapter", PluginKind::Adapter), ("pipeline", PluginKind::Pipeline)];
    let executions =
        [("auto", StageExecution::Auto), ("inline", StageExecution::Inline), ("runtime", StageExecution::Runtime)];
    let reuses = [("warm", Reuse::Warm), ("fresh", Reuse::Fresh)];
    let kind = root.choice("kind", &kinds, report).unwrap_or_default();
    PluginManifest {
        kind,
        execution: root.choice("execution", &executions, report).unwrap_or_default(),
        reuse: root.choice("reuse", &reuses, report).unwrap_or_default(),
        limits: root.table("limits", report).map_or_else(PluginLimits::default, |table| limits(&table, report)),
        grants: root
            .table("grants", report)
            .map_or_else(RequestedGrants::default, |table| grants(&table, kind, report)),
        metrics: root.table("metrics", report).map(|table| declared::metrics(&table, report)).unwrap_or_default(),
        config: root.table("config", report).map(|table| declared::config(&table, report)).unwrap_or_default(),
    }
}

fn limits(table: &Table<'_>, report: &mut Report<'_>) -> PluginLimits {
    const KEYS: [&str; 8] =
        ["memory_mb", "time_ms", "output_mb", "log_lines", "log_line_bytes", "carry_kb", "headers", "header_bytes"];
    table.check_keys(&KEYS, report);
    let default = PluginLimits::default();
    PluginLimits {
        memory_mb: table.whole("memory_mb", 1..=4096, report).unwrap_or(default.memory_mb),
        time_ms: table.whole("time_ms", 1..=600_000, report).unwrap_or(default.time_ms),
        output_mb: table.whole("output_mb", 1..=1024, report).unwrap_or(default.output_mb),
        log_lines: table.whole("log_lines", 0..=10_000, report).unwrap_or(default.log_lines),
        log_line_bytes: table.whole("log_line_bytes", 64..=65_536, report).unwrap_or(default.log_line_bytes),
        carry_kb: table.whole("carry_kb", 0..=65_536, report).unwrap_or(default.carry_kb),
        headers: table.whole("headers", 0..=256, report).unwrap_or(default.headers),
        header_bytes: table.whole("header_bytes", 256..=65_536, report).unwrap_or(default.header_bytes),
    }
}

fn grants(table: &Table<'_>, kind: PluginKind, report: &mut Report<'_>) -> RequestedGrants {
    table.check_keys(&["headers", "key_value", "models", "clock", "random"], report);
    let header = |name: &str| declared::header(name);
    let store = |name: &str| declared::identifier(name);
    let model = |name: &str| ModelName::new(name).map_err(|error| error.to_string());
    let grants = RequestedGrants {
        headers: names(table, "headers", header, report),
        key_value: names(table, "key_value", store, report),
        models: names(table, "models", model, report),
        clock: table.flag("clock", report).unwrap_or_default(),
        random: table.flag("random", report).unwrap_or_default(),
    };
    if kind == PluginKind::Adapter && !grants.models.is_empty() {
        let message = "an adapter cannot call models: its world does not import them";
        report.error(table.at("models"), table.path("models"), message, "write kind = \"pipeline\"".to_owned());
    }
    grants
}

/// The checked names of an array, at most [`NAMES_MAX`] and each once.
fn names<T: Ord>(
    table: &Table<'_>,
    key: &str,
    check: impl Fn(&str) -> Result<T, String>,
    report: &mut Report<'_>,
) -> BTreeSet<T> {
    let mut names = BTreeSet::new();
    let given = table.texts(key, report);
    if given.len() > NAMES_MAX {
        let message = format!("has {} names; it may have at most {NAMES_MAX}", given.len());
        report.error(table.at(key), table.path(key), message, None);
        return names;
    }
    for (at, name) in given {
        match check(name) {
            Ok(checked) => {
                if !names.insert(checked) {
                    report.error(at, table.path(key), format!("'{name}' is named twice"), None);
                }
            }
            Err(message) => report.error(at, table.path(key), format!("'{name}': {message}"), None),
        }
    }
    names
}

#[cfg(test)]
mod tests;
