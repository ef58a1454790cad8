//! WASI 0.2 with nothing granted: no files, sockets, environment or arguments. Clocks stand still at the Unix epoch, and
//! what a guest prints goes to its log. Guests of several languages import all of it whatever they use, so it must link.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx};

use super::{Speech, speak};
use crate::LogSource;

/// Bytes that a guest may write to a stream at once.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// Random bytes that a guest may ask for at once.
pub(super) const RANDOM_BYTES_MAX: u64 = 64 << 10;

pub(super) fn deny_all(speech: &Arc<Mutex<Speech>>) -> WasiCtx {
    let stream = |source| Captured { source, speech: Arc::clone(speech) };
    WasiCtx::builder()
        .stdout(stream(LogSource::Stdout))
        .stderr(stream(LogSource::Stderr))
        .wall_clock(StoppedClock)
        .monotonic_clock(StoppedClock)
        .insecure_random_seed(0)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

/// A clock that never advances.
struct StoppedClock;

impl HostWallClock for StoppedClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for StoppedClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Standard output or standard error: always ready, never full; the budget of [`Speech`] decides what is kept.
#[derive(Clone)]
struct Captured {
    source: LogSource,
    speech: Arc<Mutex<Speech>>,
}

#[wasmtime_wasi::async_trait]
impl Pollable for Captured {
    async fn ready(&mut self) {}
}

impl OutputStream for Captured {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        speak(&self.speech).print(self.source, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

impl AsyncWrite for Captured {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        speak(&self.speech).print(self.source, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for Captured {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Captured {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}
