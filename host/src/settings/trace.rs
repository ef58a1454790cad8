//! `--trace-config` and the flags that came before it: which requests are traced, and where their spans go. Names and
//! defaults are Triton's.

use std::time::Duration;

use clap::Args;
use http::Uri;
use serde::{Deserialize, Serialize};

use super::bounds::Bounds;

/// Where spans go where nobody says. Source: Triton's default, and OTLP's for HTTP.
const DEFAULT_URL: &str = "http://localhost:4318/v1/traces";

/// Flags about tracing.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceArgs {
    /// How requests are traced: mode=opentelemetry, level=TIMESTAMPS, rate=N, count=N, opentelemetry,url=URL,
    /// opentelemetry,resource=KEY=VALUE, opentelemetry,bsp_max_queue_size=N, opentelemetry,bsp_schedule_delay=MS or
    /// opentelemetry,bsp_max_export_batch_size=N; may be given several times [default: nothing is traced]
    #[arg(long, env = "AIRLOCK_TRACE_CONFIG", value_name = "[MODE,]KEY=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace_config: Vec<String>,
    /// The old name of --trace-config level=LEVEL
    #[arg(long, env = "AIRLOCK_TRACE_LEVEL", value_name = "LEVEL")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace_level: Vec<String>,
    /// The old name of --trace-config rate=N
    #[arg(long, env = "AIRLOCK_TRACE_RATE", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_rate: Option<String>,
    /// The old name of --trace-config count=N
    #[arg(long, env = "AIRLOCK_TRACE_COUNT", value_name = "N", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_count: Option<String>,
    /// The old name of --trace-config triton,log-frequency=N
    #[arg(long, env = "AIRLOCK_TRACE_LOG_FREQUENCY", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_log_frequency: Option<String>,
}

/// Who takes the traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    /// Triton's own files, which this server does not write: nothing is traced.
    Triton,
    /// A collector of OpenTelemetry.
    OpenTelemetry,
}

impl TraceMode {
    /// Triton's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Triton => "triton",
            Self::OpenTelemetry => "opentelemetry",
        }
    }
}

/// What is traced of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceLevels {
    /// When its stages began and ended.
    pub timestamps: bool,
    /// Its tensors. Taken and told, and nothing else: spans carry no data of clients.
    pub tensors: bool,
}

impl TraceLevels {
    /// The levels of these names; others mean nothing, as in Triton.
    ///
    /// # Errors
    /// Triton's text where OFF is not alone.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, String> {
        let names: Vec<_> = names.into_iter().collect();
        if names.contains(&"OFF") && names.len() > 1 {
            return Err("Expect only one trace level 'OFF' is specified".to_owned());
        }
        Ok(Self { timestamps: names.contains(&"TIMESTAMPS"), tensors: names.contains(&"TENSORS") })
    }

    /// Their names.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let names = [(self.timestamps, "TIMESTAMPS"), (self.tensors, "TENSORS")];
        let on: Vec<_> = names.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name).collect();
        if on.is_empty() { vec!["OFF"] } else { on }
    }
}

/// Which requests are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceValues {
    /// What is traced.
    pub levels: TraceLevels,
    /// One request in so many, of those that bring no trace context; 0 traces none of them.
    pub rate: u32,
    /// Requests traced at most; -1 is without end.
    pub count: i32,
    /// Of Triton's files; told and nothing else.
    pub log_frequency: u32,
}

impl Default for TraceValues {
    fn default() -> Self {
        Self { levels: TraceLevels::default(), rate: 1_000, count: -1, log_frequency: 0 }
    }
}

/// How spans are gathered before they are sent. The names are those of OpenTelemetry's batch span processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Requests waiting to be sent; more are dropped and counted.
    pub queue_max: usize,
    /// The longest that one waits for others.
    pub delay: Duration,
    /// Requests sent at once.
    pub export_max: usize,
}

/// Checked settings of tracing.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// Who takes the traces.
    pub mode: TraceMode,
    /// Which requests are traced where a model has no settings of its own.
    pub values: TraceValues,
    /// Triton's trace file; told and nothing else.
    pub file: String,
    /// Where spans are posted.
    pub url: Uri,
    /// What is said of this process beside its name.
    pub resource: Vec<(String, String)>,
    /// How spans are gathered.
    pub batch: BatchLimits,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Draft::default().finish(&mut Bounds::default(), &mut Vec::new())
    }
}

impl TraceSettings {
    pub(super) fn of(args: &TraceArgs, bounds: &mut Bounds, problems: &mut Vec<String>) -> Self {
        let mut draft = Draft::default();
        let old = [
            ("rate", &args.trace_rate),
            ("count", &args.trace_count),
            ("triton,log-frequency", &args.trace_log_frequency),
        ];
        let old = old.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref()?)));
        let levels = args.trace_level.iter().map(|level| format!("level={level}"));
        for text in old.chain(levels).chain(args.trace_config.iter().cloned()) {
            if let Err(problem) = draft.take(&text) {
                problems.push(format!("trace_config {text}: {problem}"));
            }
        }
        draft.finish(bounds, problems)
    }
}

/// What has been said so far.
#[derive(Default)]
struct Draft {
    mode: Option<TraceMode>,
    values: TraceValues,
    levels: Vec<String>,
    file: String,
    url: Option<String>,
    resource: Vec<(String, String)>,
    queue_size: Option<usize>,
    delay_ms: Option<u64>,
    batch_size: Option<usize>,
}

impl Draft {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let shape = || "it must be [MODE,]KEY=VALUE".to_owned();
        let (key, value) =
            text.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty()).ok_or_else(shape)?;
        match key {
            "mode" => self.mode = Some(mode(value)?),
            "level" => self.levels.push(value.to_owned()),
            "rate" => self.values.rate = number(value)?,
            "count" => self.values.count = count(value)?,
            "log-frequency" | "triton,log-frequency" => self.values.log_frequency = number(value)?,
            "file" | "triton,file" => value.clone_into(&mut self.file),
            "opentelemetry,url" => self.url = Some(value.to_owned()),
            "opentelemetry,resource" => {
                let (key, value) = value.split_once('=').ok_or("a resource must be KEY=VALUE")?;
                self.resource.push((key.to_owned(), value.to_owned()));
            }
            "opentelemetry,bsp_max_queue_size" => self.queue_size = Some(number(value)?),
            "opentelemetry,bsp_schedule_delay" => self.delay_ms = Some(number(value)?),
            "opentelemetry,bsp_max_export_batch_size" => self.batch_size = Some(number(value)?),
            _ => {
                return Err(
                    "known are mode, level, rate, count, triton,file, triton,log-frequency and of opentelemetry: \
                             url, resource, bsp_max_queue_size, bsp_schedule_delay, bsp_max_export_batch_size"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    fn finish(self, bounds: &mut Bounds, problems: &mut Vec<String>) -> TraceSettings {
        let mode = self.mode.unwrap_or(TraceMode::Triton);
        // Whoever names a collector wants traces.
        let unsaid = TraceLevels { timestamps: mode == TraceMode::OpenTelemetry, tensors: false };
        let named = TraceLevels::named(self.levels.iter().map(String::as_str));
        let named = named.unwrap_or_else(|problem| {
            problems.push(format!("trace_config level: {problem}"));
            unsaid
        });
        let levels = if self.levels.is_empty() { unsaid } else { named };
        let url = read_url(self.url.as_deref().unwrap_or(DEFAULT_URL)).unwrap_or_else(|problem| {
            problems.push(format!("trace_config opentelemetry,url: {problem}"));
            Uri::from_static(DEFAULT_URL)
        });
        let batch_max = bounds.within("trace_config bsp_max_export_batch_size", self.batch_size, 512, (1, 65_536));
        TraceSettings {
            mode,
            values: TraceValues { levels, ..self.values },
            file: self.file,
            url,
            resource: self.resource,
            batch: BatchLimits {
                queue_max: bounds.within("trace_config bsp_max_queue_size", self.queue_size, 2_048, (1, 1 << 20)),
                delay: bounds.millis("trace_config bsp_schedule_delay", self.delay_ms, 5_000, (1, 600_000)),
                export_max: batch_max,
            },
        }
    }
}

fn mode(value: &str) -> Result<TraceMode, String> {
    let known = [TraceMode::Triton, TraceMode::OpenTelemetry].into_iter().find(|mode| mode.name() == value);
    known.ok_or_else(|| "it must be triton or opentelemetry".to_owned())
}

fn number<N: std::str::FromStr>(value: &str) -> Result<N, String> {
    value.parse().map_err(|_| "it must be a whole number from 0 up".to_owned())
}

fn count(value: &str) -> Result<i32, String> {
    let count = value.parse().ok().filter(|count| *count >= -1);
    count.ok_or_else(|| "it must be a whole number from -1 up; -1 is without end".to_owned())
}

/// Reads where spans are posted; a scheme may be left out, as in Triton.
fn read_url(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Uri = whole.parse().map_err(|error| format!("{text} is no URL: {error}"))?;
    match url.scheme_str() {
        Some("http") if url.host().is_some() => Ok(url),
        Some("https") => Err(format!("{text}: spans are not sent over TLS; name a collector on this machine")),
        _ => Err(format!("{text} must be http://HOST:PORT/PATH")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[&str]) -> Result<TraceSettings, Vec<String>> {
        let (mut bounds, mut problems) = (Bounds::default(), Vec::new());
        let args =
            TraceArgs { trace_config: given.iter().map(|&text| text.to_owned()).collect(), ..TraceArgs::default() };
        let settings = TraceSettings::of(&args, &mut bounds, &mut problems);
        problems.extend(bounds.problems.iter().map(ToString::to_string));
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }

    #[test]
    fn nothing_is_traced_unless_asked_for() {
        let settings = read(&[]).expect("valid");
        assert_eq!((settings.mode, settings.values), (TraceMode::Triton, TraceValues::default()));
        let settings = read(&["rate=7", "count=-1", "triton,file=/tmp/t"]).expect("valid");
        assert_eq!((settings.values.rate, settings.values.levels.names()), (7, vec!["OFF"]));
    }

    #[test]
    fn a_collector_with_all_that_can_be_said_of_it() {
        let settings = read(&[
            "mode=opentelemetry",
            "rate=1",
            "opentelemetry,url=collector:4318/v1/traces",
            "opentelemetry,resource=service.name=gate=way",
            "opentelemetry,bsp_max_queue_size=9",
            "opentelemetry,bsp_schedule_delay=20",
            "opentelemetry,bsp_max_export_batch_size=3",
        ]);
        let settings = settings.expect("valid");
        assert_eq!(settings.values.levels.names(), ["TIMESTAMPS"]);
        assert_eq!(settings.url.to_string(), "http://collector:4318/v1/traces");
        assert_eq!(settings.resource, [("service.name".to_owned(), "gate=way".to_owned())]);
        let batch = BatchLimits { queue_max: 9, delay: Duration::from_millis(20), export_max: 3 };
        assert_eq!(settings.batch, batch);
        let off = read(&["mode=opentelemetry", "level=OFF"]).expect("valid");
        assert_eq!(off.values.levels, TraceLevels::default());
    }

    #[test]
    fn every_problem_is_told() {
        for (given, expected) in [
            ("triton", "it must be [MODE,]KEY=VALUE"),
            ("rate=x", "it must be a whole number from 0 up"),
            ("count=-2", "it must be a whole number from -1 up"),
            ("mode=zipkin", "it must be triton or opentelemetry"),
            ("opentelemetry,url=https://collector", "spans are not sent over TLS"),
            ("opentelemetry,url=ftp://collector", "must be http://HOST:PORT/PATH"),
            ("opentelemetry,resource=x", "a resource must be KEY=VALUE"),
            ("opentelemetry,bsp_max_queue_size=0", "it must be from 1 to 1048576"),
            ("opentelemetry,colour=x", "known are mode, level"),
        ] {
            let problems = read(&[given]).expect_err(given);
            assert!(problems.len() == 1 && problems[0].contains(expected), "{given}: {problems:?}");
        }
        assert!(read(&["level=OFF", "level=TIMESTAMPS"]).is_err());
    }
}
