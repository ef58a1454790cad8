//! The business end of the fraud model.
//!
//! A request is `{"user_id", "age", "features"}`; the model's input is the features with the first one replaced by the
//! standardised age. The answer names a risk level, the confidence and the figures behind them. Reading is one pass
//! over the body into a fixed array; only a body that fails is read again, by [`problems`], to say everything that is
//! wrong with it.

mod answer;
mod application;
mod problems;

use airlock_plugin::{Adapter, Call, Inference, PluginError, Prepared, Request, Response, Tensor, output};

use crate::application::{Application, FEATURES};

const INPUT: &str = "input__0";
const OUTPUT: &str = "output__0";

struct FraudRules;

impl Adapter for FraudRules {
    fn preprocess(request: Request) -> Result<Prepared, PluginError> {
        request.call.expect_json()?;
        let application = Application::parse(&request.body)?;
        let input = Tensor::fp32(INPUT, [1, FEATURES as u64], &application.model_input());
        Ok(Inference::new([input]).carry(application.age.to_le_bytes()).into())
    }

    fn postprocess(_call: Call, outputs: Vec<Tensor>, carry: Vec<u8>) -> Result<Response, PluginError> {
        let age = <[u8; 8]>::try_from(carry.as_slice())
            .map_err(|_| PluginError::internal(format!("{} bytes were carried, the age takes 8", carry.len())))?;
        let scores = output(&outputs, OUTPUT)?.as_fp32()?;
        let score = scores.get(1).ok_or_else(|| {
            PluginError::internal(format!("`{OUTPUT}` has {} elements, the score is the second", scores.len()))
        })?;
        answer::answer(score, f64::from_le_bytes(age))
    }
}

airlock_plugin::export!(FraudRules);

#[cfg(test)]
mod tests;
