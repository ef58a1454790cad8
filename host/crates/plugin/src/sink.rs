//! Where a plugin's words and numbers go. The host gives one sink per generation; it must be quick and must not block,
//! since it is called on the thread that runs the guest.

use std::time::Duration;

use crate::Stage;

/// Takes what a plugin says. Methods are called on the thread that runs the guest.
pub trait PluginSink: Send + Sync + 'static {
    /// A line of the plugin's log.
    fn log(&self, entry: &LogEntry<'_>);
    /// A value of one of the plugin's declared metrics; always finite, and never negative for a counter.
    fn metric(&self, name: &str, kind: MetricKind, value: f64);
    /// Something past a limit was dropped.
    fn dropped(&self, what: Dropped, count: u64);
    /// A stage ended, whatever its outcome.
    fn stage(&self, stage: Stage, timing: StageTiming);
}

/// One line of a plugin's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// How loud.
    pub level: LogLevel,
    /// Who speaks.
    pub source: LogSource,
    /// The line, without its end.
    pub message: &'a str,
    /// The request that was served; empty while an instance starts.
    pub request_id: &'a str,
    /// The trace that it belongs to, where its client named one.
    pub trace_id: Option<&'a str>,
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the contract's")]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// Where a log line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// The contract's `log` interface.
    Log,
    /// What the guest printed.
    Stdout,
    /// What the guest printed as an error, such as a traceback.
    Stderr,
    /// The host, about the plugin: a crash with its backtrace.
    Host,
}

/// What a metric adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Grows only.
    Counter,
    /// Counts values by size.
    Histogram,
}

/// What was dropped past a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// Whole log or output lines.
    LogLines,
    /// Bytes of lines that were cut or dropped.
    LogBytes,
    /// Metric values with an undeclared name, another kind, a value out of range, or past the per-call limit.
    Metrics,
}

/// How long a stage took, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTiming {
    /// From the call to the start of the guest: waiting for a thread and an instance, and making one.
    pub wait: Duration,
    /// Inside the guest.
    pub run: Duration,
    /// On which threads.
    pub placement: Placement,
}

/// On which threads a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// On the thread that holds the request.
    Inline,
    /// On the plugin runtime.
    Runtime,
    /// On threads of low priority, since calls of this plugin ran out of time lately.
    Background,
}

impl Placement {
    /// The stable name, as in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Runtime => "runtime",
            Self::Background => "background",
        }
    }
}
