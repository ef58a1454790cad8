//! From the model's scores to the business answer.

use airlock_plugin::{Elements, PluginError, Response};
use serde::Serialize;

use crate::tables::{Mode, TEXT, Tables, UNDEFINED, UNKNOWN};

/// Why the answer is not what the model said.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    None,
    /// The model was not sure enough.
    LowConfidence,
    /// The label always stands for another one.
    OverwriteMap,
}

/// What is answered, and what the model said.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict<'a> {
    pub(crate) label: &'a str,
    pub(crate) model_label: &'a str,
    pub(crate) score: f32,
    pub(crate) overwrite: Reason,
}

impl Verdict<'static> {
    /// A label that needed no model.
    pub(crate) fn without_model(label: &'static str) -> Self {
        Self { label, model_label: UNDEFINED, score: 1.0, overwrite: Reason::None }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    label: &'a str,
    score: f32,
    mime_type: &'a str,
    group: &'a str,
    description: &'a str,
    extensions: &'a [String],
    is_text: bool,
    model_label: &'a str,
    overwrite_reason: Reason,
}

/// Picks the most likely label, the first where several are, and decides whether to believe it.
pub(crate) fn judge<'a>(scores: Elements<'_, f32>, tables: &'a Tables) -> Result<Verdict<'a>, PluginError> {
    let labels = &tables.model.target_labels_space;
    if scores.len() != labels.len() {
        let text = format!("the model answered {} scores, there are {} labels", scores.len(), labels.len());
        return Err(PluginError::internal(text));
    }
    let mut scored = labels.iter().zip(scores.iter());
    let first = scored.next().ok_or_else(|| PluginError::internal("the model has no labels"))?;
    let (model_label, score) = scored.fold(first, |best, next| if next.1 > best.1 { next } else { best });
    believe(model_label, score, tables)
}

fn believe<'a>(model_label: &'a str, score: f32, tables: &'a Tables) -> Result<Verdict<'a>, PluginError> {
    let label = tables.model.overwrite_map.get(model_label).map_or(model_label, String::as_str);
    if threshold(model_label, tables).is_none_or(|threshold| f64::from(score) >= threshold) {
        let overwrite = if label == model_label { Reason::None } else { Reason::OverwriteMap };
        return Ok(Verdict { label, model_label, score, overwrite });
    }
    // The model is trusted to tell text from the rest even where it is not sure of the type.
    let label = if tables.content_type(label)?.is_text { TEXT } else { UNKNOWN };
    let overwrite = if label == model_label { Reason::None } else { Reason::LowConfidence };
    Ok(Verdict { label, model_label, score, overwrite })
}

/// The score from which a label is believed; none where it always is.
fn threshold(label: &str, tables: &Tables) -> Option<f64> {
    let medium = tables.model.medium_confidence_threshold;
    match tables.mode {
        Mode::HighConfidence => Some(tables.model.thresholds.get(label).copied().unwrap_or(medium)),
        Mode::MediumConfidence => Some(medium),
        Mode::BestGuess => None,
    }
}

/// The business answer to a verdict.
pub(crate) fn answer(verdict: &Verdict<'_>, tables: &Tables) -> Result<Response, PluginError> {
    let content_type = tables.content_type(verdict.label)?;
    Response::json(&Answer {
        label: verdict.label,
        score: verdict.score,
        mime_type: content_type.mime_type(),
        group: content_type.group(),
        description: content_type.description(verdict.label),
        extensions: &content_type.extensions,
        is_text: content_type.is_text,
        model_label: verdict.model_label,
        overwrite_reason: verdict.overwrite,
    })
}
