//! Predict: a body of rows or columns in, the same form out.

use axum::body::Body;
use axum::http::{HeaderMap, Response};

use crate::failure::RequestFailure;
use crate::http::coding::{accepted_coding, request_coding};
use crate::http::infer::compressed;
use crate::http::request::{admit, read_decoded};
use crate::http::tf_json::{PredictContext, parse_predict, render_predict};
use crate::http::v2_json::RenderedAnswer;
use crate::pipeline::{self, Waiting};
use crate::registry::{LoadedVersion, Release};
use crate::serving::ServingState;
use crate::tally::Tally;

/// Answers a request to a pinned release with all its outputs.
///
/// # Errors
/// A [`RequestFailure`] with TF Serving's text where it has one.
pub(in crate::http) async fn predict(
    state: &ServingState,
    release: &Release,
    (headers, body): (&HeaderMap, Body),
    tally: &mut Tally<'_>,
) -> Result<Response<Body>, RequestFailure> {
    tally.infers();
    let coding = request_coding(headers)?;
    let admitted = admit(state, headers)?;
    let what = if coding.is_some() { "request body" } else { "request JSON" };
    let body = read_decoded(state, ((headers, body), coding), admitted.deadline, what, tally).await?;
    let version: &LoadedVersion = &release.version;
    let context = PredictContext { signature: &version.signature, data_bytes_max: state.limits.body_bytes_max };
    let request = parse_predict(&body, &context)?;
    tally.hand_over();
    let all: [&str; 0] = [];
    let outputs = pipeline::infer(version, request.inputs, &all, Waiting::until(admitted.deadline)).await?;
    let body = render_predict(&outputs, request.format)?;
    Ok(compressed(RenderedAnswer { body, json_length: None }, accepted_coding(headers)).await)
}
