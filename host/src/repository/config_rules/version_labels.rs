//! `airlock.version_labels`: names that clients may call versions by, such as `stable=1,canary=2`. TF Serving has them in
//! the configuration of its server (`version_labels`); here each model has its own. Whether a version that a label names
//! serves is not asked: labels may be written before it does.

use std::collections::BTreeMap;

use model::VersionNumber;

use super::super::declared_config::VERSION_LABELS;
use super::Rules;
use super::block::Block;

/// Most labels of a model.
const LABELS_MAX: usize = 256;
/// Characters that a label in a path cannot have, or that end it in the list.
const FORBIDDEN: [char; 2] = ['/', ':'];
/// What to write instead.
const FORM: &str = "write label=version, separated by commas, such as \"stable=1,canary=2\"";

/// Reads the labels; what is no label goes to the report.
pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> BTreeMap<String, VersionNumber> {
    let mut labels = BTreeMap::new();
    for (_, parameter) in root.entries("parameters").into_iter().filter(|(key, _)| key == VERSION_LABELS) {
        for entry in parameter.text("string_value").split(',') {
            let added = label(entry.trim()).and_then(|(label, version)| add(&mut labels, label, version));
            if let Err(message) = added {
                rules.refuse(&parameter, "string_value", format!("'{VERSION_LABELS}' {message}"), FORM.to_owned());
            }
        }
    }
    labels
}

fn add(labels: &mut BTreeMap<String, VersionNumber>, label: &str, version: VersionNumber) -> Result<(), String> {
    if labels.len() == LABELS_MAX && !labels.contains_key(label) {
        return Err(format!("has more than {LABELS_MAX} labels"));
    }
    match labels.insert(label.to_owned(), version) {
        None => Ok(()),
        Some(_) => Err(format!("has the label '{label}' twice")),
    }
}

fn label(entry: &str) -> Result<(&str, VersionNumber), String> {
    let Some((label, version)) = entry.split_once('=') else {
        return Err(format!("has '{entry}', which is no label=version"));
    };
    let (label, version) = (label.trim(), version.trim());
    if label.is_empty() {
        return Err(format!("has '{entry}', whose label is empty"));
    }
    if label.contains(FORBIDDEN) || label.contains(char::is_control) {
        return Err(format!("has the label '{label}'; a label has no '/', ':' or control character"));
    }
    let number = VersionNumber::from_folder(version);
    let number =
        number.ok_or_else(|| format!("has version '{version}' for '{label}'; it must be a number from 1 up"))?;
    Ok((label, number))
}
