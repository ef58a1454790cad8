//! Whether a model file is whole, told without parsing it: the top-level fields of the ONNX `ModelProto` end exactly at
//! the end of the file, the parts without which there is no model are there, and files it keeps its weights in are long
//! enough. It tells a file that is still being copied from one that is worth loading; whether it is a good model is for
//! ONNX Runtime to say. Field numbers are those of `onnx.proto`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Component, Path, PathBuf};

use crate::wire::{Content, Walker, WireError};

/// Nested messages walked into; protobuf parsers stop at 100 too.
const DEPTH_MAX: usize = 100;

/// The longest name of an external file, and of any other text read here.
const TEXT_BYTES_MAX: usize = 4096;

/// External files of one model.
const EXTERNAL_FILES_MAX: usize = 4096;

/// What the structure of a model file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// It is whole, and so is every file that it names.
    Complete {
        /// Files beside it that hold weights, each named once.
        external_files: Vec<ExternalFile>,
    },
    /// Something is missing that may still come.
    Incomplete {
        /// What is missing.
        reason: String,
    },
    /// It is no ONNX model, and waiting does not change that.
    Invalid {
        /// Why.
        reason: String,
    },
    /// It is an ONNX model that must not be loaded.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}

/// A file beside the model that holds weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalFile {
    /// Its path: the model's folder joined with the name in the model.
    pub path: PathBuf,
    /// Bytes it must have at least.
    pub bytes_min: u64,
}

/// Looks at the structure of the model file at `path`. Reads tags and lengths only, so a large file takes no longer than
/// its number of fields says.
///
/// # Errors
/// When the file cannot be opened or read.
pub fn onnx_is_complete(path: &Path) -> io::Result<Completeness> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(Completeness::Refused { reason: "it is not a regular file; put the model itself there".to_owned() });
    }
    let file = File::open(path)?;
    let len = metadata.len();
    let external = match walk_model(file, len) {
        Ok(external) => external,
        Err(Verdict::Io(error)) => return Err(error),
        Err(Verdict::Incomplete(reason)) => return Ok(Completeness::Incomplete { reason }),
        Err(Verdict::Invalid(reason)) => return Ok(Completeness::Invalid { reason }),
        Err(Verdict::Refused(reason)) => return Ok(Completeness::Refused { reason }),
    };
    check_external(path.parent().unwrap_or(Path::new("")), external)
}

fn check_external(folder: &Path, external: BTreeMap<String, u64>) -> io::Result<Completeness> {
    let mut external_files = Vec::with_capacity(external.len());
    for (location, bytes_min) in external {
        let path = folder.join(&location);
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() >= bytes_min => external_files.push(ExternalFile { path, bytes_min }),
            Ok(metadata) => {
                let reason = format!(
                    "external data file '{location}' has {} bytes, the model needs {bytes_min}",
                    metadata.len()
                );
                return Ok(Completeness::Incomplete { reason });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let reason = format!("external data file '{location}' is missing beside the model");
                return Ok(Completeness::Incomplete { reason });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Completeness::Complete { external_files })
}

/// Why a walk stopped.
#[derive(Debug)]
enum Verdict {
    Io(io::Error),
    Incomplete(String),
    Invalid(String),
    Refused(String),
}

/// The messages that lead to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Graph,
    Function,
    Node,
    Attribute,
    SparseTensor,
    Tensor,
}

impl Message {
    /// The message in field `number` of this one, where it leads to a tensor.
    fn child(self, number: u64) -> Option<Self> {
        Some(match (self, number) {
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::SparseTensor, 1 | 2) => Self::Tensor,
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::SparseTensor,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::Attribute, 6 | 11) => Self::Graph,
            _ => return None,
        })
    }
}

/// Walks a whole `ModelProto` of `len` bytes; returns the external files with the bytes each must have.
fn walk_model<R: Read + Seek>(source: R, len: u64) -> Result<BTreeMap<String, u64>, Verdict> {
    if len == 0 {
        return Err(Verdict::Incomplete("the file is empty".to_owned()));
    }
    let mut walk = Walk { walker: Walker::new(source), external: BTreeMap::new() };
    let (mut has_graph, mut has_opset) = (false, false);
    while let Some(field) = walk.walker.field(len).map_err(|error| at_top_level(error, len))? {
        let Content::Bytes { end } = field.content else { continue };
        match field.number {
            7 => {
                has_graph = true;
                walk.message(Message::Graph, end, 1)?;
            }
            25 => walk.message(Message::Function, end, 1)?,
            number => {
                has_opset |= number == 8;
                walk.walker.skip_to(end).map_err(inside)?;
            }
        }
    }
    match (has_graph, has_opset) {
        (true, true) => Ok(walk.external),
        (false, _) => Err(Verdict::Incomplete("the file ends before the model's graph".to_owned())),
        (true, false) => Err(Verdict::Incomplete("the file ends before the model's opset".to_owned())),
    }
}

struct Walk<R> {
    walker: Walker<R>,
    external: BTreeMap<String, u64>,
}

impl<R: Read + Seek> Walk<R> {
    fn message(&mut self, message: Message, end: u64, depth: usize) -> Result<(), Verdict> {
        if depth > DEPTH_MAX {
            return Err(Verdict::Invalid(format!("messages are nested deeper than {DEPTH_MAX}")));
        }
        if message == Message::Tensor {
            return self.tensor(end);
        }
        while let Some(field) = self.walker.field(end).map_err(inside)? {
            let Content::Bytes { end: content_end } = field.content else { continue };
            match message.child(field.number) {
                Some(child) => self.message(child, content_end, depth + 1)?,
                None => self.walker.skip_to(content_end).map_err(inside)?,
            }
        }
        Ok(())
    }

    /// A `TensorProto`: notes where its data are when they are in another file.
    fn tensor(&mut self, end: u64) -> Result<(), Verdict> {
        let mut reference = ExternalReference::default();
        let mut is_external = false;
        while let Some(field) = self.walker.field(end).map_err(inside)? {
            match (field.number, field.content) {
                (13, Content::Bytes { end }) => self.external_entry(end, &mut reference)?,
                (14, Content::Varint(location)) => is_external = location == 1,
                (_, Content::Bytes { end }) => self.walker.skip_to(end).map_err(inside)?,
                _ => {}
            }
        }
        if is_external { self.note(reference) } else { Ok(()) }
    }

    /// A `StringStringEntryProto` of `external_data`.
    fn external_entry(&mut self, end: u64, reference: &mut ExternalReference) -> Result<(), Verdict> {
        let (mut key, mut value) = (String::new(), String::new());
        while let Some(field) = self.walker.field(end).map_err(inside)? {
            let Content::Bytes { end } = field.content else { continue };
            let text = self.walker.bytes(end, TEXT_BYTES_MAX).map_err(inside)?;
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
            let text = text.ok_or_else(|| {
                Verdict::Invalid(format!("an entry of external_data is not UTF-8 of at most {TEXT_BYTES_MAX} bytes"))
            })?;
            match field.number {
                1 => key = text,
                2 => value = text,
                _ => {}
            }
        }
        match key.as_str() {
            "location" => reference.location = value,
            "offset" => reference.offset = number(&key, &value)?,
            "length" => reference.length = number(&key, &value)?,
            _ => {}
        }
        Ok(())
    }

    fn note(&mut self, reference: ExternalReference) -> Result<(), Verdict> {
        let ExternalReference { location, offset, length } = reference;
        let mut components = Path::new(&location).components();
        let stays = components.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if location.is_empty() || location.contains('\0') || !stays {
            return Err(Verdict::Refused(format!(
                "external data location '{}' is not a path inside the model's folder; export the model with its data \
                 beside it",
                location.escape_debug()
            )));
        }
        let bytes_min = offset.checked_add(length).ok_or_else(|| {
            Verdict::Invalid(format!("external data of '{location}' end past any file: {offset} + {length}"))
        })?;
        let known = self.external.entry(location).or_default();
        *known = bytes_min.max(*known);
        if self.external.len() > EXTERNAL_FILES_MAX {
            return Err(Verdict::Refused(format!(
                "the model names more than {EXTERNAL_FILES_MAX} external data files; export it with its data in one file"
            )));
        }
        Ok(())
    }
}

#[derive(Default)]
struct ExternalReference {
    location: String,
    offset: u64,
    length: u64,
}

fn number(key: &str, value: &str) -> Result<u64, Verdict> {
    let text = || {
        Verdict::Invalid(format!("{key} of external_data must be a number of bytes, got '{}'", value.escape_debug()))
    };
    value.parse().map_err(|_| text())
}

/// A field of the file itself that goes on past its end may still be written.
fn at_top_level(error: WireError, len: u64) -> Verdict {
    match error {
        WireError::Short { at } => {
            Verdict::Incomplete(format!("the field at byte {at} goes on past the end of the file at {len}"))
        }
        other => inside(other),
    }
}

/// A message whose length is known and reached, but whose content does not fit it.
fn inside(error: WireError) -> Verdict {
    match error {
        WireError::Io(error) => Verdict::Io(error),
        WireError::Short { at } => {
            Verdict::Invalid(format!("not an ONNX model: the field at byte {at} goes on past the message it is in"))
        }
        WireError::Invalid { at, why } => Verdict::Invalid(format!("not an ONNX model: byte {at} begins {why}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::{any, proptest};

    use super::*;

    fn walk(bytes: &[u8]) -> Result<BTreeMap<String, u64>, Verdict> {
        walk_model(Cursor::new(bytes), bytes.len() as u64)
    }

    fn models() -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/models");
        let entries =
            std::fs::read_dir(folder).expect("the fixtures are there").map(|entry| entry.expect("an entry").path());
        let models = entries.filter(|path| path.extension().is_some_and(|extension| extension == "onnx"));
        models.map(|path| {
            let content = std::fs::read(&path).expect("readable");
            (path, content)
        })
    }

    /// A length-delimited field.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let len = u8::try_from(content.len()).expect("short");
        assert!(len < 0x80 && number < 16);
        [&[number << 3 | 2, len][..], content].concat()
    }

    /// A model with one initializer whose data are external, as these entries say.
    fn external_model(entries: &[(&str, &str)]) -> Vec<u8> {
        let entry =
            |(key, value): &(&str, &str)| field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat());
        let entries: Vec<u8> = entries.iter().flat_map(entry).collect();
        let tensor = [entries, vec![14 << 3, 1]].concat();
        [field(7, &field(5, &tensor)), field(8, &[])].concat()
    }

    #[test]
    fn whole_models_are_complete() {
        let mut seen = 0;
        for (path, _) in models() {
            let verdict = onnx_is_complete(&path).expect("readable");
            assert!(matches!(verdict, Completeness::Complete { .. }), "{}: {verdict:?}", path.display());
            seen += 1;
        }
        assert!(seen > 20, "{seen} models");
    }

    #[test]
    fn a_cut_model_is_never_invalid_and_complete_only_between_fields() {
        for (path, content) in models() {
            let name = path.display();
            let (ends, first_opset) = top_level_ends(&content);
            for cut in 0..content.len() {
                match walk(&content[..cut]) {
                    Err(Verdict::Incomplete(_)) => {}
                    // What follows the first opset (further ones, metadata) a model may do without.
                    Ok(_) if cut >= first_opset && ends.contains(&cut) => {}
                    other => panic!("{name} cut at {cut}: {other:?}"),
                }
            }
        }
    }

    /// Where the top-level fields of a model end, and where the first opset does; all are varints or bytes.
    fn top_level_ends(content: &[u8]) -> (Vec<usize>, usize) {
        let varint = |mut at: usize| {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                value |= usize::from(content[at] & 0x7f) << shift;
                at += 1;
                if content[at - 1] & 0x80 == 0 {
                    break;
                }
            }
            (value, at)
        };
        let (mut ends, mut first_opset, mut at) = (Vec::new(), None, 0);
        while at < content.len() {
            let (tag, after_tag) = varint(at);
            let (number, after_number) = varint(after_tag);
            at = after_number + if tag & 7 == 2 { number } else { 0 };
            ends.push(at);
            if tag >> 3 == 8 {
                first_opset.get_or_insert(at);
            }
        }
        assert_eq!(at, content.len(), "the fixture is whole");
        (ends, first_opset.expect("a model has an opset"))
    }

    #[test]
    fn what_is_no_model_is_told_from_what_may_become_one() {
        let incomplete =
            [(&b""[..], "empty"), (b"\x08\x0a", "before the model's graph"), (b"\x3a\x7f", "past the end")];
        for (bytes, expected) in incomplete {
            match walk(bytes) {
                Err(Verdict::Incomplete(reason)) => assert!(reason.contains(expected), "{reason}"),
                other => panic!("{bytes:?}: {other:?}"),
            }
        }
        let graph_only = field(7, &[]);
        assert!(matches!(walk(&graph_only), Err(Verdict::Incomplete(reason)) if reason.contains("opset")));
        for bytes in [&b"<html>"[..], b"version https://git-lfs", b"\0\0\0\0", b"\x3a\x02\x0a\x7f\x42\x00"] {
            assert!(matches!(walk(bytes), Err(Verdict::Invalid(_))), "{bytes:?}");
        }
    }

    #[test]
    fn external_files_must_be_there_and_long_enough() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("model.onnx");
        std::fs::write(&path, external_model(&[("location", "w.bin"), ("offset", "8"), ("length", "4")]))
            .expect("written");
        let verdict = || onnx_is_complete(&path).expect("readable");
        assert!(matches!(verdict(), Completeness::Incomplete { reason } if reason.contains("'w.bin' is missing")));
        std::fs::write(folder.path().join("w.bin"), [0; 11]).expect("written");
        let Completeness::Incomplete { reason } = verdict() else { panic!("one byte short") };
        assert_eq!(reason, "external data file 'w.bin' has 11 bytes, the model needs 12");
        std::fs::write(folder.path().join("w.bin"), [0; 12]).expect("written");
        let external_files = vec![ExternalFile { path: folder.path().join("w.bin"), bytes_min: 12 }];
        assert_eq!(verdict(), Completeness::Complete { external_files });
    }

    #[test]
    fn external_locations_stay_in_the_models_folder() {
        for location in ["../w.bin", "/etc/passwd", "a/../../w.bin", "", "a\0b"] {
            let verdict = walk(&external_model(&[("location", location)]));
            assert!(
                matches!(&verdict, Err(Verdict::Refused(reason)) if reason.contains("location")),
                "{location}: {verdict:?}"
            );
        }
        for (key, value) in [("offset", "-1"), ("length", "x"), ("offset", "18446744073709551616")] {
            let verdict = walk(&external_model(&[("location", "w"), (key, value)]));
            assert!(matches!(&verdict, Err(Verdict::Invalid(reason)) if reason.contains(key)), "{verdict:?}");
        }
        let past = external_model(&[("location", "w"), ("offset", "18446744073709551615"), ("length", "1")]);
        assert!(matches!(walk(&past), Err(Verdict::Invalid(_))));
    }

    #[test]
    fn deep_nesting_ends_the_walk() {
        // A node's attribute holding a graph, again and again; each level is three messages.
        let mut graph: Vec<u8> = Vec::new();
        for _ in 0..40 {
            for number in [6_u8, 5, 1] {
                let mut len = Vec::new();
                let mut left = graph.len();
                while left > 0x7f {
                    len.push((left & 0x7f) as u8 | 0x80);
                    left >>= 7;
                }
                len.push(left as u8);
                graph = [&[number << 3 | 2][..], &len, &graph].concat();
            }
        }
        let len = [(graph.len() & 0x7f) as u8 | 0x80, (graph.len() >> 7) as u8];
        let model = [&[7 << 3 | 2][..], &len, &graph, &[0x42, 0]].concat();
        assert!(matches!(walk(&model), Err(Verdict::Invalid(reason)) if reason.contains("deeper")));
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let folder = tempfile::tempdir().expect("folder");
        assert!(onnx_is_complete(&folder.path().join("absent.onnx")).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = walk(&bytes);
        }

        #[test]
        fn a_damaged_model_never_panics(position in any::<proptest::sample::Index>(), byte: u8) {
            let mut content = external_model(&[("location", "w.bin"), ("offset", "8"), ("length", "4")]);
            let position = position.index(content.len());
            content[position] = byte;
            let _ = walk(&content);
        }
    }
}
