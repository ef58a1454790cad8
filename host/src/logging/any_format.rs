//! Every format of log lines behind one type, so that the one in use can be changed while the server runs.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::triton::{TimeStyle, TritonFormat};
use crate::settings::LogFormat;

const ALL: [LogFormat; 4] = [LogFormat::Json, LogFormat::Text, LogFormat::Default, LogFormat::Iso8601];

/// The position in [`ALL`] of the format in use.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The next line has this format.
pub(super) fn choose(format: LogFormat) {
    let position = ALL.iter().position(|known| *known == format).unwrap_or(0);
    CHOSEN.store(u8::try_from(position).unwrap_or(0), Ordering::Relaxed);
}

/// The format in use.
pub(super) fn chosen() -> LogFormat {
    ALL[usize::from(CHOSEN.load(Ordering::Relaxed))]
}

/// Writes an event in the format in use.
pub(super) struct AnyFormat {
    json: Format<Json>,
    text: Format<Full>,
}

impl Default for AnyFormat {
    fn default() -> Self {
        let json = Format::default().json().flatten_event(true).with_current_span(false).with_span_list(false);
        Self { json, text: Format::default().with_target(false) }
    }
}

impl<S, N> FormatEvent<S, N> for AnyFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        match chosen() {
            LogFormat::Json => self.json.format_event(context, writer, event),
            LogFormat::Text => self.text.format_event(context, writer, event),
            LogFormat::Default => TritonFormat(TimeStyle::MonthAndDay).format_event(context, writer, event),
            LogFormat::Iso8601 => TritonFormat(TimeStyle::Iso8601).format_event(context, writer, event),
        }
    }
}
