//! The command line: `airlock serve` and `airlock check`. Errors end here, as text on standard error and an exit code.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use engine::{Backends, OrtLoader, OrtRuntime, find_library};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::check::{self, CheckArgs};
use crate::logging;
use crate::settings::{ServeArgs, Settings, SettingsError};

#[derive(Parser)]
#[command(args_override_self = true)]
#[command(name = "airlock", version, about = "Serves ONNX models with sandboxed, hot-swapped pre- and postprocessing")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve model repositories
    Serve {
        /// Settings file; the environment and flags outweigh it [default: airlock.toml where there is one]
        #[arg(long, env = "AIRLOCK_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        args: Box<ServeArgs>,
    },
    /// Check a model repository without serving it
    Check {
        #[command(flatten)]
        check: CheckArgs,
        /// The server's settings file; the environment and flags outweigh it [default: airlock.toml where there is one]
        #[arg(long, env = "AIRLOCK_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten, next_help_heading = "Settings of the server, whose limits hold here too")]
        args: Box<ServeArgs>,
    },
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve { config, args } => serve(config, *args),
        Command::Check { check, config, args } => check_repository(&check, config, *args),
    };
    let code = outcome.unwrap_or_else(|error| {
        logging::flush();
        eprintln!("airlock: {error:#}");
        ExitCode::FAILURE
    });
    logging::flush();
    code
}

fn check_repository(check: &CheckArgs, config: Option<PathBuf>, args: ServeArgs) -> anyhow::Result<ExitCode> {
    let args = ServeArgs { model_repository: vec![check.repository.clone()], ..args };
    check::run(check, &settings(config, args)?)
}

fn settings(config: Option<PathBuf>, args: ServeArgs) -> Result<Settings, SettingsError> {
    let default = PathBuf::from("airlock.toml");
    let file = config.or_else(|| default.is_file().then_some(default));
    Settings::from_args(args.over_file(file.as_deref())?)
}

fn serve(config: Option<PathBuf>, args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = settings(config, args)?;
    logging::start(&settings.log).context("starting the log")?;
    settings.foreign.report();
    let regions_max = settings.shared_memory.map_or(0, |limits| limits.regions_max);
    raise_descriptor_limit(settings.limits.connections_max, regions_max);
    for (flag, port) in &settings.listen.reserved {
        tracing::info!(flag, port, "accepted; this version does not serve that port yet");
    }
    let location = find_library(settings.onnxruntime.as_deref())?;
    let runtime = OrtRuntime::init(&location.path, &settings.loading.runtime_options())?;
    tracing::info!(
        library = %location.path.display(), found = %location.source, version = runtime.version(), "ONNX Runtime loaded"
    );
    let loader = Arc::new(Backends::new(OrtLoader::new(runtime, settings.loading.loader_options())));
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.serving_threads.get())
        .thread_name("serve")
        .enable_all()
        .build()
        .context("starting the serving threads")?;
    let clean = tokio.block_on(serve_until_stopped(&settings, loader))?;
    // Whatever has not ended by now is not waited for: its time is over.
    tokio.shutdown_timeout(Duration::from_millis(100));
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Connections, shared memory and files share the process's descriptors: as many as the system allows are asked for.
fn raise_descriptor_limit(connections_max: usize, regions_max: usize) {
    /// Descriptors for files, libraries and threads.
    const OTHERS: u64 = 256;
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Both ports may have as many connections each.
    let wanted = (connections_max as u64).saturating_mul(2).saturating_add(regions_max as u64).saturating_add(OTHERS);
    if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "fewer open files are allowed than --max-connections and --shared-memory-regions may need; lower them or \
             raise ulimit -n"
        );
    }
}

/// Serves until SIGTERM, SIGINT or SIGHUP (the terminal is gone). A second SIGTERM or SIGINT ends the process at once.
async fn serve_until_stopped(settings: &Settings, loader: Arc<Backends>) -> anyhow::Result<bool> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("listening for SIGHUP")?;
    let app = App::start(settings, loader).await?;
    let failure = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        _ = hangup.recv() => None,
        () = reconciler_ended(&app) => Some("the reconciler ended, so changes would no longer be picked up".to_owned()),
        failed = failed_at_start(&app), if settings.exit_on_error => {
            Some(format!("models did not load and --exit-on-error is set: {}", failed.join("; ")))
        }
    };
    match &failure {
        None => {
            tracing::info!(exit_timeout_s = settings.exit_timeout.as_secs(), "stopping: readiness fails from now on");
        }
        Some(reason) => tracing::error!(reason, "stopping"),
    }
    let stop = app.stop(settings.drain, settings.exit_timeout);
    let clean = tokio::select! {
        clean = stop => clean,
        _ = terminate.recv() => exit_now(),
        _ = interrupt.recv() => exit_now(),
    };
    tracing::info!(clean, "stopped");
    match failure {
        Some(reason) => Err(anyhow::Error::msg(reason)),
        None => Ok(clean),
    }
}

/// How often the reconciler is looked after.
const RECONCILER_CHECK: Duration = Duration::from_secs(1);

/// How often it is looked whether all models have been tried.
const START_CHECK: Duration = Duration::from_millis(50);

/// The models that did not load at the start; never, where all did.
async fn failed_at_start(app: &App) -> Vec<String> {
    loop {
        match app.failed_at_start() {
            None => tokio::time::sleep(START_CHECK).await,
            Some(failed) if failed.is_empty() => std::future::pending().await,
            Some(failed) => return failed,
        }
    }
}

async fn reconciler_ended(app: &App) {
    while app.is_reconciling() {
        tokio::time::sleep(RECONCILER_CHECK).await;
    }
}

fn exit_now() -> ! {
    logging::flush();
    eprintln!("airlock: second signal; ending at once");
    std::process::exit(130)
}
