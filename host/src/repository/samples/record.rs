//! Recording what a plugin answers now as what its samples expect, for a person to review.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::{Form, essence};

/// Writes an answer into the case in `dir`: `expected.<ext>` by content type, in place of an earlier one, and in
/// `expect.toml` the status and the content type where they differ from what a reader would assume. Everything else in
/// that file, comments included, stays. Each file is replaced in one step.
///
/// # Errors
/// What the file system says, or that `expect.toml` is not TOML.
pub fn write_expected(dir: &Path, status: u16, content_type: &str, body: &[u8]) -> io::Result<()> {
    let earlier = expected_files(dir)?;
    let form = Form::of_content_type(content_type);
    // An own extension for octets, such as `.png`, is kept.
    let kept = earlier.iter().find(|path| Form::of_file(path) == form);
    let target = kept.cloned().unwrap_or_else(|| dir.join(format!("expected.{}", form.extension())));
    let rules = updated_rules(dir, status, (form, content_type))?;
    replace(&target, body)?;
    for other in earlier.iter().filter(|path| **path != target) {
        fs::remove_file(other)?;
    }
    rules.map_or(Ok(()), |text| replace(&dir.join("expect.toml"), text.as_bytes()))
}

fn expected_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        if path.file_stem().is_some_and(|stem| stem == "expected") && !is_toml {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The new text of `expect.toml`, if it must change.
fn updated_rules(dir: &Path, status: u16, (form, content_type): (Form, &str)) -> io::Result<Option<String>> {
    let before = match fs::read_to_string(dir.join("expect.toml")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let assumed_type = form != Form::Octets || essence(content_type) == form.content_type();
    let content_type = serde_json::Value::from(content_type).to_string();
    let about_type = if assumed_type { IfAbsent::LeaveOut } else { IfAbsent::Add };
    let about_status = if status == 200 { IfAbsent::LeaveOut } else { IfAbsent::Add };
    let text = set_key(&before, "content_type", &content_type, about_type)?;
    let text = set_key(&text, "status", &status.to_string(), about_status)?;
    Ok((text != before).then_some(text))
}

/// What to do about a key that is not there.
#[derive(Clone, Copy, PartialEq)]
enum IfAbsent {
    Add,
    LeaveOut,
}

/// `text` with the top-level `key` set to `value`.
fn set_key(text: &str, key: &str, value: &str, if_absent: IfAbsent) -> io::Result<String> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, format!("expect.toml: {error}"));
    let document = DeTable::parse(text).map_err(invalid)?;
    Ok(match document.get_ref().get(key).map(toml::Spanned::span) {
        Some(span) => format!("{}{value}{}", &text[..span.start], &text[span.end..]),
        None if if_absent == IfAbsent::LeaveOut => text.to_owned(),
        None => format!("{key} = {value}\n{text}"),
    })
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.new"));
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}
