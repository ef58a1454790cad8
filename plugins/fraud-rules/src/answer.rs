//! The business answer to one score.

use std::fmt::Write;

use airlock_plugin::{PluginError, Response};
use serde::Serialize;

/// Below this score the risk is low.
const SCORE_LOW_BELOW: f64 = 0.4;

/// Below this score the risk is medium, from it on it is high.
const SCORE_MEDIUM_BELOW: f64 = 0.6;

#[derive(Serialize)]
struct Answer<'a> {
    risk_level: &'static str,
    confidence: f64,
    explain: &'a str,
}

/// The answer to the model's score for an applicant of this age.
pub(crate) fn answer(score: f32, age: f64) -> Result<Response, PluginError> {
    if !score.is_finite() {
        return Err(PluginError::internal(format!("the model's score is {score}")));
    }
    let score = f64::from(score);
    let mut explain = String::with_capacity(32);
    let written = write!(explain, "score {score:.4}; age ").and_then(|()| write_general(&mut explain, age));
    written.map_err(|error| PluginError::internal(format!("the explanation cannot be written: {error}")))?;
    Response::json(&Answer {
        risk_level: risk_level(score),
        confidence: rounded(score.max(1.0 - score)),
        explain: &explain,
    })
}

fn risk_level(score: f64) -> &'static str {
    if score < SCORE_LOW_BELOW {
        "low"
    } else if score < SCORE_MEDIUM_BELOW {
        "medium"
    } else {
        "high"
    }
}

/// The number nearest to the value rounded to 4 decimals, ties to even: decimal text does it exactly, scaling by 10,000
/// does not.
fn rounded(value: f64) -> f64 {
    format!("{value:.4}").parse().unwrap_or(value)
}

/// Writes a number as C's `%g` does: 6 significant digits, trailing zeros dropped, an exponent where it is below -4 or
/// above 5.
pub(crate) fn write_general(out: &mut String, value: f64) -> std::fmt::Result {
    const SIGNIFICANT: i32 = 6;
    if value.fract() == 0.0 && value.abs() < 1e6 {
        return write!(out, "{value}");
    }
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return out.write_str(&scientific) };
    let exponent: i32 = exponent.parse().map_err(|_| std::fmt::Error)?;
    if (-4..SIGNIFICANT).contains(&exponent) {
        let decimals = usize::try_from(SIGNIFICANT - 1 - exponent).map_err(|_| std::fmt::Error)?;
        return out.write_str(without_trailing_zeros(&format!("{value:.decimals$}")));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{}e{sign}{:02}", without_trailing_zeros(digits), exponent.abs())
}

fn without_trailing_zeros(decimal: &str) -> &str {
    if decimal.contains('.') { decimal.trim_end_matches('0').trim_end_matches('.') } else { decimal }
}
