//! `POST /v1/models/{model}[/versions/{version}|/labels/{label}]:predict`: a business request through the model's plugin,
//! or TF Serving's predict where the model has none. The router knows no suffixes, so a route captures the last segment
//! and splits it at its last ':'.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, Response, header};
use model::ErrorCode;

use super::answer;
use super::coding::offering;
use super::path::Path;
use super::request::{admit, read_body};
use super::servable::{Dialect, Servable, VersionChoice};
use super::tf_serving;
use crate::failure::RequestFailure;
use crate::observed;
use crate::pipeline::{self, PredictRequest};
use crate::registry::Release;
use crate::request_id::made_id;
use crate::serving::ServingState;
use crate::tally::Tally;

/// Predict on the version that serves by default.
pub(super) async fn predict(
    State(state): State<Arc<ServingState>>,
    Path(segment): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    match split_verb(&segment) {
        Ok(model) => run(&state, (model, VersionChoice::Latest), request).await,
        Err((failure, dialect)) => dialect.answer(&failure),
    }
}

/// Predict on a version.
pub(super) async fn predict_version(
    State(state): State<Arc<ServingState>>,
    Path((model, segment)): Path<(String, String)>,
    request: Request<Body>,
) -> Response<Body> {
    match split_verb(&segment) {
        Ok(version) => run(&state, (&model, VersionChoice::Number(version)), request).await,
        Err((failure, dialect)) => dialect.answer(&failure),
    }
}

/// Predict on the version that a label stands for.
pub(super) async fn predict_label(
    State(state): State<Arc<ServingState>>,
    Path((model, segment)): Path<(String, String)>,
    request: Request<Body>,
) -> Response<Body> {
    match split_verb(&segment) {
        Ok(label) => run(&state, (&model, VersionChoice::Label(label)), request).await,
        Err((failure, dialect)) => dialect.answer(&failure),
    }
}

/// Takes `:predict` off a segment.
fn split_verb(segment: &str) -> Result<&str, (RequestFailure, Dialect)> {
    let text = match segment.rsplit_once(':') {
        Some((name, "predict")) => return Ok(name),
        Some((_, verb @ ("classify" | "regress"))) => {
            return Err((tf_serving::no_examples(verb), Dialect::TfServing));
        }
        Some((_, verb)) => format!("Not Found: no verb ':{verb}'; this server knows ':predict'"),
        None => "Not Found: the path ends without ':predict'".to_owned(),
    };
    Err((RequestFailure::new(ErrorCode::RouteNotFound, text), Dialect::Host))
}

async fn run(
    state: &ServingState,
    (model, version): (&str, VersionChoice<'_>),
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut tally = Tally::open(state);
    let servable = Servable { model, version, request: (&parts.method, &parts.uri) };
    let release = match servable.pin(&state.registry) {
        Ok(release) => release,
        Err((failure, dialect)) => {
            tally.failed(&failure);
            return answer::closing(dialect.answer(&failure));
        }
    };
    tally.pinned(&release);
    let dialect = Dialect::of(&release);
    let outcome = match dialect {
        Dialect::Host => through_plugin(state, &release, (&parts.headers, body), &mut tally).await,
        Dialect::TfServing => tf_serving::predict(state, &release, (&parts.headers, body), &mut tally).await,
    };
    let response = outcome.unwrap_or_else(|failure| {
        tally.failed(&failure);
        let response = dialect.answer(&failure);
        let response = if dialect == Dialect::TfServing { offering(response, &failure) } else { response };
        if tally.body_was_read() { response } else { answer::closing(response) }
    });
    answer::with_release(response, &release)
}

async fn through_plugin(
    state: &ServingState,
    release: &Release,
    (headers, body): (&HeaderMap, Body),
    tally: &mut Tally<'_>,
) -> Result<Response<Body>, RequestFailure> {
    let admitted = admit(state, headers)?;
    let body = read_body(state, (headers, body), admitted.deadline, "request body").await?;
    tally.body_read();
    let request = PredictRequest {
        request_id: observed::request_id().unwrap_or_else(made_id),
        content_type: text_header(headers, &header::CONTENT_TYPE),
        accept: text_header(headers, &header::ACCEPT),
        body,
        deadline: admitted.deadline,
    };
    tally.hand_over();
    pipeline::predict(release, request).await.map(answer::from_plugin)
}

fn text_header(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}
