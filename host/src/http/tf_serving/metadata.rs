//! `GET /v1/models/{model}[/versions/{version}|/labels/{label}]/metadata`: inputs and outputs of a version that serves.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Response, Uri};

use crate::http::answer;
use crate::http::path::Path;
use crate::http::servable::{Servable, VersionChoice};
use crate::http::tf_json::render_metadata;
use crate::serving::ServingState;

/// Of the version that serves by default.
pub(in crate::http) async fn metadata(
    State(state): State<Arc<ServingState>>,
    Path(model): Path<String>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    respond(&state, Servable { model: &model, version: VersionChoice::Latest, request: (&method, &uri) })
}

/// Of a version.
pub(in crate::http) async fn metadata_version(
    State(state): State<Arc<ServingState>>,
    Path((model, version)): Path<(String, String)>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    respond(&state, Servable { model: &model, version: VersionChoice::Number(&version), request: (&method, &uri) })
}

/// Of the version that a label stands for.
pub(in crate::http) async fn metadata_label(
    State(state): State<Arc<ServingState>>,
    Path((model, label)): Path<(String, String)>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    respond(&state, Servable { model: &model, version: VersionChoice::Label(&label), request: (&method, &uri) })
}

fn respond(state: &ServingState, servable: Servable<'_>) -> Response<Body> {
    match servable.pin_for_tf_serving(&state.registry) {
        Ok(release) => {
            let version = &release.version;
            let body = render_metadata(version.model.as_str(), &version.number_text, &version.signature);
            answer::with_version(answer::json(body), &release)
        }
        Err(failure) => answer::tf_serving_failure(&failure),
    }
}
