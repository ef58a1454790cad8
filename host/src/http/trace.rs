//! `GET` and `POST /v2/trace/setting` and `/v2/models/{model}/trace/setting`: which requests are traced. Source: Triton's
//! trace extension.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, Response};
use model::ErrorCode;
use serde_json::{Map, Value};

use super::answer;
use super::request::read_object;
use crate::failure::RequestFailure;
use crate::observed::TraceChange;
use crate::serving::ServingState;

/// The settings of all models.
pub(super) async fn read(State(state): State<Arc<ServingState>>) -> Response<Body> {
    show(&state, None)
}

/// The settings of one model.
pub(super) async fn read_of_model(State(state): State<Arc<ServingState>>, Path(model): Path<String>) -> Response<Body> {
    match state.known_model(&model) {
        Ok(()) => show(&state, Some(&model)),
        Err(failure) => answer::failure(&failure),
    }
}

/// Changes the settings of all models; answers with what holds then.
pub(super) async fn update(State(state): State<Arc<ServingState>>, request: Request<Body>) -> Response<Body> {
    change(&state, None, request).await
}

/// Changes the settings of one model, likewise.
pub(super) async fn update_of_model(
    State(state): State<Arc<ServingState>>,
    Path(model): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    match state.known_model(&model) {
        Ok(()) => change(&state, Some(&model), request).await,
        Err(failure) => answer::closing(answer::failure(&failure)),
    }
}

async fn change(state: &ServingState, model: Option<&str>, request: Request<Body>) -> Response<Body> {
    let members = read_object(state, request).await;
    let changes = members.and_then(|members| members.into_iter().map(read_change).collect::<Result<Vec<_>, _>>());
    match changes.and_then(|changes| state.observer.sampling.update(model, &changes)) {
        Ok(()) => show(state, model),
        Err(failure) => answer::failure(&failure),
    }
}

/// `trace_level` is a list of texts, all else one text; null takes back what was said.
fn read_change((key, value): (String, Value)) -> Result<TraceChange, RequestFailure> {
    let wrong = |kind| {
        let text = format!("attempt to access JSON non-{kind} as {kind}");
        RequestFailure::new(ErrorCode::MalformedRequest, text)
    };
    let text = |value| match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong("string")),
    };
    let values = match value {
        Value::Null => None,
        Value::Array(values) if key == "trace_level" => Some(values.into_iter().map(text).collect::<Result<_, _>>()?),
        _ if key == "trace_level" => return Err(wrong("array")),
        value => Some(vec![text(value)?]),
    };
    Ok((key, values))
}

fn show(state: &ServingState, model: Option<&str>) -> Response<Body> {
    let members = state.observer.sampling.view(model).into_iter().map(|(key, mut values)| {
        let value = if key == "trace_level" { Value::from(values) } else { Value::from(values.swap_remove(0)) };
        (key.to_owned(), value)
    });
    answer::json(Value::Object(members.collect::<Map<_, _>>()).to_string().into_bytes())
}
