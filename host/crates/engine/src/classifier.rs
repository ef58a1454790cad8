//! Classifiers as scikit-learn's and LightGBM's exporters write them. Their scores come as a list of maps from class labels
//! to scores, which no request can carry and the operator `ZipMap` makes from a tensor. Such a model is served without it:
//! its bytes are rewritten before the session sees them. The operator becomes an `Identity`, which ONNX Runtime's graph
//! optimization removes, the output becomes the tensor, and the labels are told beside it. Source: `onnx.proto` and the
//! operator's page in the ONNX documentation (ai.onnx.ml, ZipMap).

mod message;
mod rewrite;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use crate::wire::{Content, Walker, WireError};

/// A classifier whose scores are a tensor.
pub(crate) struct Rewritten {
    /// The model's bytes.
    pub(crate) bytes: Vec<u8>,
    /// The class labels of each output that was a list of maps, in the order of its columns.
    pub(crate) labels: Labels,
}

/// Class labels by output.
pub(crate) type Labels = BTreeMap<Arc<str>, Arc<[String]>>;

/// The operators that a model has where there may be something to rewrite.
const OPERATORS: [&[u8]; 4] = [b"LinearClassifier", b"SVMClassifier", b"TreeEnsembleClassifier", b"ZipMap"];
const OPERATOR_BYTES_MAX: usize = 32;

/// The model at `path` as it can be served; `None` where it needs no rewriting, or where the file is no model that can be
/// read, which is for ONNX Runtime to tell.
pub(crate) fn rewritten(path: &Path) -> Option<Rewritten> {
    let file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    if !is_classifier(file, len).unwrap_or(false) {
        return None;
    }
    rewrite::rewritten(&std::fs::read(path).ok()?)
}

/// Whether some operator of the main graph is one of a classifier's. Passes over everything else, weights included.
fn is_classifier<R: Read + Seek>(source: R, len: u64) -> Result<bool, WireError> {
    let mut walker = Walker::new(source);
    while let Some(field) = walker.field(len)? {
        let Content::Bytes { end } = field.content else { continue };
        if field.number == rewrite::MODEL_GRAPH && has_operator(&mut walker, end)? {
            return Ok(true);
        }
        walker.skip_to(end)?;
    }
    Ok(false)
}

fn has_operator<R: Read + Seek>(walker: &mut Walker<R>, end: u64) -> Result<bool, WireError> {
    while let Some(field) = walker.field(end)? {
        let Content::Bytes { end } = field.content else { continue };
        if field.number != rewrite::GRAPH_NODE {
            walker.skip_to(end)?;
            continue;
        }
        while let Some(field) = walker.field(end)? {
            let Content::Bytes { end } = field.content else { continue };
            if field.number != rewrite::NODE_OPERATOR {
                walker.skip_to(end)?;
            } else if walker.bytes(end, OPERATOR_BYTES_MAX)?.is_some_and(|name| OPERATORS.contains(&&name[..])) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::{any, proptest};

    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/models");
        std::fs::read(folder.join(name)).expect("the fixture is there")
    }

    fn finds(bytes: &[u8]) -> Result<bool, WireError> {
        is_classifier(Cursor::new(bytes), bytes.len() as u64)
    }

    #[test]
    fn only_classifiers_are_rewritten() {
        for (name, expected) in [("zipmap.onnx", true), ("classifier_strings.onnx", true), ("add.onnx", false)] {
            let bytes = fixture(name);
            assert_eq!(finds(&bytes).ok(), Some(expected), "{name}");
            assert_eq!(rewrite::rewritten(&bytes).is_some(), expected, "{name}");
        }
        assert!(rewritten(Path::new("/nowhere/model.onnx")).is_none());
    }

    #[test]
    fn labels_are_told_by_output() {
        let labels = |name: &str| rewrite::rewritten(&fixture(name)).expect("a classifier").labels;
        let expected = |output: &str, labels: &[&str]| {
            Labels::from([(output.into(), labels.iter().map(|&label| label.to_owned()).collect())])
        };
        assert_eq!(labels("zipmap.onnx"), expected("probabilities", &["no", "yes"]));
        assert_eq!(labels("classifier_integers.onnx"), expected("output_probability", &["-3", "0", "70000"]));
    }

    #[test]
    fn a_rewritten_model_is_not_rewritten_again() {
        for name in ["zipmap.onnx", "classifier_strings.onnx", "classifier_one_label.onnx"] {
            let rewritten = rewrite::rewritten(&fixture(name)).expect("a classifier");
            assert!(rewrite::rewritten(&rewritten.bytes).is_none(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_model_never_panics(position in any::<proptest::sample::Index>(), byte: u8) {
            let mut bytes = fixture("classifier_integers.onnx");
            let position = position.index(bytes.len());
            bytes[position] = byte;
            let _ = finds(&bytes);
            let _ = rewrite::rewritten(&bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = finds(&bytes);
            let _ = rewrite::rewritten(&bytes);
        }
    }
}
