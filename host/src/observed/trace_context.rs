//! Where a request stands in a distributed trace. Source: W3C, "Trace Context", levels 1 and 2.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;

/// The header with the ids.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The header with what vendors add.
pub(crate) const TRACESTATE: &str = "tracestate";

/// Entries of a `tracestate`, at most. Source: as above, 3.3.1.1.
const STATE_ENTRIES_MAX: usize = 32;
/// Bytes of a `tracestate` that are passed on; it may be dropped above 512. Source: as above, 3.3.1.5.
const STATE_BYTES_MAX: usize = 4_096;

/// The id of a trace; never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(pub(crate) [u8; 16]);

/// The id of a span; never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId(pub(crate) [u8; 8]);

/// The place of one request in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// The trace.
    pub(crate) trace: TraceId,
    /// The client's span; `None` where the trace begins here.
    pub(crate) parent: Option<SpanId>,
    /// This request's span.
    pub(crate) span: SpanId,
    /// Whether whoever began the trace records it.
    pub(crate) is_sampled: bool,
    /// What vendors add, as it came; empty where there is nothing.
    pub(crate) state: String,
}

impl TraceContext {
    /// A trace that begins with this request.
    #[must_use]
    pub(crate) fn begun() -> Self {
        let trace = TraceId((u128::from(random()) << 64 | u128::from(random())).to_be_bytes());
        Self { trace, parent: None, span: SpanId::made(), is_sampled: false, state: String::new() }
    }

    /// The trace that a request belongs to; `None` where it names none, or not as it must be named.
    #[must_use]
    pub(crate) fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(TRACEPARENT).iter();
        let (Some(value), None) = (given.next(), given.next()) else { return None };
        let (trace, parent, is_sampled) = read_traceparent(value.to_str().ok()?.trim())?;
        let state = state_of(headers).unwrap_or_default();
        Some(Self { trace, parent: Some(parent), span: SpanId::made(), is_sampled, state })
    }

    /// The `traceparent` of whoever comes next: the same trace, this request's span.
    #[must_use]
    pub(crate) fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

impl SpanId {
    /// A new id.
    #[must_use]
    pub(crate) fn made() -> Self {
        Self(random().to_be_bytes())
    }
}

/// Not zero, and not the same twice for all practical purposes: a keyed hash of a counter. Ids need to differ, not to be
/// secret.
fn random() -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)).max(1)
}

/// `version-trace-parent-flags`. A version that is not known yet may say more after a further dash.
fn read_traceparent(text: &str) -> Option<(TraceId, SpanId, bool)> {
    let (version, rest) = text.split_once('-')?;
    let [version] = hex(version)?;
    let mut parts = rest.splitn(4, '-');
    let (trace, parent, flags) = (hex(parts.next()?)?, hex(parts.next()?)?, parts.next()?);
    let [flags] = hex(flags)?;
    let says_more = parts.next().is_some();
    let is_valid = version != 0xff && !(version == 0 && says_more) && trace != [0; 16] && parent != [0; 8];
    is_valid.then_some((TraceId(trace), SpanId(parent), flags & 1 == 1))
}

/// Exactly `N` bytes in lower-case hex.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// All entries in their order; `None` where one of them is none, or there are too many.
fn state_of(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(TRACESTATE).iter();
    let lists = values.map(|value| value.to_str().ok()).collect::<Option<Vec<_>>>()?;
    let entries: Vec<_> =
        lists.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|e| !e.is_empty()).collect();
    let state = entries.join(",");
    let is_valid =
        entries.len() <= STATE_ENTRIES_MAX && state.len() <= STATE_BYTES_MAX && entries.iter().all(|e| is_entry(e));
    is_valid.then_some(state)
}

/// `key=value` with a key in lower case and a value in printable ASCII without `,` and `=`.
fn is_entry(entry: &str) -> bool {
    let Some((key, value)) = entry.split_once('=') else { return false };
    let is_key = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value = |byte| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    let begins = key.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    begins
        && key.len() <= 256
        && key.bytes().all(is_key)
        && !value.is_empty()
        && value.len() <= 256
        && value.bytes().all(is_value)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    fn read(parents: &[&str], states: &[&str]) -> Option<TraceContext> {
        let mut headers = HeaderMap::new();
        for parent in parents {
            headers.append(TRACEPARENT, HeaderValue::from_str(parent).expect("a value"));
        }
        for state in states {
            headers.append(TRACESTATE, HeaderValue::from_str(state).expect("a value"));
        }
        TraceContext::of_headers(&headers)
    }

    #[test]
    fn a_trace_goes_on_under_a_span_of_its_own() {
        for (flags, is_sampled) in [("01", true), ("00", false), ("03", true), ("02", false)] {
            let context = read(&[&format!("00-{TRACE}-{PARENT}-{flags}")], &[]).expect("valid");
            assert_eq!((context.trace.to_string(), context.is_sampled), (TRACE.to_owned(), is_sampled));
            assert_eq!(context.parent.expect("a parent").to_string(), PARENT);
            let next = context.traceparent();
            assert_eq!(next, format!("00-{TRACE}-{}-0{}", context.span, u8::from(is_sampled)));
            assert_ne!(context.span.to_string(), PARENT);
        }
    }

    #[test]
    fn what_is_malformed_is_as_if_it_were_not_there() {
        let zero_trace = "0".repeat(32);
        for bad in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-1"),
            format!("00-{TRACE}-{PARENT}-0x"),
            format!("00-{TRACE}-{PARENT}-01-more"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("0-{TRACE}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{zero_trace}-{PARENT}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-{PARENT}-01", &TRACE[1..]),
        ] {
            assert_eq!(read(&[&bad], &[]), None, "{bad:?}");
        }
        let good = format!("00-{TRACE}-{PARENT}-01");
        assert_eq!(read(&[&good, &good], &[]), None, "two parents");
        assert!(read(&[&format!("cc-{TRACE}-{PARENT}-01-what the future says")], &[]).is_some(), "a later version");
    }

    #[test]
    fn the_state_is_passed_on_where_it_is_one() {
        let state = |states: &[&str]| read(&[&format!("00-{TRACE}-{PARENT}-01")], states).expect("valid").state;
        assert_eq!(state(&["a=1, b=2", "", "tenant@vendor=x y"]), "a=1,b=2,tenant@vendor=x y");
        let many: Vec<_> = (0..33).map(|number| format!("k{number}=v")).collect();
        for bad in ["A=1", "a", "a=", "=1", "a=b=c", &many.join(",")] {
            assert_eq!(state(&[bad]), "", "{bad}");
        }
    }

    #[test]
    fn ids_differ() {
        let (one, other) = (TraceContext::begun(), TraceContext::begun());
        assert!(one.trace != other.trace && one.span != other.span && one.trace != TraceId([0; 16]));
    }
}
