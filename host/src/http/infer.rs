//! `infer`: a body in any of its forms in, outputs in the form that each is asked for out.

use std::iter::repeat;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use model::Tensor;
use tokio::time::Instant;

use super::answer;
use super::coding::{Coding, accepted_coding, compress, offering, request_coding};
use super::forward::forward_headers;
use super::request::{admit, read_decoded};
use super::v2::{Target, split};
use super::v2_json::{
    EncodedOutput, Encoding, InferAnswer, InferBody, InferContext, InferRequest, OutputForm, ParameterValue,
    RenderedAnswer, V2Error, parse_infer, render_infer,
};
use crate::classification::Classification;
use crate::failure::RequestFailure;
use crate::observed;
use crate::pipeline::{self, Waiting};
use crate::registry::{LoadedVersion, Release};
use crate::serving::ServingState;
use crate::shared_memory::RegionWrites;
use crate::tally::Tally;

/// How long the JSON of a body is.
pub(super) static JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// `POST /v2/models/{model}[/versions/{version}]/infer`.
pub(super) async fn infer(
    State(state): State<Arc<ServingState>>,
    target: Target,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut tally = Tally::open(&state);
    let release = match pin(&state, &target, &mut tally) {
        Ok(release) => release,
        Err(failure) => return answer::closing(answer::failure(&failure)),
    };
    let outcome = infer_pinned(&state, &release, (&parts.headers, body), &mut tally).await;
    finish(outcome, &release, &mut tally)
}

/// Pins the release that a path names, and counts a path that names none.
///
/// # Errors
/// As [`ModelRegistry::pin`](crate::registry::ModelRegistry::pin).
pub(super) fn pin(
    state: &ServingState,
    target: &Target,
    tally: &mut Tally<'_>,
) -> Result<Arc<Release>, RequestFailure> {
    let (model, version) = split(target);
    let pinned = state.registry.pin(model, version);
    match &pinned {
        Ok(release) => {
            tally.pinned(release);
            tally.infers();
        }
        Err(failure) => tally.failed(failure),
    }
    pinned
}

/// Makes an answer of what became of a request, and counts a failure that nobody has counted.
pub(super) fn finish(
    outcome: Result<Response<Body>, RequestFailure>,
    release: &Release,
    tally: &mut Tally<'_>,
) -> Response<Body> {
    let response = outcome.unwrap_or_else(|failure| {
        tally.failed(&failure);
        let response = offering(answer::failure(&failure), &failure);
        if tally.body_was_read() { response } else { answer::closing(response) }
    });
    answer::with_version(response, release)
}

async fn infer_pinned(
    state: &ServingState,
    release: &Release,
    (headers, body): (&HeaderMap, Body),
    tally: &mut Tally<'_>,
) -> Result<Response<Body>, RequestFailure> {
    let admitted = admit(state, headers)?;
    let body = read_infer_body(state, (headers, body), admitted.deadline, tally).await?;
    let version: &LoadedVersion = &release.version;
    let mut request = parse_infer(&body, &context(state, version))?;
    forward(state, headers, &mut request)?;
    tally.hand_over();
    let inferred = run(version, request, admitted.deadline).await?;
    let rendered = render_infer(&inferred.answer(version))?;
    // What can fail has not, but for this.
    inferred.writes.write()?;
    Ok(compressed(rendered, accepted_coding(headers)).await)
}

/// Reads a body, decompresses it, and finds its parts.
async fn read_infer_body(
    state: &ServingState,
    (headers, body): (&HeaderMap, Body),
    deadline: Instant,
    tally: &mut Tally<'_>,
) -> Result<InferBody, RequestFailure> {
    let coding = request_coding(headers)?;
    let json_length = headers.get(&JSON_LENGTH).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let what = if json_length.is_some() || coding.is_some() { "request body" } else { "request JSON" };
    let body = read_decoded(state, ((headers, body), coding), deadline, what, tally).await?;
    Ok(InferBody::split(body, json_length.as_deref())?)
}

/// What bodies for `version` are read for.
pub(super) fn context<'a>(state: &'a ServingState, version: &'a LoadedVersion) -> InferContext<'a> {
    InferContext {
        model: version.model.as_str(),
        signature: &version.signature,
        has_batch_dimension: version.has_batch_dimension(),
        data_bytes_max: state.limits.body_bytes_max,
        shared_memory: &state.shared_memory,
    }
}

/// Adds the headers to a request that are to be parameters of it.
pub(super) fn forward(
    state: &ServingState,
    headers: &HeaderMap,
    request: &mut InferRequest,
) -> Result<(), RequestFailure> {
    match &state.server.forwarded_headers {
        Some(pattern) => forward_headers(headers, pattern, &mut request.parameters),
        None => Ok(()),
    }
}

/// What became of a request that ran.
pub(super) struct Inferred {
    id: Option<String>,
    outputs: Vec<EncodedOutput>,
    /// Outputs that are not in the answer.
    writes: RegionWrites,
}

impl Inferred {
    pub(super) fn answer<'a>(&'a self, version: &'a LoadedVersion) -> InferAnswer<'a> {
        let Self { id, outputs, .. } = self;
        // As in Triton, an id without a character is none.
        let id = id.as_deref().filter(|id| !id.is_empty());
        InferAnswer { model: version.model.as_str(), version: &version.number_text, id, outputs }
    }
}

/// Runs a request; its outputs come in the form that each is asked for.
pub(super) async fn run(
    version: &LoadedVersion,
    request: InferRequest,
    deadline: Instant,
) -> Result<Inferred, RequestFailure> {
    let InferRequest { id, inputs, outputs: wanted, encoding, parameters } = request;
    id.as_deref().into_iter().for_each(observed::named);
    let inferred = pipeline::infer(version, inputs, &wanted, waiting(deadline, &parameters)).await;
    let outputs = inferred.map_err(|failure| failure.with_request_id(id.as_deref()))?;
    // Where none is asked for by name, all are wanted in one form.
    let forms = wanted.into_iter().map(|output| output.form).chain(repeat(OutputForm::Values(encoding)));
    let mut writes = RegionWrites::default();
    let deliver = |(tensor, form)| deliver(version, tensor, form, &mut writes);
    let outputs = outputs.into_iter().zip(forms).map(deliver).collect::<Result<_, _>>()?;
    Ok(Inferred { id, outputs, writes })
}

/// An output as it is asked for; one that goes into shared memory is added to `writes`.
fn deliver(
    version: &LoadedVersion,
    tensor: Tensor,
    form: OutputForm,
    writes: &mut RegionWrites,
) -> Result<EncodedOutput, RequestFailure> {
    match form {
        OutputForm::Values(encoding) => Ok(EncodedOutput { tensor, encoding }),
        OutputForm::Classes { count, encoding } => {
            let labels = version.labels.of(tensor.name()).map(|labels| &labels[..]);
            let has_batch_dimension = version.has_batch_dimension();
            let classification = Classification { classes: count, labels, has_batch_dimension };
            Ok(EncodedOutput { tensor: classification.rank(&tensor)?, encoding })
        }
        OutputForm::Region(part) => {
            writes.add(part, &tensor)?;
            Ok(EncodedOutput { tensor, encoding: Encoding::Omitted })
        }
    }
}

/// What the request's parameters say of how it waits: `priority`, and `timeout` in microseconds.
fn waiting(deadline: Instant, parameters: &[(String, ParameterValue)]) -> Waiting {
    let unsigned = |name: &str| {
        parameters.iter().find_map(|(key, value)| match value {
            ParameterValue::Unsigned(number) if key == name => Some(*number),
            _ => None,
        })
    };
    Waiting {
        deadline,
        priority: unsigned("priority").unwrap_or(0),
        timeout: unsigned("timeout").map(Duration::from_micros),
    }
}

/// The answer in the coding that its client would like best. Where that fails it goes out as it is, as in Triton.
pub(super) async fn compressed(rendered: RenderedAnswer, coding: Option<Coding>) -> Response<Body> {
    let RenderedAnswer { body, json_length } = rendered;
    let small = match coding {
        Some(coding) => compress(&body, coding).await.ok().map(|small| (small, coding)),
        None => None,
    };
    let (body, coding) = small.map_or((body, None), |(small, coding)| (small, Some(coding)));
    let mut response = answer::json(body);
    let headers = response.headers_mut();
    if let Some(length) = json_length {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(JSON_LENGTH.clone(), HeaderValue::from(length));
    }
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    response
}

impl From<V2Error> for RequestFailure {
    fn from(error: V2Error) -> Self {
        Self::new(error.code, error.text)
    }
}
