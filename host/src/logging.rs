//! Log lines on standard error: JSON for machines, text for people.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::settings::LogFormat;

/// Starts logging for the process. `format` decides by terminal where it is not given.
///
/// # Errors
/// When `filter` is not a filter.
pub fn start(filter: &str, format: Option<LogFormat>) -> Result<(), ParseError> {
    let filter: EnvFilter = EnvFilter::builder().parse(filter)?;
    let terminal = std::io::stderr().is_terminal();
    let format = format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start, as tests in one process make, keeps the first.
    let _ = match format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
        LogFormat::Text => builder.with_ansi(terminal).with_target(false).try_init(),
    };
    Ok(())
}
