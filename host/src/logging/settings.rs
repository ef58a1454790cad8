//! What is logged and in which format, as clients read and change it over HTTP and gRPC. A change is checked as a whole
//! before any of it holds. Texts are Triton's where it has one.

use std::sync::{Mutex, OnceLock, PoisonError};

use model::ErrorCode;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use super::any_format;
use crate::failure::{RequestFailure, clipped};
use crate::settings::{LogFormat, LogLevels, LogSettings};

/// Changes the filter of the running log. Says whether it did.
type Refilter = Box<dyn Fn(EnvFilter) -> bool + Send + Sync>;

static RUNNING: OnceLock<Running> = OnceLock::new();

/// The log that has been started.
struct Running {
    file: String,
    levels: Mutex<LogLevels>,
    refilter: Refilter,
}

/// A value that a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogValue {
    /// A truth value.
    Bool(bool),
    /// A whole number from 0 up.
    Unsigned(u32),
    /// A text.
    Text(String),
    /// Nothing that any setting takes.
    Other,
}

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogValueKind {
    /// A truth value.
    Bool,
    /// A whole number from 0 up.
    Unsigned,
    /// A text.
    Text,
}

/// The settings as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogView {
    /// Where lines go; empty for standard error.
    pub log_file: String,
    /// Whether information is logged.
    pub log_info: bool,
    /// Whether warnings are.
    pub log_warning: bool,
    /// Whether errors are.
    pub log_error: bool,
    /// How much of what is for debugging.
    pub log_verbose_level: u32,
    /// How lines look.
    pub log_format: &'static str,
}

/// Remembers what the log was started with.
pub(super) fn started(settings: &LogSettings, refilter: Refilter) {
    let file = settings.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
    // Called once: whoever starts the log has just won its place.
    let _ = RUNNING.set(Running { file, levels: Mutex::new(settings.levels), refilter });
}

/// The settings as they are now.
#[must_use]
pub fn read() -> LogView {
    let (file, levels) = match RUNNING.get() {
        Some(running) => (running.file.clone(), *running.levels.lock().unwrap_or_else(PoisonError::into_inner)),
        None => (String::new(), LogLevels::default()),
    };
    LogView {
        log_file: file,
        log_info: levels.info,
        log_warning: levels.warning,
        log_error: levels.error,
        log_verbose_level: levels.verbose,
        log_format: any_format::chosen().name(),
    }
}

/// Changes settings; those that are not named stay. `wrong_type` says what a key takes, in the words of the surface.
///
/// # Errors
/// A [`RequestFailure`] for an unknown key, a value of another type or an unknown format, and for the file, which cannot be
/// changed.
pub fn update(
    changes: &[(String, LogValue)],
    wrong_type: fn(&str, LogValueKind) -> String,
) -> Result<(), RequestFailure> {
    if changes.is_empty() {
        return Ok(());
    }
    let Some(running) = RUNNING.get() else {
        return Err(RequestFailure::new(ErrorCode::NotSupported, "this process does not log"));
    };
    let mut levels = running.levels.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut wanted, mut format) = (*levels, None);
    for (key, value) in changes {
        change(&mut wanted, &mut format, (key, value), wrong_type)?;
    }
    if wanted != *levels {
        let filter = EnvFilter::builder().parse(wanted.filter()).ok();
        if !filter.is_some_and(&running.refilter) {
            return Err(RequestFailure::new(ErrorCode::Internal, "the running log does not take another filter"));
        }
        *levels = wanted;
    }
    if let Some(format) = format {
        any_format::choose(format);
    }
    Ok(())
}

fn change(
    levels: &mut LogLevels,
    format: &mut Option<LogFormat>,
    (key, value): (&str, &LogValue),
    wrong_type: fn(&str, LogValueKind) -> String,
) -> Result<(), RequestFailure> {
    let malformed = |text| Err(RequestFailure::new(ErrorCode::MalformedRequest, text));
    match (key, value) {
        ("log_file", _) => {
            let text = "log file location can not be updated through network protocol";
            return Err(RequestFailure::new(ErrorCode::NotImplemented, text));
        }
        ("log_info", LogValue::Bool(on)) => levels.info = *on,
        ("log_warning", LogValue::Bool(on)) => levels.warning = *on,
        ("log_error", LogValue::Bool(on)) => levels.error = *on,
        ("log_verbose_level", LogValue::Unsigned(level)) => levels.verbose = *level,
        ("log_format", LogValue::Text(name)) => match LogFormat::named(name) {
            Some(known) => *format = Some(known),
            None => return malformed(format!("invalid argument for --log_format, got: {}", clipped(name))),
        },
        ("log_info" | "log_warning" | "log_error", _) => return malformed(wrong_type(key, LogValueKind::Bool)),
        ("log_verbose_level", _) => return malformed(wrong_type(key, LogValueKind::Unsigned)),
        ("log_format", _) => return malformed(wrong_type(key, LogValueKind::Text)),
        _ => {
            let key = clipped(key);
            return malformed(format!(
                "unknown log setting '{key}'; known are log_info, log_warning, log_error, log_verbose_level, log_format \
                 and, to be read, log_file"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(changes: &[(&str, LogValue)]) -> Result<(LogLevels, Option<LogFormat>), String> {
        let (mut levels, mut format) = (LogLevels::default(), None);
        let wrong_type = |key: &str, kind| format!("{key} takes {kind:?}");
        for (key, value) in changes {
            change(&mut levels, &mut format, (key, value), wrong_type).map_err(|failure| failure.text)?;
        }
        Ok((levels, format))
    }

    #[test]
    fn changes_are_taken_by_key() {
        let changes = [
            ("log_info", LogValue::Bool(false)),
            ("log_verbose_level", LogValue::Unsigned(2)),
            ("log_format", LogValue::Text("ISO8601".to_owned())),
        ];
        let levels = LogLevels { info: false, verbose: 2, ..LogLevels::default() };
        assert_eq!(changed(&changes), Ok((levels, Some(LogFormat::Iso8601))));
    }

    #[test]
    fn what_no_setting_takes_is_refused() {
        for (key, value, expected) in [
            (
                "log_file",
                LogValue::Text("x".to_owned()),
                "log file location can not be updated through network protocol",
            ),
            ("log_info", LogValue::Unsigned(1), "log_info takes Bool"),
            ("log_verbose_level", LogValue::Bool(true), "log_verbose_level takes Unsigned"),
            ("log_format", LogValue::Other, "log_format takes Text"),
            ("log_format", LogValue::Text("xml".to_owned()), "invalid argument for --log_format, got: xml"),
            ("log_colour", LogValue::Bool(true), "unknown log setting 'log_colour'; known are"),
        ] {
            let text = changed(&[(key, value)]).expect_err("refused");
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
