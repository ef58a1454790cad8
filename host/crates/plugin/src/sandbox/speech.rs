//! What a guest says during one call, within the call's budget of lines and bytes: the `log` interface and what it
//! prints. What is past the budget is dropped and counted; it never stops the guest.

use std::sync::Arc;

use crate::{Call, Dropped, Limits, LogEntry, LogLevel, LogSource, PluginSink};

/// The words of one instance. Lines go out as they end; `end` sends what is unfinished.
pub(crate) struct Speech {
    sink: Arc<dyn PluginSink>,
    call: Option<Arc<Call>>,
    line_bytes_max: usize,
    lines_left: usize,
    bytes_left: usize,
    lines_dropped: u64,
    bytes_dropped: u64,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Speech {
    pub(crate) fn new(sink: Arc<dyn PluginSink>, limits: &Limits) -> Self {
        Self {
            sink,
            call: None,
            line_bytes_max: limits.log_line_bytes_max,
            lines_left: limits.log_lines_max,
            bytes_left: limits.log_bytes_max,
            lines_dropped: 0,
            bytes_dropped: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, call: &Arc<Call>, limits: &Limits) {
        self.call = Some(Arc::clone(call));
        self.lines_left = limits.log_lines_max;
        self.bytes_left = limits.log_bytes_max;
    }

    pub(crate) fn end(&mut self) {
        self.end_line(LogSource::Stdout);
        self.end_line(LogSource::Stderr);
        let is_counted = self.is_counted();
        self.call = None;
        let dropped = [(Dropped::LogLines, &mut self.lines_dropped), (Dropped::LogBytes, &mut self.bytes_dropped)];
        for (what, count) in dropped {
            match std::mem::take(count) {
                count if count > 0 && is_counted => self.sink.dropped(what, count),
                _ => {}
            }
        }
    }

    /// Whether what is said belongs to a client's request; what an instance says while it starts does.
    fn is_counted(&self) -> bool {
        self.call.as_ref().is_none_or(|call| call.is_counted)
    }

    /// One whole line. One that does not fit is cut; one that has no room at all is dropped.
    pub(crate) fn say(&mut self, level: LogLevel, source: LogSource, message: &str) {
        if self.lines_left == 0 || self.bytes_left == 0 {
            self.lines_dropped += 1;
            self.bytes_dropped += message.len() as u64;
            return;
        }
        let room = self.bytes_left.min(self.line_bytes_max);
        let kept = &message[..message.floor_char_boundary(room)];
        self.lines_left -= 1;
        self.bytes_left -= kept.len();
        self.bytes_dropped += (message.len() - kept.len()) as u64;
        let request_id = self.call.as_ref().map_or("", |call| &call.request_id);
        let trace_id = self.call.as_ref().and_then(|call| call.trace_id.as_deref());
        self.sink.log(&LogEntry { level, source, message: kept, request_id, trace_id });
    }

    /// Printed bytes, split into lines.
    pub(crate) fn print(&mut self, source: LogSource, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = self.bytes_left.min(self.line_bytes_max);
            let line = self.line(source);
            let kept = text.len().min(room.saturating_sub(line.len()));
            line.extend_from_slice(&text[..kept]);
            self.bytes_dropped += (text.len() - kept) as u64;
            if text.len() < piece.len() {
                self.end_line(source);
            }
        }
    }

    fn end_line(&mut self, source: LogSource) {
        let line = std::mem::take(self.line(source));
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        let level = if source == LogSource::Stdout { LogLevel::Info } else { LogLevel::Warn };
        self.say(level, source, text);
    }

    fn line(&mut self, source: LogSource) -> &mut Vec<u8> {
        if source == LogSource::Stdout { &mut self.stdout } else { &mut self.stderr }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{MetricKind, Stage, StageTiming};

    #[derive(Default)]
    struct Heard {
        lines: Mutex<Vec<String>>,
        dropped: Mutex<Vec<(Dropped, u64)>>,
    }

    impl PluginSink for Heard {
        fn log(&self, entry: &LogEntry<'_>) {
            self.lines.lock().expect("not poisoned").push(entry.message.to_owned());
        }
        fn metric(&self, _: &str, _: MetricKind, _: f64) {}
        fn dropped(&self, what: Dropped, count: u64) {
            self.dropped.lock().expect("not poisoned").push((what, count));
        }
        fn stage(&self, _: Stage, _: StageTiming) {}
    }

    fn check(lines: usize, bytes: usize, printed: &[&[u8]], heard: &[&str], dropped: &[(Dropped, u64)]) {
        let sink = Arc::new(Heard::default());
        let limits = Limits { log_lines_max: lines, log_bytes_max: bytes, ..Limits::default() };
        let mut speech = Speech::new(Arc::clone(&sink) as Arc<dyn PluginSink>, &limits);
        for bytes in printed {
            speech.print(LogSource::Stderr, bytes);
        }
        speech.end();
        assert_eq!(*sink.lines.lock().expect("not poisoned"), heard);
        assert_eq!(*sink.dropped.lock().expect("not poisoned"), dropped);
    }

    #[test]
    fn printed_bytes_become_lines() {
        check(9, 99, &[b"one\ntw", b"o\n\nthree"], &["one", "two", "three"], &[]);
        check(9, 99, &[b"caf\xc3\xa9 \xff\r\n"], &["café \u{fffd}"], &[]);
    }

    #[test]
    fn what_is_past_the_budget_is_dropped_and_counted() {
        check(1, 99, &[b"one\ntwo\nthree\n"], &["one"], &[(Dropped::LogLines, 2), (Dropped::LogBytes, 8)]);
        check(9, 5, &[b"one\ntwo\nthree\n"], &["one", "tw"], &[(Dropped::LogBytes, 6)]);
        check(9, 4, &[b"0123456789"], &["0123"], &[(Dropped::LogBytes, 6)]);
    }

    #[test]
    fn a_line_over_its_limit_is_cut_and_leaves_room_for_the_next() {
        let sink = Arc::new(Heard::default());
        let limits = Limits { log_line_bytes_max: 4, ..Limits::default() };
        let mut speech = Speech::new(Arc::clone(&sink) as Arc<dyn PluginSink>, &limits);
        speech.print(LogSource::Stderr, b"0123456789\nab");
        speech.say(LogLevel::Info, LogSource::Log, "caf\u{e9}\u{e9}");
        speech.end();
        assert_eq!(*sink.lines.lock().expect("not poisoned"), ["0123", "caf", "ab"]);
        assert_eq!(*sink.dropped.lock().expect("not poisoned"), [(Dropped::LogBytes, 10)]);
    }
}
