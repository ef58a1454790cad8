//! One running server: started on free ports, found through its port file, ready before a test goes on, stopped with a
//! signal. Its log is kept in memory.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::command;
use crate::http::{Answer, Client};
use crate::log::Log;
use crate::metrics::Reading;
use crate::process::{self, Signal};
use crate::repository::Repository;
use crate::wait::{PATIENCE, eventually};

/// When a server counts as started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// Every model serves.
    Ready,
    /// The repository has been looked at once, whatever came of it.
    FirstPass,
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    repository: PathBuf,
    state_dir: Option<PathBuf>,
    working_dir: Option<PathBuf>,
    settle_ms: u64,
    rescan_ms: u64,
    drain_secs: u64,
    flags: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    readiness: Readiness,
}

impl ServerOptions {
    /// A server of one model repository that settles in 20 ms and looks every 500 ms.
    #[must_use]
    pub fn new(repository: &Repository) -> Self {
        Self::of_folder(repository.path())
    }

    /// The same for any folder.
    #[must_use]
    pub fn of_folder(repository: &Path) -> Self {
        Self {
            repository: repository.to_owned(),
            state_dir: None,
            working_dir: None,
            settle_ms: 20,
            rescan_ms: 500,
            drain_secs: 0,
            flags: Vec::new(),
            environment: Vec::new(),
            readiness: Readiness::Ready,
        }
    }

    /// How long a file must be still before it is read.
    #[must_use]
    pub fn settle_ms(mut self, millis: u64) -> Self {
        self.settle_ms = millis;
        self
    }

    /// Time between two scans.
    #[must_use]
    pub fn rescan_ms(mut self, millis: u64) -> Self {
        self.rescan_ms = millis;
        self
    }

    /// How long the server serves on after a signal while readiness fails; 0 where a test does not say.
    #[must_use]
    pub fn drain_secs(mut self, seconds: u64) -> Self {
        self.drain_secs = seconds;
        self
    }

    /// A state folder that outlives the server.
    #[must_use]
    pub fn state_dir(mut self, folder: &Path) -> Self {
        self.state_dir = Some(folder.to_owned());
        self
    }

    /// The folder to run in.
    #[must_use]
    pub fn working_dir(mut self, folder: &Path) -> Self {
        self.working_dir = Some(folder.to_owned());
        self
    }

    /// A further flag with its value.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.flags.extend([name.into(), value.into()]);
        self
    }

    /// An environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Do not wait until every model serves: the first pass over the repository is enough.
    #[must_use]
    pub fn not_ready(mut self) -> Self {
        self.readiness = Readiness::FirstPass;
        self
    }

    /// Starts the server and waits until it can be used.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; the text has its log.
    pub async fn start(&self) -> Result<Server> {
        let scratch = tempfile::tempdir().context("making a folder for the server")?;
        let port_file = scratch.path().join("ports.json");
        let state_dir = self.state_dir.clone().unwrap_or_else(|| scratch.path().join("state"));
        let mut child = self.command(&state_dir, &port_file)?.spawn().context("starting airlock")?;
        let (log, reader) = Log::follow(child.stderr.take().context("standard error is piped")?);
        let unknown = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut server = Server {
            child,
            log,
            reader: Some(reader),
            http: unknown,
            grpc: None,
            metrics: unknown,
            state_dir,
            _scratch: scratch,
        };
        let started = server.wait_until_started(&port_file, self.readiness).await;
        started.with_context(|| format!("airlock did not start; its log:\n{}", server.log.lines().join("\n")))?;
        Ok(server)
    }

    fn command(&self, state_dir: &Path, port_file: &Path) -> Result<Command> {
        let mut command = command::airlock(&["serve", "--http-address", "127.0.0.1", "--log-format", "json"])?;
        command.args(["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--port-file"]).arg(port_file);
        command.arg("--model-repository").arg(&self.repository).arg("--state-dir").arg(state_dir);
        command.args(["--settle-ms", &self.settle_ms.to_string(), "--rescan-ms", &self.rescan_ms.to_string()]);
        command.args(["--drain-secs", &self.drain_secs.to_string()]);
        command.args(&self.flags).envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.working_dir {
            command.current_dir(folder);
        }
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: Log,
    reader: Option<JoinHandle<()>>,
    http: SocketAddr,
    grpc: Option<SocketAddr>,
    metrics: SocketAddr,
    state_dir: PathBuf,
    _scratch: TempDir,
}

impl Server {
    /// Starts a server of this repository and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn start(repository: &Repository) -> Result<Self> {
        ServerOptions::new(repository).start().await
    }

    /// Where it listens for v2 and predict.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.http
    }

    /// Where it listens for gRPC.
    ///
    /// # Errors
    /// When it does not.
    pub fn grpc_address(&self) -> Result<SocketAddr> {
        self.grpc.context("the server has no gRPC port")
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it writes for itself.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// A new connection to it.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.http)
    }

    /// A new connection to its metrics port.
    #[must_use]
    pub fn client_of_metrics(&self) -> Client {
        Client::new(self.metrics)
    }

    /// Asks once, on a connection of its own.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.client().get(path).await
    }

    /// Predicts once, on a connection of its own.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn predict(&self, model: &str, body: impl Into<bytes::Bytes>) -> Result<Answer> {
        self.client().predict(model, body).await
    }

    /// Reads `/metrics`.
    ///
    /// # Errors
    /// When it does not answer, or not in the text format.
    pub async fn metrics(&self) -> Result<Reading> {
        let answer = Client::new(self.metrics).get("/metrics").await?.expect(200)?;
        Reading::parse(&answer.text())
    }

    /// Waits until a series has at least this value.
    ///
    /// # Errors
    /// When it does not reach it in time.
    pub async fn wait_for_metric(&self, name: &str, labels: &[(&str, &str)], at_least: f64) -> Result<()> {
        let what = format!("{name}{labels:?} to reach {at_least}");
        let reached = async || (self.metrics().await.ok()?.value(name, labels) >= at_least).then_some(());
        eventually(&what, PATIENCE, reached).await.with_context(|| format!("the log:\n{}", self.log.lines().join("\n")))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        process::send(self.pid(), signal)
    }

    /// Waits for its end after a signal, and gives back how it ended. Its log is whole afterwards.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let status = command::wait(&mut self.child).await;
        let status = status.with_context(|| format!("the log:\n{}", self.log.lines().join("\n")))?;
        if let Some(reader) = self.reader.take() {
            ensure!(reader.join().is_ok(), "the thread that reads the log panicked");
        }
        Ok(status)
    }

    /// Stops it with SIGTERM and gives back its log.
    ///
    /// # Errors
    /// When it does not end with exit code 0, or has written a panic.
    pub async fn stop(mut self) -> Result<Log> {
        self.signal(Signal::TERM)?;
        let status = self.wait().await?;
        let log = self.log.clone();
        ensure!(status.success(), "airlock ended with {status}:\n{}", log.lines().join("\n"));
        let panicked = log.lines().into_iter().find(|line| line.contains("panicked at"));
        ensure!(panicked.is_none(), "airlock panicked: {panicked:?}");
        Ok(log)
    }

    async fn wait_until_started(&mut self, port_file: &Path, readiness: Readiness) -> Result<()> {
        let first_pass = ["first pass over the model repositories done"];
        let start = self.log.mark_of_start();
        let mut client = None;
        let started = eventually("the server to start", PATIENCE, async || {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(Err(status));
            }
            if client.is_none() {
                let ports = read_ports(port_file)?;
                (self.http, self.grpc, self.metrics) = ports;
                client = Some(Client::new(ports.0));
            }
            // The log comes through a thread of the server's own: what was said by then must be there before a test goes on.
            let has_looked = self.log.find(start, &first_pass).is_some();
            let done = match readiness {
                Readiness::FirstPass => has_looked,
                Readiness::Ready => has_looked && client.as_mut()?.get("/v2/health/ready").await.ok()?.status == 200,
            };
            done.then_some(Ok(()))
        });
        match started.await? {
            Ok(()) => Ok(()),
            Err(status) => bail!("it ended with {status}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has it ended already, both calls say so and there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// HTTP, gRPC and metrics addresses; `None` until the file is there.
fn read_ports(file: &Path) -> Option<(SocketAddr, Option<SocketAddr>, SocketAddr)> {
    let ports: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let address = |name: &str| {
        let port = u16::try_from(ports[name].as_u64()?).ok()?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    Some((address("http")?, address("grpc"), address("metrics")?))
}
