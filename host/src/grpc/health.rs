//! `grpc.health.v1.Health`. As in Triton the service asked for does not matter: the server is serving or it is not.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::health_server::Health;
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use crate::serving::ServingState;

/// How often a watch looks.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The service.
pub(super) struct HealthService {
    pub(super) state: Arc<ServingState>,
    pub(super) stop: CancellationToken,
}

#[tonic::async_trait]
impl Health for HealthService {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(answer(status(&self.state))))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let changes = stream::unfold((Arc::clone(&self.state), None), |(state, last)| async move {
            let now = changed(&state, last).await;
            Some((Ok(answer(now)), (state, Some(now))))
        });
        Ok(Response::new(Box::pin(changes.take_until(self.stop.clone().cancelled_owned()))))
    }
}

fn status(state: &ServingState) -> ServingStatus {
    if state.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing }
}

/// Waits until the status is another than `last`.
async fn changed(state: &ServingState, last: Option<ServingStatus>) -> ServingStatus {
    loop {
        let now = status(state);
        if last != Some(now) {
            return now;
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
