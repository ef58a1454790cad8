//! Log lines on standard error or in a file: JSON for machines, text for people, or as Triton writes them. They go through
//! a [`LineQueue`], so logging never holds up a request. What is logged and in which format can be changed while the
//! server runs ([`settings`]).

mod any_format;
pub mod settings;
mod triton;

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::LazyLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;

use crate::line_queue::LineQueue;
use crate::settings::{LogFormat, LogSettings};
use any_format::AnyFormat;
pub(crate) use triton::date;

/// The queue to the writing thread.
static QUEUE: LazyLock<LineQueue> = LazyLock::new(|| LineQueue::start("log", Box::new(io::stderr())));

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
        QUEUE.write_to(file.map_err(|error| LogError::File { path: path.clone(), error })?);
    }
    let format = settings.format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    any_format::choose(format);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Lines).with_ansi(terminal);
    let builder = builder.event_format(AnyFormat::default()).with_filter_reloading();
    let filter = builder.reload_handle();
    // A second start, as tests in one process make, keeps the first.
    if builder.try_init().is_ok() {
        settings::started(settings, Box::new(move |chosen| filter.reload(chosen).is_ok()));
    }
    Ok(())
}

/// Lines that were dropped because the reader of standard error did not keep up, or was gone.
#[must_use]
pub fn lines_dropped() -> u64 {
    QUEUE.dropped()
}

/// Waits until what was logged so far is written, a second at most. Call it before the process ends.
pub fn flush() {
    QUEUE.flush();
}

/// Makes a [`Line`] for each event.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::with_capacity(256))
    }
}

/// One line; sent when it is dropped.
struct Line(Vec<u8>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        QUEUE.send(std::mem::take(&mut self.0));
    }
}
