//! The server's log: JSON lines from its standard error, kept in memory and searched by text. A line is searched as
//! `field=value` pairs, so `part=plugin` or a piece of a reason find it.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::wait::{PATIENCE, eventually};

/// Every line so far, as text to search.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

/// A place in the log: what comes after it can be told from what was there before.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Log {
    /// Reads `stream` to its end on a thread of its own.
    pub(crate) fn follow(stream: impl Read + Send + 'static) -> (Self, JoinHandle<()>) {
        let log = Self::default();
        let lines = Arc::clone(&log.0);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                let line = searchable(&String::from_utf8_lossy(&line));
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        (log, reader)
    }

    /// The present end of the log.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.lines().len())
    }

    /// The place before the first line.
    #[must_use]
    pub fn mark_of_start(&self) -> Mark {
        Mark(0)
    }

    /// The lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first line after `mark` that has every one of `parts`.
    #[must_use]
    pub fn find(&self, mark: Mark, parts: &[&str]) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines[mark.0..].iter().find(|line| parts.iter().all(|part| line.contains(part))).cloned()
    }

    /// How many lines after `mark` have every one of `parts`.
    #[must_use]
    pub fn count(&self, mark: Mark, parts: &[&str]) -> usize {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines[mark.0..].iter().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }

    /// Waits for a line after `mark` that has every one of `parts`.
    ///
    /// # Errors
    /// When none comes; the text shows the end of the log.
    pub async fn wait_for(&self, mark: Mark, parts: &[&str]) -> Result<String> {
        let what = format!("a log line with {parts:?}");
        let found = eventually(&what, PATIENCE, async || self.find(mark, parts)).await;
        found.with_context(|| format!("the log since then:\n{}", self.tail(mark)))
    }

    /// The last lines after `mark`.
    #[must_use]
    pub fn tail(&self, mark: Mark) -> String {
        const SHOWN: usize = 30;
        let lines = self.lines();
        let since = &lines[mark.0.min(lines.len())..];
        since[since.len().saturating_sub(SHOWN)..].join("\n")
    }
}

/// A JSON line as `field=value` pairs; any other line as it is.
fn searchable(line: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return line.to_owned() };
    let pairs = fields.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    pairs.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_searched_by_fields() {
        let (log, reader) =
            Log::follow(&b"{\"message\":\"refused\",\"generation\":3,\"reason\":\"a \\\"b\\\"\"}\nplain\n"[..]);
        reader.join().expect("ends with its stream");
        assert_eq!(log.lines().len(), 2);
        let start = Mark(0);
        assert!(log.find(start, &["message=refused", "generation=3", "reason=a \"b\""]).is_some());
        assert!(log.find(start, &["message=refused", "generation=4"]).is_none());
        assert_eq!(log.count(start, &["plain"]), 1);
        assert!(log.find(log.mark(), &["plain"]).is_none(), "a mark leaves out what was there before");
    }
}
