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
mod openapi;
mod path;
mod predict;
mod repository;
mod request;
mod restrict;
mod routes;
mod servable;
pub mod server;
mod shared_memory;
mod statistics;
pub mod tf_json;
mod tf_serving;
mod trace;
mod traffic;
mod v2;
pub mod v2_json;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, Method, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use model::ErrorCode;

use crate::failure::RequestFailure;
use crate::serving::ServingState;
use crate::settings::ApiKind;

pub use metrics_page::{metrics_router, metrics_routes, metrics_text};
pub use routes::Routes;

/// Every route of the HTTP port. `openapi.json` describes each.
pub fn routes() -> Routes {
    Routes::default()
        .get("/openapi.json", openapi::openapi)
        .get("/v2", v2::server_metadata)
        .get("/v2/health/live", v2::live)
        .get("/v2/health/ready", v2::ready)
        .get("/v2/models/stats", statistics::all)
        .get("/v2/models/{model}", v2::model_metadata)
        .get("/v2/models/{model}/stats", statistics::of_model)
        .get("/v2/models/{model}/versions/{version}/stats", statistics::of_model)
        .get("/v2/models/{model}/ready", v2::model_ready)
        .get("/v2/models/{model}/config", v2::model_config)
        .post("/v2/models/{model}/infer", infer::infer)
        .post("/v2/models/{model}/generate", generate::generate)
        .post("/v2/models/{model}/generate_stream", generate::generate_stream)
        .get("/v2/models/{model}/versions/{version}", v2::model_metadata)
        .get("/v2/models/{model}/versions/{version}/ready", v2::model_ready)
        .get("/v2/models/{model}/versions/{version}/config", v2::model_config)
        .post("/v2/models/{model}/versions/{version}/infer", infer::infer)
        .post("/v2/models/{model}/versions/{version}/generate", generate::generate)
        .post("/v2/models/{model}/versions/{version}/generate_stream", generate::generate_stream)
        .post("/v2/repository/index", repository::index)
        .post("/v2/repository/models/{model}/load", repository::load)
        .post("/v2/repository/models/{model}/unload", repository::unload)
        .post("/v2/repository/models//load", repository::load_nameless)
        .post("/v2/repository/models//unload", repository::unload_nameless)
        .post("/v2/repository/{repository}/index", repository::named)
        .post("/v2/repository/{repository}/models/{model}/{verb}", repository::named)
        .get("/v2/trace/setting", trace::read)
        .post("/v2/trace/setting", trace::update)
        .get("/v2/models/{model}/trace/setting", trace::read_of_model)
        .post("/v2/models/{model}/trace/setting", trace::update_of_model)
        .get("/v2/logging", logging::read)
        .post("/v2/logging", logging::update)
        .get("/v1/models", tf_serving::nameless)
        .post("/v1/models/{segment}", predict::predict)
        .get("/v1/models/{segment}", tf_serving::status)
        .get("/v1/models/{model}/metadata", tf_serving::metadata)
        .post("/v1/models/{model}/versions/{segment}", predict::predict_version)
        .get("/v1/models/{model}/versions/{segment}", tf_serving::status_version)
        .get("/v1/models/{model}/versions/{version}/metadata", tf_serving::metadata_version)
        .post("/v1/models/{model}/labels/{segment}", predict::predict_label)
        .get("/v1/models/{model}/labels/{segment}", tf_serving::status_label)
        .get("/v1/models/{model}/labels/{label}/metadata", tf_serving::metadata_label)
        .merge(shared_memory::routes())
}

/// The HTTP port's routes with all that answers.
pub fn router(state: Arc<ServingState>) -> Router {
    let routes = routes().into_router().fallback(unknown_route).method_not_allowed_fallback(wrong_method);
    let routes = if state.server.restricted.is_empty() {
        routes
    } else {
        routes.layer(from_fn_with_state(Arc::clone(&state), restrict::check))
    };
    let routes = routes.layer(from_fn_with_state(Arc::clone(&state), observe::watch));
    // Outermost, so that it sees whatever is answered.
    routes.layer(from_fn_with_state(Arc::clone(&state), traffic::count)).with_state(state)
}

async fn unknown_route(uri: Uri) -> Response {
    let text = format!("Not Found: no route {}", uri.path());
    answer::failure(&RequestFailure::new(ErrorCode::RouteNotFound, text))
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let text = format!("Method Not Allowed: {method} on {}", uri.path());
    let mut response = answer::failure(&RequestFailure::new(ErrorCode::MethodNotAllowed, text));
    if let Some(allowed) = allowed_by_verb(uri.path()) {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    }
    response
}

/// What may be asked of a path below `/v1/models`: the router takes a segment with a verb, which is for POST, and one
/// without, which is for GET, for one route, and would allow both.
fn allowed_by_verb(path: &str) -> Option<&'static str> {
    let kind = ApiKind::of_path(path).filter(|_| path.starts_with("/v1/models/"))?;
    Some(if kind == ApiKind::Inference { "POST" } else { "GET,HEAD" })
}
