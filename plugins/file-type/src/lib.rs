//! What kind of file is this? The business end of the Magika model.
//!
//! A request is the file's bytes; the answer names its content type. The model looks at the first and the last bytes
//! only, so preprocess cuts them out; a file too short to tell is answered without the model. Postprocess picks the
//! most likely type and falls back to plain text or unknown where the model is not sure enough of it. Model, thresholds
//! and names are Magika's (Apache-2.0), and the answers are those of its Python package, version 1.0.3.

mod answer;
mod features;
mod tables;

use airlock_plugin::{Adapter, Call, Inference, PerInstance, PluginError, Prepared, Request, Response, Tensor, output};

use crate::answer::Verdict;
use crate::features::Features;
use crate::tables::Tables;

const INPUT: &str = "bytes";
const OUTPUT: &str = "target_label";

/// Media types whose body is an envelope around a file, not the file.
const ENVELOPE: &str = "multipart/";

static TABLES: PerInstance<Tables> = PerInstance::new();

struct FileType;

impl Adapter for FileType {
    fn preprocess(request: Request) -> Result<Prepared, PluginError> {
        refuse_envelopes(&request.call)?;
        let tables = TABLES.get_or_make(Tables::load)?;
        match features::extract(&request.body, &tables.model) {
            Features::Known(label) => Ok(answer::answer(&Verdict::without_model(label), tables)?.into()),
            Features::Tokens(tokens) => {
                let input = Tensor::int32(INPUT, [1, tokens.len() as u64], &tokens);
                Ok(Inference::new([input]).outputs([OUTPUT]).into())
            }
        }
    }

    fn postprocess(_call: Call, outputs: Vec<Tensor>, _carry: Vec<u8>) -> Result<Response, PluginError> {
        let tables = TABLES.get_or_make(Tables::load)?;
        let scores = output(&outputs, OUTPUT)?.as_fp32()?;
        answer::answer(&answer::judge(scores, tables)?, tables)
    }
}

fn refuse_envelopes(call: &Call) -> Result<(), PluginError> {
    let Some(content_type) = call.content_type.as_deref() else { return Ok(()) };
    let start = content_type.trim_start().get(..ENVELOPE.len());
    if start.is_some_and(|start| start.eq_ignore_ascii_case(ENVELOPE)) {
        let text =
            format!("content type `{content_type}` is an envelope around files; send the file itself as the body");
        return Err(PluginError::UnsupportedMedia(text));
    }
    Ok(())
}

airlock_plugin::export!(FileType);

#[cfg(test)]
mod tests;
