//! `GET /v1/models/{model}[/versions/{version}|/labels/{label}]`: the states of a model's versions, the highest first.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Response, Uri};
use model::{ErrorCode, VersionNumber};

use crate::failure::{RequestFailure, clipped};
use crate::http::answer;
use crate::http::path::Path;
use crate::http::servable::{Servable, VersionChoice};
use crate::http::tf_json::{VersionState, render_status};
use crate::repository::index::{IndexEntry, IndexState, index_of};
use crate::serving::ServingState;

/// All versions of a model.
pub(in crate::http) async fn status(
    state: State<Arc<ServingState>>,
    Path(model): Path<String>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    // TF Serving's names have no ':', and what has one is a verb, which is for POST.
    if model.contains(':') {
        return crate::http::wrong_method(method, uri).await;
    }
    respond(&state, Servable { model: &model, version: VersionChoice::Latest, request: (&method, &uri) })
}

/// One version.
pub(in crate::http) async fn status_version(
    state: State<Arc<ServingState>>,
    Path((model, version)): Path<(String, String)>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    if version.contains(':') {
        return crate::http::wrong_method(method, uri).await;
    }
    respond(&state, Servable { model: &model, version: VersionChoice::Number(&version), request: (&method, &uri) })
}

/// The version that a label stands for.
pub(in crate::http) async fn status_label(
    state: State<Arc<ServingState>>,
    Path((model, label)): Path<(String, String)>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    if label.contains(':') {
        return crate::http::wrong_method(method, uri).await;
    }
    respond(&state, Servable { model: &model, version: VersionChoice::Label(&label), request: (&method, &uri) })
}

/// `GET /v1/models`.
pub(in crate::http) async fn nameless() -> Response<Body> {
    let failure = RequestFailure::new(ErrorCode::MalformedRequest, "Missing model name in request.");
    answer::tf_serving_failure(&failure)
}

fn respond(state: &ServingState, servable: Servable<'_>) -> Response<Body> {
    match find(state, servable) {
        Ok(versions) => answer::json(render_status(&versions)),
        Err(failure) => answer::tf_serving_failure(&failure),
    }
}

fn find(state: &ServingState, servable: Servable<'_>) -> Result<Vec<VersionState>, RequestFailure> {
    let map = state.registry.snapshot();
    let number = match servable.version {
        VersionChoice::Latest => None,
        VersionChoice::Number(version) => Some(servable.number(version)?),
        VersionChoice::Label(label) => servable.number(&servable.labelled(&map, label)?).map(Some)?,
    };
    let entries = index_of(&map, servable.model);
    let model = clipped(servable.model);
    let not_found = |text| RequestFailure::new(ErrorCode::VersionNotFound, text);
    let Some(number) = number else {
        let versions = states_of(&entries);
        return if versions.is_empty() { Err(not_found(no_version(&model, &entries))) } else { Ok(versions) };
    };
    let is_asked_for = |version: &VersionState| version.version.is_some_and(|own| own.get() == number);
    let found: Vec<_> = states_of(&entries).into_iter().filter(is_asked_for).collect();
    if found.is_empty() {
        return Err(not_found(format!("Could not find version {number} of model {model}")));
    }
    Ok(found)
}

/// TF Serving's text, and where the model is known why it has none.
fn no_version(model: &str, entries: &[IndexEntry]) -> String {
    let text = format!("Could not find any versions of model {model}");
    match entries.iter().find_map(|entry| entry.reason.as_ref()) {
        Some(reason) => format!("{text} ({reason})"),
        None => text,
    }
}

/// The lines of the index that are about versions, and the one of a model that is being loaded.
fn states_of(entries: &[IndexEntry]) -> Vec<VersionState> {
    let mut states: Vec<_> = entries.iter().filter_map(state_of).collect();
    states.sort_by_key(|state| Reverse(state.version));
    states
}

fn state_of(entry: &IndexEntry) -> Option<VersionState> {
    let version = entry.version.as_deref().and_then(VersionNumber::from_folder);
    let (state, failure) = match entry.state? {
        IndexState::Ready => ("AVAILABLE", None),
        IndexState::Loading => return Some(VersionState { version, state: "LOADING", failure: None }),
        IndexState::Unavailable => ("END", entry.reason.clone().filter(|reason| reason != "unloaded")),
    };
    version.map(|version| VersionState { version: Some(version), state, failure })
}
