//! `airlock.padding.…`: the parameters that let requests of different lengths share a batch. Each value is words of the
//! form `key=value`. What the parameters name is checked here where the configuration declares all tensors, and against
//! the model's file when it is loaded.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use model::{
    Boundaries, Buckets, CutOutput, FilledInput, FilledKind, ModelConfig, PadTo, PaddedInput, PaddingConfig, Signature,
    TensorConfig, TensorSpec,
};

use super::super::problem::did_you_mean;
use super::Rules;
use super::block::Block;

/// What all keys begin with.
pub(super) const PREFIX: &str = "airlock.padding.";
/// Most boundaries of one length.
const BOUNDARIES_MAX: usize = 256;
/// Largest boundary, step and axis.
const LENGTH_MAX: u64 = 1 << 31;

/// The forms that a key can have after [`PREFIX`], for messages.
const FORMS: &str = "airlock.padding.input.<input>, airlock.padding.mask.<input>, airlock.padding.lengths.<input>, \
                     airlock.padding.output.<output>, airlock.padding.buckets and airlock.padding.buckets.<length>";

/// Reads the padding parameters.
pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> PaddingConfig {
    let mut padding = PaddingConfig::default();
    for (key, parameter) in root.entries("parameters") {
        if let Some(rest) = key.strip_prefix(PREFIX) {
            Parameter { key: &key, block: &parameter }.read(rest, &mut padding, rules);
        }
    }
    padding
}

/// Checks what the parameters name, where the configuration says it all.
pub(super) fn check(root: &Block<'_>, config: &ModelConfig, rules: &mut Rules<'_, '_>) {
    let is_whole = |tensors: &[TensorConfig], field| !tensors.is_empty() && tensors.len() == root.blocks(field).len();
    if config.padding.is_empty() || !is_whole(&config.inputs, "input") || !is_whole(&config.outputs, "output") {
        return;
    }
    let signature = Signature { inputs: specs(&config.inputs), outputs: specs(&config.outputs), optional_inputs: 0 };
    let Err(errors) = config.padding.resolve(&signature, config.max_batch_size) else { return };
    let parameters: BTreeMap<_, _> = root.entries("parameters").into_iter().collect();
    for error in errors {
        if let Some(parameter) = parameters.get(&error.parameter) {
            rules.refuse(parameter, "string_value", error.fault.to_string(), error.fault.fix());
        }
    }
}

fn specs(tensors: &[TensorConfig]) -> Vec<TensorSpec> {
    let spec = |tensor: &TensorConfig| TensorSpec {
        name: Arc::clone(&tensor.name),
        data_type: tensor.data_type,
        shape: std::iter::once(-1).chain(tensor.dims.iter().copied()).collect(),
    };
    tensors.iter().map(spec).collect()
}

/// One parameter while it is read.
struct Parameter<'p> {
    key: &'p str,
    block: &'p Block<'p>,
}

/// The words of a value, by key.
type Words<'p> = BTreeMap<&'static str, &'p str>;

impl<'p> Parameter<'p> {
    fn read(&self, rest: &str, padding: &mut PaddingConfig, rules: &mut Rules<'_, '_>) {
        let (form, name) = rest.split_once('.').unwrap_or((rest, ""));
        let name: Arc<str> = name.into();
        match (form, name.is_empty()) {
            ("input", false) => {
                let mut words = self.words(&["length", "axis", "value"], rules);
                let value = words.remove("value").map(str::to_owned);
                let input = PaddedInput { length: self.length(&words, rules), axis: self.axis(&words, rules), value };
                padding.inputs.insert(name, input);
            }
            ("mask", false) => self.fill(&name, FilledKind::Mask, (padding, rules)),
            ("lengths", false) => self.fill(&name, FilledKind::Lengths, (padding, rules)),
            ("output", false) => {
                let words = self.words(&["length", "axis"], rules);
                let output = CutOutput { length: self.length(&words, rules), axis: self.axis(&words, rules) };
                padding.outputs.insert(name, output);
            }
            ("buckets", is_default) => {
                let length = if is_default { PaddingConfig::DEFAULT_LENGTH.into() } else { name };
                let buckets = self.buckets(rules);
                if padding.buckets.insert(Arc::clone(&length), buckets).is_some() {
                    let message = format!("the buckets of length '{length}' are given twice");
                    self.refuse(rules, message, "keep one of the two parameters".to_owned());
                }
            }
            _ => {
                let place = self.block.own_path();
                let fix = format!("known: {FORMS}");
                rules.report.error(self.block.own_at(), place, format!("unknown parameter '{}'", self.key), fix);
            }
        }
    }

    fn fill(&self, name: &Arc<str>, kind: FilledKind, (padding, rules): (&mut PaddingConfig, &mut Rules<'_, '_>)) {
        let words = self.words(&["length"], rules);
        let filled = FilledInput { length: self.length(&words, rules), kind };
        if padding.filled.insert(Arc::clone(name), filled).is_some() {
            let message = format!("input '{name}' is filled in as a mask and as lengths");
            self.refuse(rules, message, "keep one of the two parameters".to_owned());
        }
    }

    fn refuse(&self, rules: &mut Rules<'_, '_>, message: String, fix: impl Into<Option<String>>) {
        rules.refuse(self.block, "string_value", message, fix);
    }

    /// The words of the value by key, of the keys that are `known`.
    fn words(&self, known: &[&'static str], rules: &mut Rules<'_, '_>) -> Words<'p> {
        let mut words = BTreeMap::new();
        for word in self.block.text("string_value").split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let Some(&key) = known.iter().find(|known| **known == key) else {
                let fix = did_you_mean(key, known.iter().copied());
                let fix = fix.unwrap_or_else(|| format!("write {}=…", known.join("=… or ")));
                self.refuse(rules, format!("'{}' has the word '{word}', which it does not know", self.key), fix);
                continue;
            };
            if words.insert(key, value).is_some() {
                self.refuse(rules, format!("'{}' has '{key}' twice", self.key), "keep one of them".to_owned());
            }
        }
        words
    }

    fn length(&self, words: &Words<'_>, rules: &mut Rules<'_, '_>) -> Arc<str> {
        match words.get("length").copied() {
            None => PaddingConfig::DEFAULT_LENGTH.into(),
            Some("") => {
                self.refuse(
                    rules,
                    format!("'{}' has an empty length", self.key),
                    "write length=tokens, say".to_owned(),
                );
                PaddingConfig::DEFAULT_LENGTH.into()
            }
            Some(length) => length.into(),
        }
    }

    fn axis(&self, words: &Words<'_>, rules: &mut Rules<'_, '_>) -> Option<usize> {
        let axis = words.get("axis")?;
        let number = self.number(("axis", axis), 0, rules)?;
        usize::try_from(number).ok()
    }

    fn number(&self, (word, text): (&str, &str), least: u64, rules: &mut Rules<'_, '_>) -> Option<u64> {
        let number = text.parse::<u64>().ok().filter(|number| (least..=LENGTH_MAX).contains(number));
        if number.is_none() {
            let message =
                format!("'{}' has {word} '{text}'; it must be a whole number from {least} to {LENGTH_MAX}", self.key);
            self.refuse(rules, message, None);
        }
        number
    }

    fn buckets(&self, rules: &mut Rules<'_, '_>) -> Buckets {
        let words = self.words(&["boundaries", "step", "pad_to"], rules);
        let boundaries = match (words.get("boundaries"), words.get("step")) {
            (Some(_), Some(_)) => {
                self.refuse(rules, format!("'{}' has boundaries and a step", self.key), "keep one of them".to_owned());
                None
            }
            (Some(listed), None) => self.listed(listed, rules),
            (None, Some(step)) => self.number(("step", step), 1, rules).and_then(NonZeroU64::new).map(Boundaries::Step),
            (None, None) => None,
        };
        let pad_to = match words.get("pad_to").copied() {
            None | Some("longest") => PadTo::Longest,
            Some("boundary") => PadTo::Boundary,
            Some(other) => {
                let message = format!("'{}' has pad_to '{other}'; it must be longest or boundary", self.key);
                self.refuse(rules, message, did_you_mean(other, ["longest", "boundary"]));
                PadTo::Longest
            }
        };
        Buckets { boundaries: boundaries.unwrap_or_default(), pad_to }
    }

    fn listed(&self, text: &str, rules: &mut Rules<'_, '_>) -> Option<Boundaries> {
        let listed =
            text.split(',').map(|number| self.number(("boundary", number), 1, rules)).collect::<Option<Vec<_>>>()?;
        if listed.len() > BOUNDARIES_MAX {
            let message = format!("'{}' has {} boundaries; it may have {BOUNDARIES_MAX}", self.key, listed.len());
            self.refuse(rules, message, "write step=…, or fewer".to_owned());
        }
        if let Some(pair) = listed.windows(2).find(|pair| pair[0] >= pair[1]) {
            let message = format!("'{}' has boundary {} after {}; they must ascend", self.key, pair[1], pair[0]);
            self.refuse(rules, message, None);
        }
        Some(Boundaries::Listed(listed))
    }
}
