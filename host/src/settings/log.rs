//! What is logged, of the server and of its requests, how and where to.

use std::path::PathBuf;

use super::{LogFormat, ServeArgs, TritonArgs};

/// What the server logs, how and where to.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Log format; `None` chooses by terminal.
    pub format: Option<LogFormat>,
    /// Log filter.
    pub filter: String,
    /// What Triton's flags say of the levels; the filter follows from it, unless one is given.
    pub levels: LogLevels,
    /// Where to; standard error where there is none.
    pub file: Option<PathBuf>,
}

/// Which levels are logged, as Triton has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the levels'")]
pub struct LogLevels {
    pub info: bool,
    pub warning: bool,
    pub error: bool,
    /// 1 is what is for debugging, 2 and more every detail; above 0 it outweighs the others.
    pub verbose: u32,
}

impl Default for LogLevels {
    fn default() -> Self {
        Self { info: true, warning: true, error: true, verbose: 0 }
    }
}

impl LogLevels {
    fn of(triton: &TritonArgs) -> Self {
        let on = |flag: Option<bool>| flag.unwrap_or(true);
        Self {
            info: on(triton.log_info),
            warning: on(triton.log_warning),
            error: on(triton.log_error),
            verbose: triton.log_verbose.unwrap_or(0),
        }
    }

    /// The filter that logs them.
    #[must_use]
    pub fn filter(self) -> &'static str {
        match self.verbose {
            0 if self.info => "info",
            0 if self.warning => "warn",
            0 if self.error => "error",
            0 => "off",
            1 => "debug",
            _ => "trace",
        }
    }
}

impl LogSettings {
    pub(super) fn of(args: &ServeArgs) -> Self {
        let levels = LogLevels::of(&args.triton);
        Self {
            format: args.log_format,
            filter: args.log.clone().unwrap_or_else(|| levels.filter().to_owned()),
            levels,
            file: args.triton.log_file.clone(),
        }
    }
}

/// Where the lines about requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Nowhere.
    Off,
    /// To standard output.
    StandardOutput,
    /// To the end of a file.
    File(PathBuf),
}

impl AccessLogTarget {
    pub(super) fn of(args: &ServeArgs) -> Self {
        match args.access_log.as_deref() {
            None | Some("off" | "") => Self::Off,
            Some("-") => Self::StandardOutput,
            Some(path) => Self::File(PathBuf::from(path)),
        }
    }
}
