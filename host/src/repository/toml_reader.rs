//! Typed reading of our TOML files with the place of everything: each getter reports what it does not like and gives
//! `None`, so that a file's problems all come out at once. Keys nobody asks for are errors with a "did you mean".

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Report, did_you_mean};

/// Most syntax errors shown for one file.
const SYNTAX_ERRORS_MAX: usize = 16;

/// A table being read. Paths are dotted from the top of the file.
pub(super) struct Table<'t> {
    entries: &'t DeTable<'t>,
    path: String,
}

/// Parses `text` and hands its top table to `read`. After a syntax error nothing is read.
pub(super) fn read_document<T: Default>(
    text: &str,
    report: &mut Report<'_>,
    read: impl FnOnce(&Table<'_>, &mut Report<'_>) -> T,
) -> T {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
        report.error(error.span().map(|span| span.start), "", error.message(), None);
    }
    if !errors.is_empty() {
        return T::default();
    }
    read(&Table { entries: document.get_ref(), path: String::new() }, report)
}

impl<'t> Table<'t> {
    /// Reports every key that is not one of `known`.
    pub(super) fn check_keys(&self, known: &[&str], report: &mut Report<'_>) {
        for key in self.entries.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            let name = &**key.get_ref();
            let fix =
                did_you_mean(name, known.iter().copied()).unwrap_or_else(|| format!("known: {}", known.join(", ")));
            report.error(key.span().start, self.path(name), "unknown key", fix);
        }
    }

    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&'t str, &'t Spanned<DeValue<'t>>)> {
        self.entries.iter().map(|(key, value)| (&**key.get_ref(), value))
    }

    /// Where the value of `key` stands.
    pub(super) fn at(&self, key: &str) -> Option<usize> {
        self.get(key).map(|value| value.span().start)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.entries.get(key)
    }

    pub(super) fn table(&self, key: &str, report: &mut Report<'_>) -> Option<Self> {
        let entries = self.typed(key, "a table", report, DeValue::as_table)?;
        Some(Self { entries, path: self.path(key) })
    }

    pub(super) fn flag(&self, key: &str, report: &mut Report<'_>) -> Option<bool> {
        self.typed(key, "true or false", report, |value| value.as_bool())
    }

    pub(super) fn text(&self, key: &str, report: &mut Report<'_>) -> Option<&'t str> {
        self.typed(key, "text", report, DeValue::as_str)
    }

    /// One of the named `choices`.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)], report: &mut Report<'_>) -> Option<T> {
        let name = self.text(key, report)?;
        let choice = choices.iter().find(|(choice, _)| *choice == name).map(|(_, value)| *value);
        if choice.is_none() {
            let names: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
            let message = format!("'{name}' is none of {}", names.join(", "));
            report.error(self.at(key), self.path(key), message, did_you_mean(name, names.iter().copied()));
        }
        choice
    }

    pub(super) fn whole(&self, key: &str, range: RangeInclusive<u32>, report: &mut Report<'_>) -> Option<u32> {
        let number = self.typed(key, "a whole number", report, integer)?;
        let fits = u32::try_from(number).ok().filter(|number| range.contains(number));
        if fits.is_none() {
            let message = format!("is {number}; it must be from {} to {}", range.start(), range.end());
            report.error(self.at(key), self.path(key), message, None);
        }
        fits
    }

    /// The texts of an array, each with its place; elements of other types are reported and left out.
    pub(super) fn texts(&self, key: &str, report: &mut Report<'_>) -> Vec<(usize, &'t str)> {
        let elements = self.typed(key, "an array of texts", report, DeValue::as_array);
        let mut texts = Vec::new();
        for element in elements.into_iter().flat_map(|array| array.iter()) {
            let at = element.span().start;
            match element.get_ref().as_str() {
                Some(text) => texts.push((at, text)),
                None => wrong_type(at, self.path(key), "text", (element.get_ref(), report)),
            }
        }
        texts
    }

    /// The value of `key` as `form` sees it; reported where it is of another type.
    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        report: &mut Report<'_>,
        form: impl FnOnce(&'t DeValue<'t>) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let typed = form(value.get_ref());
        if typed.is_none() {
            wrong_type(value.span().start, self.path(key), expected, (value.get_ref(), report));
        }
        typed
    }
}

fn wrong_type(at: usize, path: String, expected: &str, (got, report): (&DeValue<'_>, &mut Report<'_>)) {
    report.error(at, path, format!("must be {expected}, not {}", kind(got)), None);
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A whole number that fits 64 bits.
pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A finite number, with or without a fraction.
pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Float(float) => float.as_str(),
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
