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
    let body = match kept.map(fs::read).transpose()? {
        Some(before) if form == Form::Json => laid_out_as(&before, body),
        _ => body.to_vec(),
    };
    replace(&target, &body)?;
    for other in earlier.iter().filter(|path| **path != target) {
        fs::remove_file(other)?;
    }
    rules.map_or(Ok(()), |text| replace(&dir.join("expect.toml"), text.as_bytes()))
}

/// JSON as the file before it was laid out: on lines of its own with indents, or on one, and with or without a newline
/// at the end.
fn laid_out_as(before: &[u8], json: &[u8]) -> Vec<u8> {
    let newline: &[u8] = if before.ends_with(b"\n") { b"\n" } else { b"" };
    let content = before.trim_ascii();
    let json = json.trim_ascii();
    let text = if content.contains(&b'\n') && !json.contains(&b'\n') { indented(json) } else { json.to_vec() };
    [&text[..], newline].concat()
}

/// Compact JSON with a line for each element; the order of keys stays.
fn indented(json: &[u8]) -> Vec<u8> {
    let (mut out, mut depth, mut in_text, mut escaped) = (Vec::with_capacity(json.len() * 2), 0_usize, false, false);
    let mut previous = 0_u8;
    for &byte in json {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            out.push(byte);
            previous = byte;
            continue;
        }
        let opens = matches!(previous, b'{' | b'[');
        let closes = matches!(byte, b'}' | b']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        if (opens != closes) || previous == b',' {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b' ', depth * 2));
        }
        in_text = byte == b'"';
        depth += usize::from(matches!(byte, b'{' | b'['));
        out.push(byte);
        if byte == b':' {
            out.push(b' ');
        }
        previous = byte;
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_json_keeps_the_layout_of_the_file() {
        let json = br#"{"b":"x, {\"y\": 1}","a":[1,2],"c":{},"d":[]}"#;
        let expected =
            "{\n  \"b\": \"x, {\\\"y\\\": 1}\",\n  \"a\": [\n    1,\n    2\n  ],\n  \"c\": {},\n  \"d\": []\n}\n";
        let got = laid_out_as(b"{\n  \"b\": 1\n}\n", json);
        assert_eq!(String::from_utf8(got).expect("text"), expected);
        assert_eq!(laid_out_as(b"{}", json), json);
    }
}
