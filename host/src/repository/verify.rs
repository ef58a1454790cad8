//! Verification: every sample is run for real, with the candidate's plugin and version, through the version's normal
//! queue, and its answer is compared with what the sample promises.

use model::ErrorCode;
use tokio::time::Instant;

use super::samples::Sample;
use super::workshop::Workshop;
use crate::generation::PluginGeneration;
use crate::pipeline::{Accounting, PredictRequest, predict_with};
use crate::registry::LoadedVersion;

/// What a pair of version and plugin is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldTo {
    /// The samples' expectations as recorded: for a changed plugin, and for samples the version carries itself.
    Values,
    /// Their shape: for retrained weights, whose values differ on purpose.
    Shape,
}

/// Most differences named per sample.
const DIFFERENCES_SHOWN: usize = 5;

/// Runs `samples` and returns one text per sample that failed.
#[must_use]
pub fn verify(
    workshop: &Workshop,
    version: &LoadedVersion,
    generation: &PluginGeneration,
    samples: &[Sample],
    held_to: HeldTo,
) -> Vec<String> {
    let failed = |sample: &Sample| {
        let answer = answer_sample(workshop, version, generation, sample);
        let outcome = match held_to {
            HeldTo::Values => sample.expectation.compare(answer.status, &answer.content_type, &answer.body),
            HeldTo::Shape => sample.expectation.as_shape().compare(answer.status, &answer.content_type, &answer.body),
        };
        outcome.err().map(|differences| {
            let shown: Vec<String> = differences.iter().take(DIFFERENCES_SHOWN).map(ToString::to_string).collect();
            let reason = answer.failure.map_or_else(String::new, |text| format!(" ({text})"));
            format!("sample '{}': {}{reason}", sample.name, shown.join(", "))
        })
    };
    samples.iter().filter_map(failed).collect()
}

/// An answer to a sample, an error answer included.
pub struct SampleAnswer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
    /// Why there is no result, where there is none through the plugin's fault.
    pub failure: Option<String>,
}

/// Runs one sample. Must not be called from a serving thread, which it would block.
#[must_use]
pub fn answer_sample(
    workshop: &Workshop,
    version: &LoadedVersion,
    generation: &PluginGeneration,
    sample: &Sample,
) -> SampleAnswer {
    let request = PredictRequest {
        request_id: format!("sample-{}", sample.name),
        content_type: Some(sample.content_type.clone()),
        accept: None,
        body: sample.body.clone(),
        deadline: Instant::now() + workshop.sample_timeout,
    };
    match workshop.runtime.block_on(predict_with(version, generation, request, Accounting::Uncounted)) {
        Ok(response) => SampleAnswer {
            status: response.status,
            content_type: response.content_type,
            body: response.body.to_vec(),
            failure: None,
        },
        Err(failure) => {
            let blame = failure.code.blames_plugin() || failure.code == ErrorCode::EngineFailed;
            let rendered = failure.render();
            SampleAnswer {
                status: rendered.status,
                content_type: rendered.content_type.to_owned(),
                body: rendered.body,
                failure: blame.then_some(failure.text),
            }
        }
    }
}
