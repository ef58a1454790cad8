//! `label_filename` of the outputs: files of the model's folder with one label per line, the first for position 0.

use std::sync::Arc;

use super::super::declared_config::Labels;
use super::super::regular;
use super::block::Block;
use super::{Rules, stays_inside};

/// Most bytes of a label file.
const LABEL_FILE_BYTES_MAX: u64 = 16 << 20;

/// Most labels of an output; ImageNet's largest list has 21,841.
const LABELS_MAX: usize = 1 << 20;

const FIELD: &str = "label_filename";

pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> Labels {
    let outputs = root.blocks("output");
    let labelled = outputs.iter().filter(|output| output.has(FIELD));
    labelled.filter_map(|output| Some((output.text("name").to_owned(), labels_of(output, rules)?))).collect()
}

fn labels_of(output: &Block<'_>, rules: &mut Rules<'_, '_>) -> Option<Arc<[String]>> {
    let name = output.text(FIELD);
    if !stays_inside(name) {
        let message = format!("'{name}' leaves the model's folder");
        rules.refuse(output, FIELD, message, "name a file inside it".to_owned());
        return None;
    }
    let path = rules.dir.join(name);
    match regular::read_up_to(&path, LABEL_FILE_BYTES_MAX) {
        Err(error) => {
            let message = format!("the label file {} cannot be read: {error}", path.display());
            let fix = "put it there, with one label per line, or leave label_filename out".to_owned();
            rules.refuse(output, FIELD, message, fix);
        }
        Ok(bytes) if bytes.len() as u64 > LABEL_FILE_BYTES_MAX => {
            let message = format!("the label file {} has more than {LABEL_FILE_BYTES_MAX} bytes", path.display());
            rules.refuse(output, FIELD, message, None);
        }
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) if text.lines().nth(LABELS_MAX).is_some() => {
                let message = format!("the label file {} has more than {LABELS_MAX} labels", path.display());
                rules.refuse(output, FIELD, message, "write one line per position of the output".to_owned());
            }
            Ok(text) => return Some(text.lines().map(str::to_owned).collect()),
            Err(_) => {
                let message = format!("the label file {} is not UTF-8 text", path.display());
                rules.refuse(output, FIELD, message, "save it as UTF-8".to_owned());
            }
        },
    }
    None
}
