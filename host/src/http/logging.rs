//! `GET` and `POST /v2/logging`: what the server logs and in which format. Source: Triton's logging extension.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use serde_json::Value;

use super::answer;
use super::request::read_object;
use crate::failure::RequestFailure;
use crate::logging::settings::{self, LogValue, LogValueKind};
use crate::serving::ServingState;

/// The settings.
pub(super) async fn read() -> Response<Body> {
    answer::json(serde_json::to_vec(&settings::read()).expect("numbers and strings always serialize"))
}

/// Changes settings; answers with what holds then.
pub(super) async fn update(State(state): State<Arc<ServingState>>, request: Request<Body>) -> Response<Body> {
    match change(&state, request).await {
        Ok(()) => read().await,
        Err(failure) => answer::failure(&failure),
    }
}

async fn change(state: &ServingState, request: Request<Body>) -> Result<(), RequestFailure> {
    let members = read_object(state, request).await?;
    // As in Triton, null says nothing.
    let said = members.into_iter().filter(|(_, value)| !value.is_null());
    let changes: Vec<_> = said.map(|(key, value)| (key, log_value(value))).collect();
    settings::update(&changes, wrong_type)
}

fn log_value(value: Value) -> LogValue {
    let level = value.as_u64().and_then(|level| u32::try_from(level).ok());
    match value {
        Value::Bool(on) => LogValue::Bool(on),
        Value::String(text) => LogValue::Text(text),
        _ => level.map_or(LogValue::Other, LogValue::Unsigned),
    }
}

/// The text is Triton's.
fn wrong_type(_key: &str, kind: LogValueKind) -> String {
    let name = match kind {
        LogValueKind::Bool => "boolean",
        LogValueKind::Unsigned => "unsigned-integer",
        LogValueKind::Text => "string",
    };
    format!("attempt to access JSON non-{name} as {name}")
}
