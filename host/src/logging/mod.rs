//! Log lines on standard error or in a file: JSON for machines, text for people, or as Triton writes them. Lines are handed to a thread of their own through a
//! bounded queue, so that a reader that stalls or is gone costs lines and never a request: what does not fit is dropped
//! and counted.

mod triton;

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;

use crate::settings::{LogFormat, LogSettings};
use triton::{TimeStyle, TritonFormat};

/// Lines waiting to be written.
pub const LINES_WAITING_MAX: usize = 8_192;

/// How long the end of the process waits for lines to be written.
const FLUSH_TIME: Duration = Duration::from_secs(1);

static LINES_DROPPED: AtomicU64 = AtomicU64::new(0);

/// The queue to the writing thread.
static QUEUE: LazyLock<Mutex<Option<SyncSender<Message>>>> = LazyLock::new(|| Mutex::new(start_writer()));

enum Message {
    Line(Vec<u8>),
    /// Write to this file from now on.
    To(File),
    /// Answer once everything before has been written.
    Flush(SyncSender<()>),
}

/// Why logging does not start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is none.
    #[error("{0}; a filter is a list such as info or airlock=debug,warn")]
    Filter(#[from] ParseError),
    /// The file cannot be written.
    #[error("opening the log file {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Starts logging for the process. The terminal decides the format where none is given.
///
/// # Errors
/// A [`LogError`].
pub fn start(settings: &LogSettings) -> Result<(), LogError> {
    let filter: EnvFilter = EnvFilter::builder().parse(&settings.filter)?;
    let terminal = settings.file.is_none() && io::stderr().is_terminal();
    if let Some(path) = &settings.file {
        let file = File::options().append(true).create(true).open(path);
        let file = file.map_err(|error| LogError::File { path: path.clone(), error })?;
        if let Some(queue) = queue() {
            // Nothing has been logged yet, so there is room.
            let _ = queue.try_send(Message::To(file));
        }
    }
    let format = settings.format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Lines);
    // A second start, as tests in one process make, keeps the first.
    let _ = match format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
        LogFormat::Text => builder.with_ansi(terminal).with_target(false).try_init(),
        LogFormat::Default => builder.event_format(TritonFormat(TimeStyle::MonthAndDay)).try_init(),
        LogFormat::Iso8601 => builder.event_format(TritonFormat(TimeStyle::Iso8601)).try_init(),
    };
    Ok(())
}

/// Lines that were dropped because the reader of standard error did not keep up, or was gone.
#[must_use]
pub fn lines_dropped() -> u64 {
    LINES_DROPPED.load(Ordering::Relaxed)
}

/// Waits until what was logged so far is written, a second at most. Call it before the process ends.
pub fn flush() {
    let Some(queue) = queue() else { return };
    let (done, written) = sync_channel(1);
    if queue.try_send(Message::Flush(done)).is_ok() {
        // Out of time, or the thread is gone: the lines are lost, and nobody is left to tell.
        let _ = written.recv_timeout(FLUSH_TIME);
    }
}

fn queue() -> Option<SyncSender<Message>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// `None` where the system refuses a thread: lines are dropped then.
fn start_writer() -> Option<SyncSender<Message>> {
    let (sender, receiver) = sync_channel(LINES_WAITING_MAX);
    let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || write_lines(&receiver));
    thread.is_ok().then_some(sender)
}

fn write_lines(receiver: &Receiver<Message>) {
    let mut file: Option<File> = None;
    for message in receiver {
        match message {
            Message::Line(line) => {
                let written = match &mut file {
                    Some(file) => file.write_all(&line),
                    None => io::stderr().write_all(&line),
                };
                if written.is_err() {
                    LINES_DROPPED.fetch_add(1, Ordering::Relaxed);
                }
            }
            Message::To(to) => file = Some(to),
            // Whoever waited has given up otherwise.
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Makes a [`Line`] for each event.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { queue: queue(), text: Vec::with_capacity(256) }
    }
}

/// One line; sent when it is dropped.
struct Line {
    queue: Option<SyncSender<Message>>,
    text: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let line = Message::Line(std::mem::take(&mut self.text));
        let sent = match &self.queue {
            Some(queue) => queue.try_send(line),
            None => Err(TrySendError::Disconnected(line)),
        };
        if sent.is_err() {
            LINES_DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}
