//! Long tests and benchmarks: programs of the `tests` package, run against a server that is built here.

use std::process::Command;

use anyhow::{Result, bail};

use crate::layout::Layout;
use crate::{plugins, process, server, setup};

/// What to run and against which build.
#[derive(clap::Args, Debug)]
pub(crate) struct MeasureArgs {
    /// The Cargo profile of the server: release, or dist as published figures use
    #[arg(long, default_value = "release")]
    pub(crate) profile: String,
    /// Its name and arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// Builds the server and runs the program `binary` of the `tests` package.
pub(crate) fn measure(layout: &Layout, binary: &str, args: &MeasureArgs) -> Result<()> {
    setup::setup(layout)?;
    plugins::build_all(layout.root())?;
    server::build(layout)?;
    match args.profile.as_str() {
        server::RELEASE => {}
        "dist" => server::build_dist(layout)?,
        other => bail!("--profile is release or dist, not {other:?}"),
    }
    let mut program = Command::new(layout.program(server::RELEASE, binary));
    program.args(&args.arguments).envs(layout.test_environment(&args.profile)).current_dir(layout.root());
    process::run(&mut program)
}
