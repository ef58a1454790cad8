//! The plugin's log. Each line carries the request's id, the model and the generation; the host drops and counts lines
//! past its limit per call. A panic becomes a line at error level, since nothing else of it survives the abort.

use std::sync::Once;

use crate::host;

pub use crate::bindings::airlock::plugin::log::Level;

/// Writes one line; the macros [`crate::info!`], [`crate::warn!`] and so on format it first.
pub fn write(level: Level, message: &str) {
    host::log::write(level, message);
}

/// Sends panics to the log, once per instance.
pub(crate) fn report_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| std::panic::set_hook(Box::new(|panic| write(Level::Error, &panic.to_string()))));
}

/// Writes a line at a level.
#[macro_export]
macro_rules! log {
    ($level:ident, $($message:tt)+) => {
        $crate::log::write($crate::log::Level::$level, &::std::format!($($message)+))
    };
}

/// Writes a line at trace level; arguments as for `format!`.
#[macro_export]
macro_rules! trace { ($($message:tt)+) => { $crate::log!(Trace, $($message)+) }; }

/// Writes a line at debug level; arguments as for `format!`.
#[macro_export]
macro_rules! debug { ($($message:tt)+) => { $crate::log!(Debug, $($message)+) }; }

/// Writes a line at info level; arguments as for `format!`.
#[macro_export]
macro_rules! info { ($($message:tt)+) => { $crate::log!(Info, $($message)+) }; }

/// Writes a line at warn level; arguments as for `format!`.
#[macro_export]
macro_rules! warn { ($($message:tt)+) => { $crate::log!(Warn, $($message)+) }; }

/// Writes a line at error level; arguments as for `format!`.
#[macro_export]
macro_rules! error { ($($message:tt)+) => { $crate::log!(Error, $($message)+) }; }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn lines_carry_their_level() {
        crate::trace!("a");
        crate::debug!("b{}", 1);
        crate::info!("c");
        crate::warn!("d");
        crate::error!("e");
        let expected = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error];
        let lines = testing::logged();
        assert_eq!(lines.iter().map(|line| line.0).collect::<Vec<_>>(), expected);
        assert_eq!(lines[1].1, "b1");
    }

    #[test]
    fn a_panic_is_logged_with_its_place() {
        let before = std::panic::take_hook();
        report_panics();
        let outcome = std::panic::catch_unwind(|| panic!("the table is empty"));
        std::panic::set_hook(before);
        assert!(outcome.is_err());
        let lines = testing::logged();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].0, Level::Error);
        assert!(lines[0].1.contains("log.rs:") && lines[0].1.contains("the table is empty"), "{}", lines[0].1);
    }
}
