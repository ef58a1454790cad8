//! `cargo xtask`: what a developer does with this repository, one command each. CI runs the same commands. Each command
//! brings what it needs (see `setup`) and shows every program that it runs.

mod deps;
mod hello;
mod layout;
mod lint;
mod measure;
mod plugins;
mod process;
mod serve;
mod server;
mod setup;
mod test;
mod wheels;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::layout::Layout;

/// Airlock's tasks
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Fetch what is not in the repository: a Python environment, ONNX Runtime, the model of the sample file_type
    Setup,
    /// Build the server and serve the sample repository
    Serve {
        /// Passed on to `airlock serve`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<OsString>,
    },
    /// Build the plugins from source
    Plugins {
        /// Copy those of the sample repository into it
        #[arg(long)]
        install: bool,
    },
    /// Check format, lints and dependencies, then run every test: Rust, plugins, Python
    Test {
        /// Run only the tests whose name contains this, and no checks
        filter: Option<String>,
    },
    /// The same as `test` without a filter: what .ci/run runs
    Ci,
    /// Check format, lints and dependencies
    Lint,
    /// Check licences, bans, duplicates and directions among the dependencies, offline
    Deps,
    /// Run a long test: `soak swap --for 1h`
    Soak(measure::MeasureArgs),
    /// Measure and print figures: `bench swap`, `bench isolation`
    Bench(measure::MeasureArgs),
    #[command(hide = true)]
    Hello(hello::HelloArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        // The chain of causes is for the person at the terminal; a backtrace through xtask would bury it.
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let layout = Layout::find()?;
    match task {
        Task::Setup => setup::setup(&layout),
        Task::Serve { flags } => serve::serve(&layout, &flags),
        Task::Plugins { install } => {
            plugins::build_all(layout.root())?;
            if install { plugins::install_samples(layout.root()) } else { Ok(()) }
        }
        Task::Test { filter: Some(filter) } => test::filtered(&layout, &filter),
        Task::Test { filter: None } | Task::Ci => test::everything(&layout),
        Task::Lint => lint::lint(&layout),
        Task::Deps => deps::check(&layout),
        Task::Soak(args) => measure::measure(&layout, "soak", &args),
        Task::Bench(args) => measure::measure(&layout, "bench", &args),
        Task::Hello(args) => {
            args.greet();
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_after_two_dashes_reach_the_server_as_they_are() {
        let cli = Cli::try_parse_from(["xtask", "serve", "--", "--http-port", "0"]).expect("parses");
        assert!(matches!(cli.task, Task::Serve { flags } if flags == ["--http-port", "0"]));
    }

    #[test]
    fn measuring_passes_its_arguments_on() {
        let cli = Cli::try_parse_from(["xtask", "soak", "swap", "--for", "60s"]).expect("parses");
        assert!(matches!(cli.task, Task::Soak(args) if args.arguments == ["swap", "--for", "60s"]));
        let cli = Cli::try_parse_from(["xtask", "bench", "--profile", "dist", "swap"]).expect("parses");
        assert!(matches!(cli.task, Task::Bench(args) if args.profile == "dist" && args.arguments == ["swap"]));
        assert!(Cli::try_parse_from(["xtask", "bench"]).is_err());
    }
}
