//! Connections: accepts them up to a limit, serves each with hyper, and lets those with work in flight finish at the
//! stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus::IntGauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

/// How long a client may take to send a request's head.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to leave the listener alone when the process has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener with what its connections need.
pub struct Server {
    listener: TcpListener,
    router: Router,
    connections: Arc<Semaphore>,
    open: IntGauge,
    tasks: Tasks,
}

impl Server {
    /// Binds `address`.
    ///
    /// # Errors
    /// As the system says, naming the address.
    pub async fn bind(
        address: SocketAddr,
        router: Router,
        connections_max: usize,
        open: IntGauge,
        tasks: Tasks,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("listening on {address}: {error}; choose another port or stop its owner"),
            )
        })?;
        Ok(Self { listener, router, connections: Arc::new(Semaphore::new(connections_max)), open, tasks })
    }

    /// The address bound, with the port the system chose where 0 was asked for.
    ///
    /// # Errors
    /// As the system says.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts until the tasks are stopped.
    pub fn start(self) {
        let tasks = self.tasks.clone();
        tasks.spawn("accept", self.accept());
    }

    async fn accept(self) {
        let stop = self.tasks.stop_token();
        loop {
            let permit = tokio::select! {
                permit = Arc::clone(&self.connections).acquire_owned() => permit,
                () = stop.cancelled() => return,
            };
            let Ok(permit) = permit else { return };
            let stream = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            match stream {
                Ok((stream, _)) => {
                    let (router, open, stop) = (self.router.clone(), self.open.clone(), stop.clone());
                    self.tasks.spawn("connection", async move {
                        open.inc();
                        serve(stream, router, stop).await;
                        open.dec();
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Serves one connection to its end. What goes wrong on it is the client's to see; nothing else notices.
async fn serve(stream: TcpStream, router: Router, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT).pipeline_flush(true);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection ended early");
    }
}
