//! Lines as Triton writes them, for tools that read those: a letter for the level, the time, the process, where the line
//! comes from, and the text in quotes. What belongs to it follows inside the quotes, as `key=value`.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How the time is written; always UTC.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeStyle {
    /// `I1231 23:59:59.999999 `
    MonthAndDay,
    /// `2026-12-31T23:59:59Z I `
    Iso8601,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct TritonFormat(pub(super) TimeStyle);

impl<S, N> FormatEvent<S, N> for TritonFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writer.write_str(&self.head(*metadata.level(), since_epoch))?;
        let file = metadata.file().and_then(|path| path.rsplit('/').next()).unwrap_or("-");
        write!(writer, "{} {file}:{}] ", std::process::id(), metadata.line().unwrap_or(0))?;
        let mut text = Text::default();
        event.record(&mut text);
        // Quoted, so that a line stays a line whatever a text holds.
        writeln!(writer, "{:?}", text.message + &text.fields)
    }
}

impl TritonFormat {
    /// All before the process.
    fn head(self, level: Level, since_epoch: Duration) -> String {
        let letter = match level {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            Level::INFO | Level::DEBUG | Level::TRACE => 'I',
        };
        let seconds = since_epoch.as_secs();
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        match self.0 {
            TimeStyle::MonthAndDay => {
                let micros = since_epoch.subsec_micros();
                format!("{letter}{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} ")
            }
            TimeStyle::Iso8601 => {
                format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z {letter} ")
            }
        }
    }
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar. Counts in eras of 400 years from a year that
/// begins in March, so that the leap day is the last.
pub(crate) fn date(days_since_epoch: u64) -> (u64, u64, u64) {
    const DAYS_TO_EPOCH: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days_since_epoch + DAYS_TO_EPOCH;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// The text of an event, and its other fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let cases = [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_788, (2026, 12, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ];
        for (day, expected) in cases {
            assert_eq!(date(day), expected, "{day}");
        }
    }

    #[test]
    fn heads_are_tritons() {
        let at = Duration::from_micros(20_788 * 86_400_000_000 + 3_661_000_042);
        assert_eq!(TritonFormat(TimeStyle::MonthAndDay).head(Level::WARN, at), "W1201 01:01:01.000042 ");
        assert_eq!(TritonFormat(TimeStyle::Iso8601).head(Level::ERROR, at), "2026-12-01T01:01:01Z E ");
        assert_eq!(TritonFormat(TimeStyle::Iso8601).head(Level::TRACE, at), "2026-12-01T01:01:01Z I ");
    }
}
