//! The HTTP surface: routes, envelopes and headers. It decodes, calls `pipeline` or `registry`, and encodes; there is no
//! business rule here. [`router`] is the whole application as a `tower` service, so tests call it without a socket.

mod answer;
mod coding;
mod forward;
mod generate;
mod infer;
mod metrics_page;
mod predict;
mod repository;
mod request;
mod restrict;
pub mod server;
mod statistics;
mod tally;
mod v2;
pub mod v2_json;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use model::ErrorCode;
use plugin::SandboxRuntime;
use tokio::sync::Semaphore;

use crate::failure::RequestFailure;
use crate::metrics::Metrics;
use crate::registry::ModelRegistry;
use crate::repository::control::ModelControlQueue;
use crate::repository::overrides::OverridesFolder;
use crate::settings::{HeaderPattern, RequestLimits, RestrictedApis};

pub use metrics_page::{metrics_router, metrics_text};

/// What every route can reach.
pub struct HttpState {
    /// What is served.
    pub registry: Arc<ModelRegistry>,
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// One permit per request held.
    pub admission: Semaphore,
    /// Metric families.
    pub metrics: Metrics,
    /// Where plugins run, for what it says of itself.
    pub sandbox: Arc<SandboxRuntime>,
    /// What it says of itself, and to whom.
    pub server: ServerTraits,
    /// The repositories, and who loads from them.
    pub repository: RepositoryApi,
    stopping: AtomicBool,
    leaving: Arc<AtomicBool>,
}

/// What the server says of itself, and to whom.
#[derive(Clone, Debug)]
pub struct ServerTraits {
    /// Its name.
    pub name: String,
    /// Whether readiness waits for every model of the start.
    pub strict_readiness: bool,
    /// What requests must bring.
    pub restricted: RestrictedApis,
    /// Which headers become parameters of an inference request.
    pub forwarded_headers: Option<HeaderPattern>,
}

/// The repositories, and who loads from them.
#[derive(Clone)]
pub struct RepositoryApi {
    /// Model repositories.
    pub roots: Vec<PathBuf>,
    /// Where load and unload requests go; `None` where there are none.
    pub requests: Option<ModelControlQueue>,
    /// Where files go that come with them.
    pub overrides: OverridesFolder,
}

/// What an [`HttpState`] is made of.
#[expect(missing_docs, reason = "the fields of HttpState")]
pub struct HttpParts {
    pub registry: Arc<ModelRegistry>,
    pub limits: RequestLimits,
    pub metrics: Metrics,
    pub sandbox: Arc<SandboxRuntime>,
    pub server: ServerTraits,
    pub repository: RepositoryApi,
}

impl HttpState {
    /// A state that admits requests.
    #[must_use]
    pub fn new(parts: HttpParts) -> Self {
        let HttpParts { registry, limits, metrics, sandbox, server, repository } = parts;
        let admission = Semaphore::new(limits.in_flight_max);
        let (stopping, leaving) = (AtomicBool::new(false), Arc::default());
        Self { registry, limits, admission, metrics, sandbox, server, repository, stopping, leaving }
    }

    /// From now on readiness fails, and every answer asks its client to close the connection.
    pub fn start_leaving(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// From now on new requests are refused, too.
    pub fn start_stopping(&self) {
        self.start_leaving();
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether readiness fails because the server is about to stop; for whoever writes answers.
    #[must_use]
    pub fn leaving(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.leaving)
    }

    /// Whether the server is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// Every route of the HTTP port.
pub fn router(state: Arc<HttpState>) -> Router {
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
        .route("/v2/repository/{repository}/index", post(repository::named))
        .route("/v2/repository/{repository}/models/{model}/{verb}", post(repository::named))
        .route("/v1/models/{segment}", post(predict::predict))
        .route("/v1/models/{model}/versions/{segment}", post(predict::predict_version))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method);
    let routes = if state.server.restricted.is_empty() {
        routes
    } else {
        routes.layer(from_fn_with_state(Arc::clone(&state), restrict::check))
    };
    routes.with_state(state)
}

async fn unknown_route(uri: Uri) -> Response {
    let text = format!("Not Found: no route {}", uri.path());
    answer::failure(&RequestFailure::new(ErrorCode::RouteNotFound, text))
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let text = format!("Method Not Allowed: {method} on {}", uri.path());
    answer::failure(&RequestFailure::new(ErrorCode::MethodNotAllowed, text))
}
