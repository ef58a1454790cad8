//! `expect.toml`: how an answer is compared with the expected one.

use std::path::Path;

use serde_json::Value as Json;

use super::super::problem::{Problem, Report};
use super::super::toml_reader::{Table, number, read_document};
use super::compare::{Expectation, ExpectedBody, Mode, Range, Tolerance};
use super::pointer::Pointer;

/// Reads the text of `file`, whose rules are for `body`.
pub(super) fn read(file: &Path, text: &str, body: ExpectedBody) -> Result<Expectation, Vec<Problem>> {
    let mut report = Report::new(file, text);
    let expectation = read_document(text, &mut report, |root, report| Some(rules(root, body, report)));
    report.finish(expectation).map(|(expectation, _)| expectation.expect("a file without problems was read"))
}

fn rules(root: &Table<'_>, body: ExpectedBody, report: &mut Report<'_>) -> Expectation {
    root.check_keys(&["status", "content_type", "mode", "tolerances", "ranges"], report);
    let mut expectation = Expectation::by_default(body);
    let modes = [("exact", Mode::Exact), ("tolerances", Mode::Tolerances), ("shape", Mode::Shape)];
    expectation.mode = root.choice("mode", &modes, report).unwrap_or(expectation.mode);
    if let Some(status) = root.whole("status", 200..=599, report) {
        expectation.status = u16::try_from(status).unwrap_or(expectation.status);
    }
    expectation.content_type = root.text("content_type", report).map(str::to_owned);
    if let Some(table) = root.table("tolerances", report) {
        if expectation.mode != Mode::Tolerances {
            let fix = "write mode = \"tolerances\", or remove them".to_owned();
            report.error(root.at("tolerances"), "tolerances", "have no effect in this mode", fix);
        }
        expectation.tolerances = places(&table, &expectation.body, report, tolerance);
    }
    if let Some(table) = root.table("ranges", report) {
        expectation.ranges = places(&table, &expectation.body, report, range);
    }
    expectation
}

/// The rules of a table whose keys are pointers. Each must name a number of the expected answer.
fn places<T>(
    table: &Table<'_>,
    body: &ExpectedBody,
    report: &mut Report<'_>,
    read: impl Fn(&Table<'_>, &str, &mut Report<'_>) -> Option<T>,
) -> Vec<(Pointer, T)> {
    let mut rules = Vec::new();
    for (key, value) in table.entries() {
        let at = value.span().start;
        let Some(pointer) = Pointer::parse(key) else {
            let fix = format!("write \"/{key}\"");
            report.error(at, table.path(key), "is not a JSON pointer, which starts with '/'", fix);
            continue;
        };
        match body {
            ExpectedBody::Json(expected) if !names_a_number(&pointer, expected, &mut Vec::new()) => {
                report.error(at, table.path(key), "there is no number at this place of the expected answer", None);
            }
            ExpectedBody::Octets { .. } => {
                report.error(at, table.path(key), "the expected answer is not JSON, so it has no such place", None);
            }
            ExpectedBody::Json(_) | ExpectedBody::Unrecorded => {}
        }
        rules.extend(read(table, key, report).map(|rule| (pointer, rule)));
    }
    rules
}

fn names_a_number(pointer: &Pointer, value: &Json, path: &mut Vec<String>) -> bool {
    let mut below = |segment: String, value: &Json| {
        path.push(segment);
        let found = names_a_number(pointer, value, path);
        path.pop();
        found
    };
    match value {
        Json::Number(_) => pointer.covers(path),
        Json::Array(elements) => elements.iter().enumerate().any(|(index, value)| below(index.to_string(), value)),
        Json::Object(fields) => fields.iter().any(|(key, value)| below(key.clone(), value)),
        Json::Null | Json::Bool(_) | Json::String(_) => false,
    }
}

/// A number is an absolute tolerance; a table names one kind or both.
fn tolerance(table: &Table<'_>, key: &str, report: &mut Report<'_>) -> Option<Tolerance> {
    let value = table.get(key)?;
    if value.get_ref().is_table() {
        let table = table.table(key, report)?;
        table.check_keys(&["absolute", "relative"], report);
        let bound = |key: &str, report: &mut Report<'_>| match table.get(key) {
            Some(_) => not_negative(&table, key, report),
            None => Some(0.0),
        };
        return Some(Tolerance { absolute: bound("absolute", report)?, relative: bound("relative", report)? });
    }
    Some(Tolerance { absolute: not_negative(table, key, report)?, relative: 0.0 })
}

fn not_negative(table: &Table<'_>, key: &str, report: &mut Report<'_>) -> Option<f64> {
    let bound = table.get(key).and_then(|value| number(value.get_ref())).filter(|bound| *bound >= 0.0);
    if bound.is_none() {
        let fix = "write 0.001, { absolute = 0.001 } or { relative = 0.01 }".to_owned();
        report.error(table.at(key), table.path(key), "must be a finite number, at least 0", fix);
    }
    bound
}

fn range(table: &Table<'_>, key: &str, report: &mut Report<'_>) -> Option<Range> {
    let bounds: Option<Vec<f64>> = table.get(key).and_then(|value| {
        let elements = value.get_ref().as_array()?;
        elements.iter().map(|element| number(element.get_ref())).collect()
    });
    match bounds.as_deref() {
        Some(&[low, high]) if low <= high => Some(Range { low, high }),
        _ => {
            let fix = "write [0.0, 1.0]".to_owned();
            report.error(table.at(key), table.path(key), "must be two finite numbers, the smaller first", fix);
            None
        }
    }
}
