//! The HTTP surface: routes, envelopes and headers. It decodes, calls `pipeline` or `registry`, and encodes; there is no
//! business rule here. [`router`] is the whole application as a `tower` service, so tests call it without a socket.

mod answer;
mod coding;
mod forward;
mod generate;
mod infer;
mod json;
mod logging;
mod metrics_page;
mod observe;
mod predict;
mod repository;
mod request;
mod restrict;
mod servable;
pub mod server;
mod statistics;
pub mod tf_json;
mod tf_serving;
mod trace;
mod v2;
pub mod v2_json;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use model::ErrorCode;

use crate::failure::RequestFailure;
use crate::serving::ServingState;

pub use metrics_page::{metrics_router, metrics_text};

/// Every route of the HTTP port.
pub fn router(state: Arc<ServingState>) -> Router {
    let routes = Router::new()
        .route("/v2", get(v2::server_metadata))
        .route("/v2/health/live", get(v2::live))
        .route("/v2/health/ready", get(v2::ready))
        .route("/v2/models/stats", get(statistics::all))
        .route("/v2/models/{model}", get(v2::model_metadata))
        .route("/v2/models/{model}/stats", get(statistics::of_model))
        .route("/v2/models/{model}/versions/{version}/stats", get(statistics::of_model))
        .route("/v2/models/{model}/ready", get(v2::model_ready))
        .route("/v2/models/{model}/config", get(v2::model_config))
        .route("/v2/models/{model}/infer", post(infer::infer))
        .route("/v2/models/{model}/generate", post(generate::generate))
        .route("/v2/models/{model}/generate_stream", post(generate::generate_stream))
        .route("/v2/models/{model}/versions/{version}", get(v2::model_metadata))
        .route("/v2/models/{model}/versions/{version}/ready", get(v2::model_ready))
        .route("/v2/models/{model}/versions/{version}/config", get(v2::model_config))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer::infer))
        .route("/v2/models/{model}/versions/{version}/generate", post(generate::generate))
        .route("/v2/models/{model}/versions/{version}/generate_stream", post(generate::generate_stream))
        .route("/v2/repository/index", post(repository::index))
        .route("/v2/repository/models/{model}/load", post(repository::load))
        .route("/v2/repository/models/{model}/unload", post(repository::unload))
        .route("/v2/repository/models//load", post(repository::load_nameless))
        .route("/v2/repository/models//unload", post(repository::unload_nameless))
        .route("/v2/repository/{repository}/index", post(repository::named))
        .route("/v2/repository/{repository}/models/{model}/{verb}", post(repository::named))
        .route("/v2/trace/setting", get(trace::read).post(trace::update))
        .route("/v2/models/{model}/trace/setting", get(trace::read_of_model).post(trace::update_of_model))
        .route("/v2/logging", get(logging::read).post(logging::update))
        .route("/v1/models", get(tf_serving::nameless))
        .route("/v1/models/{segment}", post(predict::predict).get(tf_serving::status))
        .route("/v1/models/{model}/metadata", get(tf_serving::metadata))
        .route("/v1/models/{model}/versions/{segment}", post(predict::predict_version).get(tf_serving::status_version))
        .route("/v1/models/{model}/versions/{version}/metadata", get(tf_serving::metadata_version))
        .route("/v1/models/{model}/labels/{segment}", post(predict::predict_label).get(tf_serving::status_label))
        .route("/v1/models/{model}/labels/{label}/metadata", get(tf_serving::metadata_label))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method);
    let routes = if state.server.restricted.is_empty() {
        routes
    } else {
        routes.layer(from_fn_with_state(Arc::clone(&state), restrict::check))
    };
    routes.layer(from_fn_with_state(Arc::clone(&state), observe::watch)).with_state(state)
}

async fn unknown_route(uri: Uri) -> Response {
    let text = format!("Not Found: no route {}", uri.path());
    answer::failure(&RequestFailure::new(ErrorCode::RouteNotFound, text))
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let text = format!("Method Not Allowed: {method} on {}", uri.path());
    answer::failure(&RequestFailure::new(ErrorCode::MethodNotAllowed, text))
}
