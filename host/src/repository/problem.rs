//! What is wrong with a file of a model's folder: the file, the place, the field, the text and the way out. Readers of
//! such files gather all their problems in a [`Report`] and decide at the end; nobody stops at the first.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::regular;

/// Whether a problem stops the folder from being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file is used; something in it has no effect.
    Warning,
}

/// One problem of one file. Shown as `path/config.pbtxt:3:5: max_batch_size: message (fix: …)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Line and column, both from 1; columns count characters. `None` where the problem is the whole file or its absence.
    pub location: Option<(usize, usize)>,
    /// The field, such as `input[0].dims`; empty where no single field is meant.
    pub field: String,
    /// What is wrong, with the bound and the value given.
    pub message: String,
    /// What to write instead.
    pub fix: Option<String>,
    /// Whether it stops the folder from being served.
    pub severity: Severity,
}

impl Problem {
    /// An error about `file` as a whole.
    #[must_use]
    pub fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            location: None,
            field: String::new(),
            message: message.into(),
            fix: None,
            severity: Severity::Error,
        }
    }

    /// The same problem with a way out.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.location {
            write!(f, ":{line}:{column}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)?;
        self.fix.as_ref().map_or(Ok(()), |fix| write!(f, " (fix: {fix})"))
    }
}

impl std::error::Error for Problem {}

/// Most bytes of a file that people write by hand.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Most problems told of one file.
const PROBLEMS_MAX: usize = 100;

/// Most characters of a message; the rest of what a file says is in the file.
const MESSAGE_CHARS_MAX: usize = 600;

/// The text of a file that people write by hand; `None` where there is no such file.
///
/// # Errors
/// One [`Problem`], with its way out, when it cannot be read as text.
pub fn read_text(file: &Path) -> Result<Option<String>, Vec<Problem>> {
    match regular::read_up_to(file, TEXT_BYTES_MAX) {
        Ok(bytes) if bytes.len() as u64 > TEXT_BYTES_MAX => {
            let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
            let message = format!("the file has {size} bytes; it may have at most {TEXT_BYTES_MAX}");
            Err(vec![Problem::of_file(file, message)])
        }
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| vec![not_text(file)]),
        Err(error) if error.kind() == ErrorKind::NotFound && file.symlink_metadata().is_err() => Ok(None),
        Err(error) => Err(vec![unreadable(file, &error)]),
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> Problem {
    let (message, fix) = match error.kind() {
        ErrorKind::NotFound => ("it is a link to nothing".to_owned(), "put the file itself there"),
        ErrorKind::IsADirectory => ("it is a folder".to_owned(), "put a text file there, or remove the folder"),
        ErrorKind::PermissionDenied => ("it may not be read".to_owned(), "make it readable for the server's user"),
        _ => (format!("it cannot be read: {error}"), "copy it there again"),
    };
    Problem::of_file(file, message).with_fix(fix)
}

/// The problem of a file that is no text.
#[must_use]
pub fn not_text(file: &Path) -> Problem {
    Problem::of_file(file, "it is not UTF-8 text").with_fix("save it as UTF-8")
}

/// Problems as one error, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl From<Vec<Problem>> for Problems {
    fn from(problems: Vec<Problem>) -> Self {
        Self(problems)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The problems of one file while it is read. Places are byte offsets into its text until they are shown.
pub(super) struct Report<'a> {
    file: &'a Path,
    text: &'a str,
    problems: Vec<Problem>,
    errors_left_out: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        Self { file, text, problems: Vec::new(), errors_left_out: 0 }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.errors_left_out > 0 || self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    pub(super) fn error(
        &mut self,
        at: impl Into<Option<usize>>,
        field: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<Option<String>>,
    ) {
        self.add(at.into(), field.into(), message.into(), (fix.into(), Severity::Error));
    }

    fn add(&mut self, at: Option<usize>, field: String, message: String, (fix, severity): (Option<String>, Severity)) {
        if self.problems.len() >= PROBLEMS_MAX {
            self.errors_left_out += usize::from(severity == Severity::Error);
            return;
        }
        self.problems.push(Problem {
            file: self.file.to_owned(),
            location: at.map(|offset| line_and_column(self.text, offset)),
            field: clipped(field),
            message: clipped(message),
            fix: fix.map(clipped),
            severity,
        });
    }

    pub(super) fn warning(
        &mut self,
        at: impl Into<Option<usize>>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(at.into(), field.into(), message.into(), (None, Severity::Warning));
    }

    /// The value and the warnings, or every problem, in the order of the text.
    pub(super) fn finish<T>(mut self, value: T) -> Result<(T, Vec<Problem>), Vec<Problem>> {
        self.problems.sort_by_key(|problem| problem.location);
        if self.errors_left_out > 0 {
            let message = format!("{} further problems are left out", self.errors_left_out);
            self.problems.push(Problem::of_file(self.file, message));
        }
        if self.has_errors() { Err(self.problems) } else { Ok((value, self.problems)) }
    }
}

/// A text that names a value from the file, cut where the value is long.
fn clipped(text: String) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

/// Line and column of a byte offset, both from 1. An offset past the end, or inside a character, counts as the place
/// where the text up to it ends.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The candidate a mistyped `word` most likely means, if any is near.
pub(super) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const NEAR: f64 = 0.84;
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word.to_ascii_lowercase(), &candidate.to_ascii_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// `did you mean 'x'?`, where a candidate is near.
pub(super) fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    nearest(word, candidates).map(|near| format!("did you mean '{near}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_show_the_parts_they_have() {
        let mut problem = Problem::of_file(Path::new("m/config.pbtxt"), "is not UTF-8");
        assert_eq!(problem.to_string(), "m/config.pbtxt: is not UTF-8");
        problem.location = Some((3, 5));
        problem.field = "max_batch_size".to_owned();
        let problem = problem.with_fix("save it as UTF-8");
        assert_eq!(problem.to_string(), "m/config.pbtxt:3:5: max_batch_size: is not UTF-8 (fix: save it as UTF-8)");
        let both = Problems(vec![problem, Problem::of_file(Path::new("b"), "c")]);
        assert_eq!(both.to_string(), "m/config.pbtxt:3:5: max_batch_size: is not UTF-8 (fix: save it as UTF-8)\nb: c");
    }

    #[test]
    fn a_file_full_of_mistakes_is_told_of_a_hundred_and_of_how_many_more() {
        let text = "x\n".repeat(1_000);
        let mut report = Report::new(Path::new("f"), &text);
        for line in 0..1_000 {
            report.error(line * 2, "", "y".repeat(5_000), None);
        }
        let problems = report.finish(()).expect_err("problems");
        assert_eq!(problems.len(), PROBLEMS_MAX + 1);
        assert_eq!(problems[PROBLEMS_MAX].to_string(), "f: 900 further problems are left out");
        assert!(problems[0].to_string().len() < 700);
    }

    #[test]
    fn offsets_become_lines_and_columns() {
        let text = "ab\nμx\n";
        let cases =
            [(0, (1, 1)), (1, (1, 2)), (2, (1, 3)), (3, (2, 1)), (4, (2, 1)), (5, (2, 2)), (7, (3, 1)), (99, (3, 1))];
        for (offset, expected) in cases {
            assert_eq!(line_and_column(text, offset), expected, "{offset}");
        }
    }

    #[test]
    fn a_report_with_only_warnings_keeps_the_value() {
        let mut report = Report::new(Path::new("f"), "a\nb");
        report.warning(2, "b", "ignored");
        assert!(!report.has_errors());
        let (value, warnings) = report.finish(7).expect("no error");
        assert_eq!((value, warnings.len(), warnings[0].severity), (7, 1, Severity::Warning));

        let mut report = Report::new(Path::new("f"), "a\nb");
        report.error(2, "b", "second", None);
        report.error(0, "a", "first", None);
        let problems = report.finish(()).expect_err("errors");
        assert_eq!(problems.iter().map(|p| p.message.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    }

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let fields = ["name", "max_batch_size", "dynamic_batching", "input"];
        let cases =
            [("max_batch_sise", Some("max_batch_size")), ("inputs", Some("input")), ("colour", None), ("", None)];
        for (word, expected) in cases {
            assert_eq!(nearest(word, fields), expected, "{word:?}");
        }
        assert_eq!(did_you_mean("dynamic_batch", fields), Some("did you mean 'dynamic_batching'?".to_owned()));
    }
}
