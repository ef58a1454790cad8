//! Reads `config.pbtxt`: protobuf text to a checked [`ModelConfig`]. The strict parser (prost-reflect against our own
//! descriptor) decides what the text means, `config_rules` what it may say; the forgiving scan beside them knows where
//! everything stands. A file that does not parse is searched for known mistakes, so that one look shows all of them.

mod scan;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use miette::Diagnostic as _;
use model::{AutoComplete, ModelConfig, ModelName, QueuePolicy, SessionThreads, VersionNumber};
use prost_reflect::text_format::ParseError;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor};

use super::config_rules::{MD5_PREFIX, stays_inside};
use super::declared_config::DeclaredConfig;
use super::problem::{Problem, Report};
use super::{config_mistakes, config_rules};
use crate::settings::Settings;
pub(super) use scan::{Field, Node, Value, scan};

/// Most bytes of a `config.pbtxt`; the largest seen in public repositories are below 100 KiB.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;

/// What the server settings say where a `config.pbtxt` says nothing.
#[derive(Clone, Copy, Debug)]
pub struct ConfigDefaults {
    /// Most waiting requests of a model that sets no bound of its own.
    pub max_queue_size: NonZeroUsize,
    /// Whether what a model does not say is taken from its file.
    pub auto_complete: AutoComplete,
    /// Threads of a model that names none.
    pub threads: SessionThreads,
}

impl ConfigDefaults {
    /// What the settings say.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let default_max_batch_size = settings.loading.engine.default_max_batch_size;
        let auto_complete =
            if settings.loading.is_strict { AutoComplete::Off } else { AutoComplete::On { default_max_batch_size } };
        let threads = settings.loading.session_threads();
        Self { max_queue_size: settings.max_queue_size, auto_complete, threads }
    }
}

impl Default for ConfigDefaults {
    fn default() -> Self {
        Self {
            max_queue_size: QueuePolicy::DEFAULT_MAX_QUEUE_SIZE,
            auto_complete: AutoComplete::default(),
            threads: SessionThreads::default(),
        }
    }
}

/// Whose configuration is read, and what counts where it says nothing.
#[derive(Clone, Copy, Debug)]
pub struct ConfigContext<'a> {
    /// The model, named as its folder.
    pub model: &'a ModelName,
    /// Its folder, which the files are in that a configuration names: labels and warm-up data.
    pub dir: &'a Path,
    /// The server's settings.
    pub defaults: &'a ConfigDefaults,
}

/// The engine's side of the configuration of a folder that declares nothing.
#[must_use]
pub fn default_model_config(folder_name: &ModelName, defaults: &ConfigDefaults) -> ModelConfig {
    let mut config = ModelConfig::named(folder_name.clone());
    config.batching.queue.max_queue_size = defaults.max_queue_size;
    config.auto_complete = defaults.auto_complete;
    config.session.threads = defaults.threads;
    config
}

/// Reads the text of `file`, the configuration of the model and folder that `context` names. With the configuration come
/// warnings: fields that are accepted and have no effect.
///
/// # Errors
/// Every problem, in the order of the text. Where Triton has a text for it, the message is Triton's.
pub fn parse_model_config(
    file: &Path,
    text: &str,
    context: &ConfigContext<'_>,
) -> Result<(DeclaredConfig, Vec<Problem>), Vec<Problem>> {
    // Editors of Windows begin UTF-8 with a mark that says nothing.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > CONFIG_BYTES_MAX {
        let message = format!("the file has {} bytes; it may have at most {CONFIG_BYTES_MAX}", text.len());
        return Err(vec![Problem::of_file(file, message)]);
    }
    let mut report = Report::new(file, text);
    let node = scan(text);
    match parse_strictly(text, &node) {
        Ok(message) => {
            let declared = config_rules::build(message, Some(&node), context, &mut report);
            report.finish(declared)
        }
        Err(error) => {
            let known = config_mistakes::find(&node, &mut report);
            if !known.iter().any(|span| span.contains(&error.at)) {
                report.error(error.at, "", error.message, error.fix);
            }
            report.finish(()).map(|((), _)| unreachable!("a file that does not parse has a problem"))
        }
    }
}

/// The files of the model's folder that a configuration names, labels and what has a checksum, as far as they lie in it
/// and in no version's folder, whose own they are. For the scan, which looks whether they change: cheap where there are
/// none, and forgiving.
#[must_use]
pub(super) fn files_named_in(text: &str) -> Vec<PathBuf> {
    const LABELS: &str = "label_filename";
    if !text.contains(LABELS) && !text.contains(MD5_PREFIX) {
        return Vec::new();
    }
    let mut found = Vec::new();
    scan(text).visit_texts(&mut |field, value| {
        let file = match field {
            LABELS => Some(value),
            "key" => value.strip_prefix(MD5_PREFIX),
            _ => None,
        };
        let is_versions =
            |file: &str| file.split('/').next().is_some_and(|first| VersionNumber::from_folder(first).is_some());
        found.extend(file.filter(|file| stays_inside(file) && !is_versions(file)).map(PathBuf::from));
    });
    found
}

/// `inference.ModelConfig`.
pub(super) fn descriptor() -> MessageDescriptor {
    static DESCRIPTOR: LazyLock<MessageDescriptor> = LazyLock::new(|| {
        let set = include_bytes!(concat!(env!("OUT_DIR"), "/model_config.bin"));
        let pool = DescriptorPool::decode(set.as_slice()).expect("build.rs wrote a valid descriptor set");
        pool.get_message_by_name("inference.ModelConfig").expect("model_config.proto has inference.ModelConfig")
    });
    DESCRIPTOR.clone()
}

struct SyntaxError {
    at: usize,
    message: String,
    fix: Option<String>,
}

/// Parses with the short forms Triton's own parser takes and prost-reflect's does not: a list of blocks needs no colon
/// before its bracket (`input [ { … } ]`).
fn parse_strictly(text: &str, node: &Node) -> Result<DynamicMessage, SyntaxError> {
    let mut brackets = Vec::new();
    brackets_without_colon(node, &descriptor(), &mut brackets);
    let mut completed = String::with_capacity(text.len() + brackets.len());
    let mut done = 0;
    for &bracket in &brackets {
        completed.push_str(&text[done..bracket]);
        completed.push(':');
        done = bracket;
    }
    completed.push_str(&text[done..]);
    DynamicMessage::parse_text_format(descriptor(), &completed).map_err(|error| {
        let inserted_before = |at: usize| brackets.iter().enumerate().filter(|(i, bracket)| *bracket + i < at).count();
        let at = error_position(&error).map_or(text.len(), |at| at - inserted_before(at));
        syntax_error(text, at, &error)
    })
}

fn error_position(error: &ParseError) -> Option<usize> {
    error.labels()?.next().map(|label| label.offset())
}

fn syntax_error(text: &str, at: usize, error: &ParseError) -> SyntaxError {
    let before = text.get(..at).map_or("", str::trim_end);
    if before.ends_with(',') && text[at..].starts_with(']') {
        let fix = Some("remove the comma".to_owned());
        return SyntaxError { at: before.len() - 1, message: "a list cannot end with a comma".to_owned(), fix };
    }
    SyntaxError { at, message: error.to_string(), fix: None }
}

fn brackets_without_colon(node: &Node, message: &MessageDescriptor, brackets: &mut Vec<usize>) {
    for field in &node.fields {
        let Some(descriptor) = message.get_field_by_name(&field.name) else { continue };
        let Kind::Message(inner) = descriptor.kind() else { continue };
        match &field.value {
            Value::Block(block) => brackets_without_colon(block, &inner, brackets),
            Value::List(elements) => {
                if !field.colon && (descriptor.is_list() || descriptor.is_map()) {
                    brackets.push(field.value_at);
                }
                for (_, element) in elements {
                    if let Value::Block(block) = element {
                        brackets_without_colon(block, &inner, brackets);
                    }
                }
            }
            Value::Missing | Value::Text(_) | Value::Word(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
