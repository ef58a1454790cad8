//! A reading of `/metrics`, parsed from the Prometheus text format so that tests ask by name and labels.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// One sample.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    labels: BTreeMap<String, String>,
    value: f64,
}

/// All series at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    samples: BTreeMap<String, Vec<Sample>>,
    types: BTreeMap<String, String>,
}

impl Reading {
    /// Parses the text exposition.
    ///
    /// # Errors
    /// For a line that is neither a comment nor a sample.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reading = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(comment) = line.strip_prefix('#') {
                let mut words = comment.split_whitespace();
                if let (Some("TYPE"), Some(name), Some(kind)) = (words.next(), words.next(), words.next()) {
                    reading.types.insert(name.to_owned(), kind.to_owned());
                }
                continue;
            }
            let (name, sample) = parse_sample(line).with_context(|| format!("metric line {line:?}"))?;
            reading.samples.entry(name).or_default().push(sample);
        }
        Ok(reading)
    }

    /// The sum of the series of `name` that have all of `labels`; 0 where there is none, as before a first count.
    #[must_use]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.series(name, labels).map(|sample| sample.value).sum()
    }

    /// Whether there is a series of `name` that has all of `labels`.
    #[must_use]
    pub fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.series(name, labels).next().is_some()
    }

    /// The type of a family: `counter`, `gauge`, `histogram`.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<&str> {
        self.types.get(name).map(String::as_str)
    }

    fn series<'a>(&'a self, name: &str, labels: &'a [(&str, &str)]) -> impl Iterator<Item = &'a Sample> {
        let has_all = move |sample: &&Sample| {
            labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|found| found == value))
        };
        self.samples.get(name).into_iter().flatten().filter(has_all)
    }
}

fn parse_sample(line: &str) -> Result<(String, Sample)> {
    let (series, value) = line.rsplit_once(' ').context("no value")?;
    let (name, labels) = match series.split_once('{') {
        None => (series, BTreeMap::new()),
        Some((name, labels)) => (name, parse_labels(labels.strip_suffix('}').context("no closing brace")?)?),
    };
    Ok((name.to_owned(), Sample { labels, value: value.parse()? }))
}

/// Parses `a="x",b="y"`, where a value may hold `\\`, `\"` and `\n`.
fn parse_labels(mut text: &str) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").context("a label without a value")?;
        let (value, end) = parse_quoted(rest)?;
        labels.insert(name.to_owned(), value);
        text = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
    }
    Ok(labels)
}

/// The value up to its closing quote, and where the text goes on after it.
fn parse_quoted(text: &str) -> Result<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((value, at + 1)),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            other => value.push(other),
        }
    }
    bail!("a label value without its closing quote")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_found_by_some_of_their_labels() {
        let text = "# TYPE swaps counter\nswaps{model=\"a\",outcome=\"published\"} 3\nswaps{model=\"a\",outcome=\"x,\\\"y\"} 2\n\nup 1\n";
        let reading = Reading::parse(text).expect("well formed");
        for (labels, expected) in [
            (&[("model", "a")][..], 5.0),
            (&[("outcome", "published")], 3.0),
            (&[("outcome", "x,\"y")], 2.0),
            (&[("model", "b")], 0.0),
        ] {
            assert!((reading.value("swaps", labels) - expected).abs() < f64::EPSILON, "{labels:?}");
        }
        assert!(reading.has("up", &[]) && !reading.has("down", &[]));
        assert_eq!(reading.kind("swaps"), Some("counter"));
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        for line in ["up", "up{a=\"b} 1", "up{a=\"b\" 1", "up{a} 1", "up one"] {
            assert!(Reading::parse(line).is_err(), "{line}");
        }
    }
}
