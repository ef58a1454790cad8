//! ONNX Runtime's library and its environment. A process has one of each: the first successful [`OrtRuntime::init`]
//! loads the library and owns both until the process ends, and every later call returns the same one.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use model::ThreadCount;
use ort::environment::{Environment, GlobalThreadPoolOptions};
use ort::logging::LogLevel;

use crate::library::LibraryError;
use crate::raw::{Probe, probe_library, set_variable_while_single_threaded};
use crate::session_options::{message, thread_count};

/// The oldest minor version of ONNX Runtime 1 whose interface this build can use.
pub(crate) const OLDEST_MINOR_VERSION: u32 = ort::MINOR_VERSION;

/// Readies the process for ONNX Runtime: sets `ORT_DISABLE_TELEMETRY=1`, which builds with telemetry read when they are
/// loaded. Call it first thing in a plain `fn main`: once a second thread exists the environment cannot be changed
/// safely, and the variable is left alone then; the interface is told to send nothing either way.
pub fn prepare_process() {
    const VARIABLE: &str = "ORT_DISABLE_TELEMETRY";
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "1") {
        return;
    }
    if !set_variable_while_single_threaded(VARIABLE, "1") {
        tracing::warn!("other threads run already, so {VARIABLE}=1 was not set; start the process with it set");
    }
}

/// How the environment is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeOptions {
    /// One pool of threads for all models that name no thread counts of their own (Triton's
    /// `enable-global-threadpool`). `None`: each session has its own.
    pub global_threads: Option<GlobalThreads>,
}

/// The threads that sessions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalThreads {
    /// Threads inside one operator.
    pub intra_op: ThreadCount,
    /// Operators side by side.
    pub inter_op: ThreadCount,
}

impl Default for GlobalThreads {
    /// As many as the cores that this process may use.
    fn default() -> Self {
        Self { intra_op: ThreadCount::Cores, inter_op: ThreadCount::Cores }
    }
}

/// The loaded library with its environment. Clones are the same one.
#[derive(Clone, Debug)]
pub struct OrtRuntime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    version: String,
    environment: Environment,
    options: RuntimeOptions,
}

/// The one of this process. It is never dropped: ONNX Runtime allows no second environment.
static RUNTIME: Mutex<Option<OrtRuntime>> = Mutex::new(None);

impl OrtRuntime {
    /// Loads the library at `path`, with telemetry off, or returns the runtime that this process already has, whatever
    /// its path and options. After a failure it can be called again.
    ///
    /// # Errors
    /// A [`LibraryError`] naming the path when it cannot be opened, is no ONNX Runtime, or is too old.
    pub fn init(path: &Path, options: &RuntimeOptions) -> Result<Self, LibraryError> {
        let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) = &*runtime {
            return Ok(existing.clone());
        }
        // `ort` would look for a relative path beside the executable first.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let version = usable_version(&path)?;
        let environment =
            start(&path, options).map_err(|message| LibraryError::Start { path: path.clone(), message })?;
        let inner = Inner { path, version, environment, options: *options };
        Ok(runtime.insert(Self { inner: Arc::new(inner) }).clone())
    }

    /// The library's version, such as `1.28.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.inner.version
    }

    /// The library's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether sessions share one pool of threads.
    pub(crate) fn has_global_threads(&self) -> bool {
        self.inner.options.global_threads.is_some()
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.inner.environment
    }
}

/// Checks a library before `ort` sees it, which panics where the interface is missing.
fn usable_version(path: &Path) -> Result<String, LibraryError> {
    let text = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| LibraryError::Open { path: path.to_path_buf(), message: error.to_string() })?;
    match probe_library(&text, is_new_enough) {
        Probe::Unopened(message) => Err(LibraryError::Open { path: path.to_path_buf(), message }),
        Probe::Foreign => Err(LibraryError::NotOnnxRuntime { path: path.to_path_buf() }),
        Probe::Found { version, has_interface: true } => Ok(version),
        Probe::Found { version, has_interface: false } => {
            Err(LibraryError::TooOld { path: path.to_path_buf(), version, oldest: OLDEST_MINOR_VERSION })
        }
    }
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(1)), Some(Ok(minor))) if minor >= OLDEST_MINOR_VERSION)
}

fn start(path: &Path, options: &RuntimeOptions) -> Result<Environment, String> {
    let mut builder = ort::init_from(path)
        .map_err(|error| error.to_string())?
        .with_name("airlock")
        .with_telemetry(false)
        .with_logger(Arc::new(|level, category, _id, location, message| log(level, category, location, message)));
    if let Some(threads) = options.global_threads {
        builder = builder.with_global_thread_pool(pool(threads).map_err(message)?);
    }
    let environment = builder.build().map_err(message)?;
    // `ort` asks for everything; what is below a warning would be formatted for nothing.
    environment.set_log_level(LogLevel::Warning);
    Ok(environment)
}

fn pool(threads: GlobalThreads) -> ort::Result<GlobalThreadPoolOptions> {
    GlobalThreadPoolOptions::default()
        .with_intra_threads(thread_count(threads.intra_op))?
        .with_inter_threads(thread_count(threads.inter_op))
}

/// ONNX Runtime logs as an error what it also returns as one, so its errors are warnings here.
fn log(level: LogLevel, category: &str, location: &str, message: &str) {
    match level {
        LogLevel::Fatal => tracing::error!(target: "onnxruntime", category, location, "{message}"),
        LogLevel::Error | LogLevel::Warning => tracing::warn!(target: "onnxruntime", category, location, "{message}"),
        LogLevel::Info | LogLevel::Verbose => tracing::debug!(target: "onnxruntime", category, location, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let cases = [
            ("1.24.0", true),
            ("1.28.0", true),
            ("1.100.0-dev", true),
            ("1.23.9", false),
            ("1.9.1", false),
            ("2.30.0", false),
            ("", false),
            ("1", false),
            ("latest", false),
        ];
        for (version, expected) in cases {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}
