//! Connections of the gRPC port: accepts them up to a limit, with TLS where it is asked for, serves each with hyper, and
//! lets the streams on it finish at the stop. Each stream is a task of its own, so that those of a single connection use
//! every serving thread.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::rt::{Executor, Read, Write};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::IntGauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use super::GrpcFront;
use crate::settings::{ConnectionAge, GrpcSettings};
use crate::tasks::Tasks;

/// How long a client may take to shake hands.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may leave answers unread while its part of the network is full.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to leave the listener alone when the process has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Once no request is held, how long the streams that clients keep open get to end.
const STREAMS_END_TIME: Duration = Duration::from_secs(1);
/// Requests that their clients cancelled before they were looked at, of one connection; more end it.
const CANCELLED_WAITING_MAX: usize = 1_024;

/// A listener with what its connections need.
pub struct GrpcServer {
    listener: TcpListener,
    connection: Arc<ConnectionParts>,
    connections: Arc<Semaphore>,
    tasks: Tasks,
}

/// What a server needs beside its address.
pub struct GrpcServerParts<'a> {
    /// What answers.
    pub front: GrpcFront,
    /// How connections are kept.
    pub settings: &'a GrpcSettings,
    /// Most open connections.
    pub connections_max: usize,
    /// Shows how many are open.
    pub open: IntGauge,
    /// Wraps them in TLS.
    pub tls: Option<TlsAcceptor>,
    /// Where its tasks live.
    pub tasks: Tasks,
}

/// What each connection needs.
struct ConnectionParts {
    front: GrpcFront,
    builder: http2::Builder<StreamTasks>,
    age: Option<ConnectionAge>,
    tls: Option<TlsAcceptor>,
    open: IntGauge,
    tasks: Tasks,
}

/// Where the streams of a connection run. One that panics ends alone.
#[derive(Clone)]
struct StreamTasks(Tasks);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, stream: F) {
        self.0.spawn("gRPC stream", stream);
    }
}

impl GrpcServer {
    /// Binds `address`.
    ///
    /// # Errors
    /// As the system says, naming the address and the flag.
    pub async fn bind(address: SocketAddr, parts: GrpcServerParts<'_>) -> io::Result<Self> {
        let GrpcServerParts { front, settings, connections_max, open, tls, tasks } = parts;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let text =
                format!("listening on {address}: {error}; choose another with --grpc-port, or stop what uses it");
            io::Error::new(error.kind(), text)
        })?;
        let (builder, age) = (builder(settings, &tasks), settings.connection_age);
        let connection = ConnectionParts { front, builder, age, tls, open, tasks: tasks.clone() };
        let connections = Arc::new(Semaphore::new(connections_max));
        Ok(Self { listener, connection: Arc::new(connection), connections, tasks })
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
        tasks.spawn("accept gRPC", self.accept());
    }

    async fn accept(self) {
        let stop = self.tasks.stop_token();
        loop {
            let accepted = async {
                let permit = Arc::clone(&self.connections).acquire_owned().await;
                (permit, self.listener.accept().await)
            };
            let accepted = tokio::select! {
                accepted = accepted => accepted,
                () = stop.cancelled() => return,
            };
            match accepted {
                (Ok(permit), Ok((stream, _))) => {
                    let connection = Arc::clone(&self.connection);
                    self.tasks.spawn("gRPC connection", async move {
                        connection.open.inc();
                        connection.serve(stream).await;
                        connection.open.dec();
                        drop(permit);
                    });
                }
                (Ok(_), Err(error)) => {
                    tracing::warn!(%error, "a gRPC connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                // Nobody closes the semaphore.
                (Err(_), _) => return,
            }
        }
    }
}

fn builder(settings: &GrpcSettings, tasks: &Tasks) -> http2::Builder<StreamTasks> {
    let mut builder = http2::Builder::new(StreamTasks(tasks.clone()));
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(settings.keepalive_time)
        .keep_alive_timeout(settings.keepalive_timeout)
        .max_concurrent_streams(settings.connection_streams_max)
        .max_pending_accept_reset_streams(CANCELLED_WAITING_MAX);
    builder
}

impl ConnectionParts {
    /// Serves one connection to its end. What goes wrong on it is the client's to see; nothing else notices.
    async fn serve(self: &Arc<Self>, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIMEOUT));
        let stream = Box::pin(stream);
        match &self.tls {
            None => self.serve_http2(TokioIo::new(stream)).await,
            Some(tls) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.serve_http2(TokioIo::new(stream)).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            },
        }
    }

    async fn serve_http2(self: &Arc<Self>, io: impl Read + Write + Unpin + Send + 'static) {
        let parts = Arc::clone(self);
        let service = service_fn(move |request: http::Request<Incoming>| {
            let parts = Arc::clone(&parts);
            async move { Ok::<_, std::convert::Infallible>(parts.front.answer(request).await) }
        });
        let mut connection = std::pin::pin!(self.builder.serve_connection(io, service));
        let grace = tokio::select! {
            outcome = connection.as_mut() => return ended(outcome),
            grace = self.until_leaving() => grace,
        };
        connection.as_mut().graceful_shutdown();
        let stop = self.tasks.stop_token();
        let ending = async {
            match grace {
                Some(grace) => tokio::time::sleep(grace).await,
                None => std::future::pending().await,
            }
        };
        let stopping = async {
            stop.cancelled().await;
            tokio::time::sleep(STREAMS_END_TIME).await;
        };
        tokio::select! {
            outcome = connection.as_mut() => ended(outcome),
            () = ending => tracing::debug!("a connection ended with streams on it that took longer than its grace"),
            () = stopping => tracing::debug!("a connection ended with streams on it that clients kept open"),
        }
    }

    /// Waits until the connection should take nothing new: it is old, or the server stops. Returns how long what is on it
    /// then gets, where that is bounded.
    async fn until_leaving(&self) -> Option<Duration> {
        let stop = self.tasks.stop_token();
        let Some(age) = self.age else {
            stop.cancelled().await;
            return None;
        };
        tokio::select! {
            () = stop.cancelled() => None,
            () = tokio::time::sleep(age.max) => age.grace,
        }
    }
}

fn ended(outcome: hyper::Result<()>) {
    if let Err(error) = outcome {
        tracing::debug!(%error, "gRPC connection ended early");
    }
}
