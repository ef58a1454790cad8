//! The parts of `plugin.toml` whose keys the plugin chooses: metrics and `[config]`; and the rules for names.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::DeValue;

use super::super::problem::Report;
use super::super::toml_reader::{Table, integer, number};
use super::{CONFIG_KEYS_MAX, DeclaredMetrics, NAMES_MAX, names};

/// Most bucket bounds of a histogram.
const BUCKETS_MAX: usize = 64;
/// Longest name of a metric, a store or a header.
const NAME_BYTES_MAX: usize = 64;
/// Headers that belong to one hop, and so not to a request: RFC 9110, section 7.6.1.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A header's name in lower case. The characters are those of a token: RFC 9110, section 5.6.2.
pub(super) fn header(name: &str) -> Result<String, String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(token) {
        return Err(format!("a header's name has 1 to {NAME_BYTES_MAX} letters, digits or dashes"));
    }
    let name = name.to_ascii_lowercase();
    if HOP_BY_HOP.contains(&name.as_str()) {
        return Err("this header belongs to a connection, not to a request".to_owned());
    }
    Ok(name)
}

/// The name of a store or a metric.
pub(super) fn identifier(name: &str) -> Result<String, String> {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if name.len() > NAME_BYTES_MAX || !starts_well || !name.chars().all(rest) {
        return Err(format!(
            "a name has 1 to {NAME_BYTES_MAX} letters, digits or underscores and does not start with a digit"
        ));
    }
    Ok(name.to_owned())
}

pub(super) fn metrics(table: &Table<'_>, report: &mut Report<'_>) -> DeclaredMetrics {
    table.check_keys(&["counters", "histograms"], report);
    let counters = names(table, "counters", identifier, report);
    let histograms = match table.get("histograms").map(Spanned::get_ref) {
        Some(DeValue::Table(_)) => {
            table.table("histograms", report).map(|table| bucketed(&table, report)).unwrap_or_default()
        }
        _ => names(table, "histograms", identifier, report).into_iter().map(|name| (name, Vec::new())).collect(),
    };
    for name in histograms.keys().filter(|name| counters.contains(*name)) {
        let message = format!("'{name}' is a counter too");
        report.error(table.at("histograms"), table.path("histograms"), message, "rename one of them".to_owned());
    }
    DeclaredMetrics { counters, histograms }
}

fn bucketed(table: &Table<'_>, report: &mut Report<'_>) -> BTreeMap<String, Vec<f64>> {
    let mut histograms = BTreeMap::new();
    if table.entries().count() > NAMES_MAX {
        let message = format!("has more than {NAMES_MAX} names");
        report.error(table.entries().next().map(|(_, value)| value.span().start), table.path(""), message, None);
        return histograms;
    }
    for (name, value) in table.entries() {
        let at = value.span().start;
        match identifier(name) {
            Err(message) => report.error(at, table.path(name), message, None),
            Ok(name) => match bounds(value.get_ref()) {
                Some(bounds) => drop(histograms.insert(name, bounds)),
                None => {
                    let message = format!("must be an array of at most {BUCKETS_MAX} ascending finite numbers");
                    report.error(at, table.path(&name), message, None);
                }
            },
        }
    }
    histograms
}

fn bounds(value: &DeValue<'_>) -> Option<Vec<f64>> {
    let bounds: Vec<f64> = value.as_array()?.iter().map(|bound| number(bound.get_ref())).collect::<Option<_>>()?;
    (bounds.len() <= BUCKETS_MAX && bounds.is_sorted_by(|a, b| a < b)).then_some(bounds)
}

pub(super) fn config(table: &Table<'_>, report: &mut Report<'_>) -> BTreeMap<String, String> {
    let mut config = BTreeMap::new();
    let count = table.entries().count();
    if count > CONFIG_KEYS_MAX {
        let at = table.entries().next().map(|(_, value)| value.span().start);
        report.error(at, "config", format!("has {count} keys; it may have at most {CONFIG_KEYS_MAX}"), None);
        return config;
    }
    for (key, value) in table.entries() {
        let text = match value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Datetime(time) => Some(time.to_string()),
            other => json(other).map(|json| json.to_string()),
        };
        match text {
            Some(text) => drop(config.insert(key.to_owned(), text)),
            None => {
                let message = "holds a number that JSON cannot write";
                report.error(value.span().start, table.path(key), message, "write it as text, in quotes".to_owned());
            }
        }
    }
    config
}

/// `None` for infinities, for what is not a number, and for whole numbers past 64 bits. How deep values nest is bounded
/// by the TOML parser.
fn json(value: &DeValue<'_>) -> Option<Json> {
    Some(match value {
        DeValue::String(text) => Json::from(&**text),
        DeValue::Boolean(flag) => Json::from(*flag),
        DeValue::Datetime(time) => Json::from(time.to_string()),
        DeValue::Integer(_) => Json::from(integer(value)?),
        DeValue::Float(_) => Json::from(number(value)?),
        DeValue::Array(elements) => {
            Json::Array(elements.iter().map(|element| json(element.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(entries) => {
            let fields = entries.iter().map(|(key, value)| Some((key.get_ref().to_string(), json(value.get_ref())?)));
            Json::Object(fields.collect::<Option<_>>()?)
        }
    })
}
