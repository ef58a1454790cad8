//! What every surface can reach, HTTP and gRPC alike: what is served, who is let in, and whether the server is about to
//! stop. Owned by the app; surfaces hold it shared and never change more than its two flags.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::ErrorCode;
use plugin::SandboxRuntime;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::failure::{RequestFailure, clipped};
use crate::metrics::{Metrics, Surface};
use crate::observed::Observer;
use crate::registry::ModelRegistry;
use crate::repository_api::RepositoryApi;
use crate::settings::{HeaderPattern, RequestLimits, RestrictedApis};
use crate::shared_memory::SharedMemory;

/// What every route and every rpc can reach.
pub struct ServingState {
    /// What is served.
    pub registry: Arc<ModelRegistry>,
    /// Bounds on requests.
    pub limits: RequestLimits,
    /// Metric families.
    pub metrics: Metrics,
    /// Where plugins run, for what it says of itself.
    pub sandbox: Arc<SandboxRuntime>,
    /// What it says of itself, and to whom.
    pub server: ServerTraits,
    /// The repositories, and who loads from them.
    pub repository: RepositoryApi,
    /// The memory that clients share with the server.
    pub shared_memory: SharedMemory,
    /// Watches requests for the access log and for traces.
    pub observer: Observer,
    /// One permit per request held.
    admission: Arc<Semaphore>,
    stopping: AtomicBool,
    leaving: Arc<AtomicBool>,
}

/// What the server says of itself, and to whom.
#[derive(Clone, Debug)]
pub struct ServerTraits {
    /// Its name.
    pub name: String,
    /// The extensions of the protocol that it has.
    pub extensions: Vec<&'static str>,
    /// Whether readiness waits for every model of the start.
    pub strict_readiness: bool,
    /// What HTTP requests must bring.
    pub restricted: RestrictedApis,
    /// Which headers become parameters of an inference request over HTTP.
    pub forwarded_headers: Option<HeaderPattern>,
}

/// What a [`ServingState`] is made of.
#[expect(missing_docs, reason = "the fields of ServingState")]
pub struct ServingParts {
    pub registry: Arc<ModelRegistry>,
    pub limits: RequestLimits,
    pub metrics: Metrics,
    pub sandbox: Arc<SandboxRuntime>,
    pub server: ServerTraits,
    pub repository: RepositoryApi,
    pub shared_memory: SharedMemory,
    pub observer: Observer,
}

/// A request that was let in; leaving gives its place back.
pub struct Admitted {
    _permit: OwnedSemaphorePermit,
    in_flight: IntGauge,
    /// When its answer is worthless.
    pub deadline: Instant,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

impl ServingState {
    /// A state that admits requests.
    #[must_use]
    pub fn new(parts: ServingParts) -> Self {
        let ServingParts { registry, limits, metrics, sandbox, server, repository, shared_memory, observer } = parts;
        let admission = Arc::new(Semaphore::new(limits.in_flight_max));
        let (stopping, leaving) = (AtomicBool::new(false), Arc::default());
        Self {
            registry,
            limits,
            admission,
            metrics,
            sandbox,
            server,
            repository,
            shared_memory,
            observer,
            stopping,
            leaving,
        }
    }

    /// Lets a request in that came over `surface` and whose client waits for `timeout`; it gets as long as the server
    /// allows, at most.
    ///
    /// # Errors
    /// [`ErrorCode::ShuttingDown`] or [`ErrorCode::Overloaded`].
    pub fn admit(&self, surface: Surface, timeout: Duration) -> Result<Admitted, RequestFailure> {
        if self.is_stopping() {
            let failure = RequestFailure::new(ErrorCode::ShuttingDown, "Server exiting");
            return Err(failure.retry_after(Duration::from_secs(1)));
        }
        let Ok(permit) = Arc::clone(&self.admission).try_acquire_owned() else {
            let max = self.limits.in_flight_max;
            let text = format!("the server holds {max} requests already; raise --max-in-flight or send fewer at once");
            return Err(RequestFailure::new(ErrorCode::Overloaded, text).retry_after(Duration::from_secs(1)));
        };
        let in_flight = self.metrics.in_flight(surface).clone();
        in_flight.inc();
        let deadline = Instant::now() + timeout.min(self.limits.timeout);
        Ok(Admitted { _permit: permit, in_flight, deadline })
    }

    /// Whether every model serves, or where readiness is not strict has been looked at, and the server is not about to
    /// stop.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let map = self.registry.snapshot();
        let is_served = if self.server.strict_readiness { map.is_ready() } else { map.is_complete() };
        is_served && !self.is_leaving()
    }

    /// Looks whether a model of this name is known, served or not.
    ///
    /// # Errors
    /// Triton's text for one that is not.
    pub fn known_model(&self, name: &str) -> Result<(), RequestFailure> {
        let is_known = self.registry.snapshot().models().any(|model| model.name.as_str() == name);
        let unknown = || format!("Request for unknown model : {}", clipped(name));
        if is_known { Ok(()) } else { Err(RequestFailure::new(ErrorCode::ModelNotFound, unknown())) }
    }

    /// From now on readiness fails, and every answer asks its client to close the connection.
    pub fn start_leaving(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// From now on new requests are refused, too, and load requests that wait are answered.
    pub fn start_stopping(&self) {
        self.start_leaving();
        self.stopping.store(true, Ordering::Release);
        self.repository.close();
    }

    /// Whether readiness fails because the server is about to stop; for whoever writes answers.
    #[must_use]
    pub fn leaving(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.leaving)
    }

    /// Whether the server is about to stop.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Whether the server is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until no request is held, `patience` at most. Says whether none is.
    pub async fn wait_until_idle(&self, patience: Duration) -> bool {
        let all = u32::try_from(self.limits.in_flight_max).unwrap_or(u32::MAX);
        // Holding every permit at once means that no request does.
        tokio::time::timeout(patience, self.admission.acquire_many(all)).await.is_ok()
    }
}
