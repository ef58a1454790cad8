//! One case's folder: which files it holds, read within the limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value as Json;

use super::super::problem::{Problem, nearest};
use super::super::regular;
use super::compare::ExpectedBody;
use super::{Form, SAMPLE_FILE_BYTES_MAX, SAMPLE_HEADERS_MAX, SAMPLES_BYTES_MAX, Sample, expect_toml};

/// The files of a case.
#[derive(Default)]
struct Files {
    requests: Vec<PathBuf>,
    expected: Vec<PathBuf>,
    headers: Option<PathBuf>,
    rules: Option<PathBuf>,
    others: Vec<String>,
}

struct Case<'a> {
    dir: &'a Path,
    bytes_left: &'a mut u64,
    problems: Vec<Problem>,
}

/// Reads the case in `dir`, taking its bytes from `bytes_left`.
pub(super) fn read(dir: &Path, bytes_left: &mut u64) -> Result<Sample, Vec<Problem>> {
    let mut case = Case { dir, bytes_left, problems: Vec::new() };
    let files = case.files();
    let request = case.only("request", &files.requests, &files.others);
    let body = request.as_deref().map(|path| case.bytes(path)).unwrap_or_default();
    let (own_type, headers) = files.headers.as_deref().map(|path| case.headers(path)).unwrap_or_default();
    let content_type =
        own_type.unwrap_or_else(|| request.as_deref().map_or(Form::Octets, Form::of_file).content_type().to_owned());
    let expected = case.expected(&files.expected);
    let expectation = case.expectation(files.rules.as_deref(), expected);
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match expectation {
        Some(expectation) if case.problems.is_empty() => {
            Ok(Sample { name, dir: dir.to_owned(), content_type, headers, body, expectation })
        }
        _ => Err(case.problems),
    }
}

impl Case<'_> {
    fn refuse(&mut self, file: &Path, message: impl Into<String>) {
        self.problems.push(Problem::of_file(file, message));
    }

    fn files(&mut self) -> Files {
        let mut files = Files::default();
        let entries = match fs::read_dir(self.dir) {
            Ok(entries) => entries,
            Err(error) => {
                self.refuse(self.dir, format!("cannot be listed: {error}"));
                return files;
            }
        };
        let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match (name.as_str(), path.file_stem().and_then(|stem| stem.to_str())) {
                ("headers.json", _) => files.headers = Some(path),
                ("expect.toml", _) => files.rules = Some(path),
                ("expected.toml", _) => {
                    let problem = Problem::of_file(&path, "an answer is never TOML; the rules are in expect.toml");
                    self.problems.push(problem.with_fix("rename it to expect.toml"));
                }
                (_, Some("request")) => files.requests.push(path),
                (_, Some("expected")) => files.expected.push(path),
                _ => files.others.push(name),
            }
        }
        files
    }

    /// The one file of a kind that must be there.
    fn only(&mut self, stem: &str, found: &[PathBuf], others: &[String]) -> Option<PathBuf> {
        match found {
            [one] => return Some(one.clone()),
            [] => {
                let stems = others.iter().map(|other| other.split('.').next().unwrap_or(other));
                let fix = match nearest(stem, stems) {
                    Some(near) => format!("rename '{near}' to '{stem}'"),
                    None => "add request.json, request.txt or request.bin".to_owned(),
                };
                self.problems.push(Problem::of_file(self.dir, format!("has no {stem}.<ext>")).with_fix(fix));
            }
            several => self.several(stem, several),
        }
        None
    }

    fn several(&mut self, stem: &str, found: &[PathBuf]) {
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        let message = format!("has more than one {stem}.<ext>: {}", names.join(", "));
        self.problems.push(Problem::of_file(self.dir, message).with_fix("keep one"));
    }

    fn bytes(&mut self, path: &Path) -> Bytes {
        let read = regular::read_up_to(path, SAMPLE_FILE_BYTES_MAX);
        let bytes = read.unwrap_or_else(|error| {
            self.refuse(path, format!("cannot be read: {error}"));
            Vec::new()
        });
        if bytes.len() as u64 > SAMPLE_FILE_BYTES_MAX {
            self.refuse(path, format!("is larger than {SAMPLE_FILE_BYTES_MAX} bytes"));
        } else if bytes.len() as u64 > *self.bytes_left {
            self.refuse(path, format!("with it all samples have more than {SAMPLES_BYTES_MAX} bytes"));
        } else {
            *self.bytes_left -= bytes.len() as u64;
        }
        bytes.into()
    }

    fn json(&mut self, path: &Path) -> Option<Json> {
        let bytes = self.bytes(path);
        let parsed = serde_json::from_slice(&bytes);
        parsed.map_err(|error| self.refuse(path, format!("is not JSON: {error}"))).ok()
    }

    /// The content type, where it is named, and the other headers.
    fn headers(&mut self, path: &Path) -> (Option<String>, Vec<(String, String)>) {
        let (mut content_type, mut headers) = (None, Vec::new());
        let Some(json) = self.json(path) else { return (None, headers) };
        let Json::Object(fields) = json else {
            self.refuse(path, "must be an object of names and texts");
            return (None, headers);
        };
        if fields.len() > SAMPLE_HEADERS_MAX {
            self.refuse(path, format!("has {} headers; it may have at most {SAMPLE_HEADERS_MAX}", fields.len()));
            return (None, headers);
        }
        for (name, value) in fields {
            let Json::String(value) = value else {
                self.refuse(path, format!("header '{name}' must be text, not {value}"));
                continue;
            };
            match name.to_ascii_lowercase() {
                name if name == "content-type" => content_type = Some(value),
                name => headers.push((name, value)),
            }
        }
        (content_type, headers)
    }

    fn expected(&mut self, found: &[PathBuf]) -> Option<ExpectedBody> {
        match found {
            [] => Some(ExpectedBody::Unrecorded),
            [path] => Some(match Form::of_file(path) {
                Form::Json => ExpectedBody::Json(Arc::new(self.json(path)?)),
                form => ExpectedBody::Octets { form, bytes: self.bytes(path) },
            }),
            several => {
                self.several("expected", several);
                None
            }
        }
    }

    fn expectation(&mut self, rules: Option<&Path>, body: Option<ExpectedBody>) -> Option<super::Expectation> {
        let body = body?;
        let Some(path) = rules else { return Some(super::Expectation::by_default(body)) };
        let bytes = self.bytes(path);
        let Ok(text) = std::str::from_utf8(&bytes) else {
            self.refuse(path, "is not UTF-8");
            return None;
        };
        expect_toml::read(path, text, body).map_err(|problems| self.problems.extend(problems)).ok()
    }
}
