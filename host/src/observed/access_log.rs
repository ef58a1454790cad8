//! The access log: a line of JSON for each answered request of predict or infer. Lines go through a [`LineQueue`], so a
//! reader that stalls costs lines and never a request.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::{Observation, Sealed};
use crate::line_queue::LineQueue;
use crate::logging::date;
use crate::metrics::Surface;
use crate::registry::Release;
use crate::settings::AccessLogTarget;

/// The access log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("opening the access log {}: {error}; choose another with --access-log FILE", path.display())]
pub struct AccessLogError {
    /// The file.
    path: PathBuf,
    /// Why.
    error: io::Error,
}

/// Where lines go.
pub(super) struct AccessLog(LineQueue);

/// One line. What is not known is left out.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    surface: &'static str,
    route: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    outcome: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_out: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preprocess_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    postprocess_us: Option<u64>,
    total_us: u64,
}

impl AccessLog {
    /// Opens it; `None` where it is off.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn open(target: &AccessLogTarget) -> Result<Option<Self>, AccessLogError> {
        let sink: Box<dyn io::Write + Send> = match target {
            AccessLogTarget::Off => return Ok(None),
            AccessLogTarget::StandardOutput => Box::new(io::stdout()),
            AccessLogTarget::File(path) => {
                let file = File::options().append(true).create(true).open(path);
                Box::new(file.map_err(|error| AccessLogError { path: path.clone(), error })?)
            }
        };
        Ok(Some(Self(LineQueue::start("access-log", sink))))
    }

    pub(super) fn write(&self, seen: &Observation, sealed: Option<Sealed>) {
        let mut line = serde_json::to_vec(&line(seen, sealed)).expect("numbers and strings always serialize");
        line.push(b'\n');
        self.0.send(line);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    pub(super) fn flush(&self) {
        self.0.flush();
    }
}

fn line(seen: &Observation, sealed: Option<Sealed>) -> Line<'_> {
    let release = seen.release.as_deref();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let [preprocess, queue, compute, postprocess] = seen.stages().map(|stage| stage.map(|stage| micros(stage.time)));
    Line {
        time: rfc3339(seen.began),
        surface: match seen.surface {
            Surface::Http => "http",
            Surface::Grpc => "grpc",
        },
        route: &seen.route,
        status: sealed.map(|sealed| sealed.status),
        outcome: seen.outcome(),
        request_id: &seen.request_id,
        trace_id: seen.trace.as_ref().map(|trace| trace.trace.to_string()),
        model: release.map(|release| release.version.model.as_str()),
        version: release.map(|release| release.version.number.get()),
        generation: release.and_then(Release::generation).map(|generation| generation.number),
        bytes_in: seen.bytes_in,
        bytes_out: seen.bytes_out,
        rows: seen.rows.map(|rows| rows.own),
        batch_rows: seen.rows.map(|rows| rows.batch),
        preprocess_us: preprocess,
        queue_us: queue,
        compute_us: compute,
        postprocess_us: postprocess,
        total_us: micros(seen.started.elapsed()),
    }
}

/// A time in UTC to the microsecond. Source: RFC 3339, 5.6.
fn rfc3339(time: SystemTime) -> String {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (since_epoch.as_secs(), since_epoch.subsec_micros());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_microsecond() {
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_709_210_096, 7_000);
        assert_eq!(rfc3339(time), "2024-02-29T12:34:56.000007Z");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let target = AccessLogTarget::File(PathBuf::from("/nonexistent/access.log"));
        let text = AccessLog::open(&target).err().expect("refused").to_string();
        assert!(text.starts_with("opening the access log /nonexistent/access.log: "), "{text}");
    }
}
