//! Connections: accepts them up to a limit, serves each with hyper, and lets those with work in flight finish at the
//! stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus::IntGauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::tasks::Tasks;

/// How long a client may take to send a request's head.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may leave an answer unread while its part of the network is full.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to leave the listener alone when the process has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener with what its connections need.
pub struct Server {
    listener: TcpListener,
    router: Router,
    connections: Arc<Semaphore>,
    open: IntGauge,
    tasks: Tasks,
    leaving: Arc<AtomicBool>,
}

/// What a server needs beside its address.
pub struct ServerParts {
    /// The flag that chooses its port, for texts.
    pub port_flag: &'static str,
    /// What answers.
    pub router: Router,
    /// Most open connections.
    pub connections_max: usize,
    /// Shows how many are open.
    pub open: IntGauge,
    /// Where its tasks live.
    pub tasks: Tasks,
    /// Once true, every answer asks its client to close the connection.
    pub leaving: Arc<AtomicBool>,
}

impl Server {
    /// Binds `address`.
    ///
    /// # Errors
    /// As the system says, naming the address and the flag.
    pub async fn bind(address: SocketAddr, parts: ServerParts) -> io::Result<Self> {
        let ServerParts { port_flag, router, connections_max, open, tasks, leaving } = parts;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let text =
                format!("listening on {address}: {error}; choose another with {port_flag}, or stop what uses it");
            io::Error::new(error.kind(), text)
        })?;
        Ok(Self { listener, router, connections: Arc::new(Semaphore::new(connections_max)), open, tasks, leaving })
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
                    let leaving = Arc::clone(&self.leaving);
                    self.tasks.spawn("connection", async move {
                        open.inc();
                        serve(stream, (router, leaving), stop).await;
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
async fn serve(stream: TcpStream, (router, leaving): (Router, Arc<AtomicBool>), stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let service = ServiceExt::<Request<Incoming>>::map_response(router, move |mut response: Response<Body>| {
        if leaving.load(Ordering::Acquire) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service));
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
