//! The `airlock` command as a test runs it: the binary that was built, without the variables of this process that the
//! server would take for its settings, and always with an end.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};

use crate::fixtures;
use crate::wait::{PATIENCE, eventually};

/// What a command printed and how it ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Everything printed, if the exit code is `code`.
    ///
    /// # Errors
    /// When it is another one.
    pub fn expect_code(&self, code: i32) -> Result<String> {
        let printed = format!("{}{}", self.stdout, self.stderr);
        ensure!(self.status.code() == Some(code), "expected exit code {code}, got {}:\n{printed}", self.status);
        Ok(printed)
    }
}

/// The server's binary: `AIRLOCK_BIN`, else beside this test's own, else where a plain build puts it.
///
/// # Errors
/// When there is none.
pub fn binary() -> Result<PathBuf> {
    let named = std::env::var_os("AIRLOCK_BIN").map(PathBuf::from);
    let beside = std::env::current_exe().ok().and_then(|test| Some(test.ancestors().nth(2)?.join("airlock")));
    let usual = fixtures::root().join("target/release/airlock");
    let candidates = match named {
        Some(named) => vec![named],
        None => beside.into_iter().chain([usual]).collect(),
    };
    let found = candidates.iter().find(|path| path.is_file()).cloned();
    found.with_context(|| {
        format!("no airlock binary at {candidates:?}; build it with `cargo build --release --package airlock`")
    })
}

/// `airlock` with these arguments and a clean environment.
///
/// # Errors
/// When there is no binary.
pub fn airlock(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(binary()?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AIRLOCK_")) {
        command.env_remove(name);
    }
    // Backtraces of the host are not part of what its log promises.
    command.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
    command.env("ORT_DYLIB_PATH", fixtures::onnxruntime()?).args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// Runs a command that ends by itself.
///
/// # Errors
/// When it cannot be started, or does not end in time; it is killed then.
pub async fn finish(mut command: Command) -> Result<Finished> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let stdout = read_all(child.stdout.take().context("standard output is piped")?);
    let stderr = read_all(child.stderr.take().context("standard error is piped")?);
    let ended = wait(&mut child).await;
    if ended.is_err() {
        child.kill()?;
    }
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().unwrap_or_default());
    let status = ended.with_context(|| format!("{command:?} did not end; it printed:\n{stdout}{stderr}"))?;
    Ok(Finished { status, stdout, stderr })
}

/// Waits for a process to end.
///
/// # Errors
/// When it does not in time.
pub(crate) async fn wait(child: &mut Child) -> Result<ExitStatus> {
    let what = format!("the end of process {}", child.id());
    eventually(&what, PATIENCE, async || child.try_wait().transpose()).await?.context("asking for the exit status")
}

fn read_all(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A stream that breaks off has given what it had.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
