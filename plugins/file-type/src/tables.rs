//! What the answers are made from: the model's parameters and the content types, read from `assets/` once per instance.

use std::collections::HashMap;

use airlock_plugin::{PluginError, config};
use serde::Deserialize;

/// The model's parameters, as Magika publishes them.
pub(crate) const MODEL_FILE: &str = "config.min.json";

/// The content types by label, as Magika publishes them.
pub(crate) const CONTENT_TYPES_FILE: &str = "content_types_kb.min.json";

/// Labels that are answered without the model, or where it is not sure.
pub(crate) const EMPTY: &str = "empty";
pub(crate) const TEXT: &str = "txt";
pub(crate) const UNKNOWN: &str = "unknown";
pub(crate) const UNDEFINED: &str = "undefined";

/// Everything that is read once.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) model: Model,
    pub(crate) mode: Mode,
    content_types: HashMap<String, ContentType>,
}

/// The parameters that go with the model's weights.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    /// How many tokens come from the start of the file, and how many from its end.
    pub(crate) beg_size: usize,
    pub(crate) end_size: usize,
    mid_size: usize,
    use_inputs_at_offsets: bool,
    /// How many bytes at either end are looked at, before white space is cut off.
    pub(crate) block_size: usize,
    /// The token that stands for no byte.
    pub(crate) padding_token: i32,
    /// The fewest bytes worth showing to the model.
    pub(crate) min_file_size_for_dl: usize,
    pub(crate) medium_confidence_threshold: f64,
    /// The label of each output of the model.
    pub(crate) target_labels_space: Vec<String>,
    /// The score from which a label is believed, where it is not the medium one.
    pub(crate) thresholds: HashMap<String, f64>,
    /// Labels that are answered as another one.
    pub(crate) overwrite_map: HashMap<String, String>,
}

/// How sure the model must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each label's own threshold.
    HighConfidence,
    /// One threshold for all.
    MediumConfidence,
    /// Not at all: its first choice counts.
    BestGuess,
}

/// What is known of a content type.
#[derive(Debug, Deserialize)]
pub(crate) struct ContentType {
    mime_type: Option<String>,
    group: Option<String>,
    description: Option<String>,
    pub(crate) extensions: Vec<String>,
    pub(crate) is_text: bool,
}

impl Tables {
    /// Reads the assets and the setting `prediction_mode`.
    pub(crate) fn load() -> Result<Self, PluginError> {
        let model: Model = config::asset_json(MODEL_FILE)?;
        model.check()?;
        Ok(Self { model, mode: Mode::load()?, content_types: config::asset_json(CONTENT_TYPES_FILE)? })
    }

    /// What is known of a label.
    pub(crate) fn content_type(&self, label: &str) -> Result<&ContentType, PluginError> {
        self.content_types
            .get(label)
            .ok_or_else(|| PluginError::internal(format!("assets/{CONTENT_TYPES_FILE} has no content type `{label}`")))
    }
}

impl Model {
    /// Refuses parameters of a model that looks at a file in ways this plugin does not know.
    fn check(&self) -> Result<(), PluginError> {
        if self.mid_size != 0 || self.use_inputs_at_offsets {
            return Err(PluginError::internal(format!(
                "assets/{MODEL_FILE} asks for tokens from the middle of files; this plugin takes them from both ends"
            )));
        }
        if self.min_file_size_for_dl == 0 || self.min_file_size_for_dl > self.beg_size {
            return Err(PluginError::internal(format!(
                "assets/{MODEL_FILE}: min_file_size_for_dl is {}, it must be from 1 to beg_size, {}",
                self.min_file_size_for_dl, self.beg_size
            )));
        }
        Ok(())
    }
}

impl Mode {
    fn load() -> Result<Self, PluginError> {
        match config::get("prediction_mode").as_deref() {
            None | Some("high_confidence") => Ok(Self::HighConfidence),
            Some("medium_confidence") => Ok(Self::MediumConfidence),
            Some("best_guess") => Ok(Self::BestGuess),
            Some(other) => Err(PluginError::internal(format!(
                "`prediction_mode` under [config] in plugin.toml is `{other}`; there are high_confidence, \
                 medium_confidence and best_guess"
            ))),
        }
    }
}

impl ContentType {
    /// The media type; a type without one of its own is plain text or just bytes.
    pub(crate) fn mime_type(&self) -> &str {
        let otherwise = if self.is_text { "text/plain" } else { "application/octet-stream" };
        self.mime_type.as_deref().unwrap_or(otherwise)
    }

    /// The kind of content, such as `code` or `archive`.
    pub(crate) fn group(&self) -> &str {
        self.group.as_deref().unwrap_or("unknown")
    }

    /// A few words for people; the label where there are none.
    pub(crate) fn description<'a>(&'a self, label: &'a str) -> &'a str {
        self.description.as_deref().unwrap_or(label)
    }
}
