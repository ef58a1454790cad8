//! `airlock check REPO`: everything that serving would find, without serving. First every file that can be read wrong is
//! read; then each model is loaded, its plugin compiled and its samples run, exactly as a start would. Every problem is
//! printed, with file, field and what to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use engine::{OrtLoader, OrtRuntime, find_library};
use model::ModelName;
use plugin::{RuntimeConfig, SandboxRuntime};

use crate::generation::PluginGeneration;
use crate::janitor::chore_queue;
use crate::metrics::Metrics;
use crate::registry::{PluginSlot, Release, ServedModel};
use crate::repository::assemble::{Basis, Job, JobResult, assemble};
use crate::repository::config_text::ConfigDefaults;
use crate::repository::history::History;
use crate::repository::plugin_toml::parse_plugin_toml;
use crate::repository::private_copy::LoadingFolder;
use crate::repository::problem::{Problem, Severity};
use crate::repository::samples::{self, Sample};
use crate::repository::scan::{ModelFiles, Unit, scan_repository};
use crate::repository::verify::{HeldTo, answer_sample, verify};
use crate::repository::workshop::{Verification, Workshop};

/// Time for one sample.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What `airlock check` can be told.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The model repository
    #[arg(value_name = "REPO")]
    repository: PathBuf,
    /// ONNX Runtime's shared library
    #[arg(long, env = "AIRLOCK_ONNXRUNTIME", value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
    /// Write what the plugins answer now into the samples' expected files, for a person to review
    #[arg(long)]
    update_samples: bool,
}

/// Runs the check. The exit code is 0 when nothing stops the repository from being served.
///
/// # Errors
/// When the check itself cannot be made.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    crate::logging::start("error", Some(crate::settings::LogFormat::Text)).context("starting the log")?;
    let found = scan_repository(&args.repository)
        .with_context(|| format!("listing the model repository {}", args.repository.display()))?;
    let mut report = CheckReport::default();
    for (path, reason) in &found.skipped {
        report.error(&format!("{}: {reason}", path.display()));
    }
    for (name, files) in &found.models {
        read_all(name, files, &mut report);
    }
    let mode = if args.update_samples { SampleMode::Record } else { SampleMode::Compare };
    match build_workshop(args) {
        Ok(bench) => {
            for (name, files) in &found.models {
                bench.check_model(name, files, mode, &mut report);
            }
        }
        Err(error) => report.error(&format!("models cannot be loaded: {error:#}")),
    }
    println!("{} models checked, {} errors, {} warnings", found.models.len(), report.errors, report.warnings);
    Ok(if report.errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What to do with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SampleMode {
    Compare,
    Record,
}

/// Counts what it prints; the same text is printed once.
#[derive(Default)]
struct CheckReport {
    errors: usize,
    warnings: usize,
    said: BTreeSet<String>,
}

impl CheckReport {
    fn error(&mut self, text: &str) {
        if self.said.insert(text.to_owned()) {
            self.errors += 1;
            println!("error: {text}");
        }
    }

    fn problem(&mut self, problem: &Problem) {
        match problem.severity {
            Severity::Error => self.error(&problem.to_string()),
            Severity::Warning => {
                self.warnings += 1;
                println!("warning: {problem}");
            }
        }
    }
}

/// Reads every file that people write by hand.
fn read_all(name: &ModelName, files: &ModelFiles, report: &mut CheckReport) {
    let config_file = files.dir.join("config.pbtxt");
    if let Ok(text) = std::fs::read_to_string(&config_file) {
        let defaults = ConfigDefaults::default();
        match crate::repository::config_text::parse_model_config(&config_file, &text, name, &defaults) {
            Ok((_, warnings)) => warnings.iter().for_each(|warning| report.problem(warning)),
            Err(problems) => problems.iter().for_each(|problem| report.problem(problem)),
        }
    }
    for (unit, unit_files) in &files.units {
        let folder = match unit {
            Unit::Config => continue,
            Unit::Plugin => files.dir.clone(),
            Unit::Version(number) => files.dir.join(number.to_string()),
        };
        let manifest = folder.join("plugin.toml");
        if let Ok(text) = std::fs::read_to_string(&manifest)
            && let Err(problems) = parse_plugin_toml(&manifest, &text)
        {
            problems.iter().for_each(|problem| report.problem(problem));
        }
        let samples_dir = folder.join("samples");
        if unit_files.keys().any(|path| files.dir.join(path).starts_with(&samples_dir))
            && let Err(problems) = samples::read_samples(&samples_dir)
        {
            problems.iter().for_each(|problem| report.problem(problem));
        }
    }
}

/// The tools of a check and what must outlive them.
struct Bench {
    workshop: Workshop,
    _state: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

fn build_workshop(args: &CheckArgs) -> anyhow::Result<Bench> {
    let location = find_library(args.onnxruntime.as_deref())?;
    let loader = Arc::new(OrtLoader::new(OrtRuntime::init(&location.path)?));
    let state = tempfile::tempdir().context("making a temporary folder")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let limits = RuntimeConfig::new(state.path().join("compiled"));
    let memory_bytes_max = limits.memory_bytes_max;
    let sandbox = SandboxRuntime::new(limits)?;
    // Nothing is replaced here, so nothing is left to the janitor: its queue is dropped.
    let (chores, _) = chore_queue();
    let workshop = Workshop {
        loader,
        sandbox,
        runtime: runtime.handle().clone(),
        metrics: Metrics::new(),
        chores,
        history: History::new(state.path(), 1),
        loading: LoadingFolder::new(state.path()),
        defaults: ConfigDefaults::default(),
        sample_timeout: SAMPLE_TIMEOUT,
        // The samples are run afterwards, all of them, so that one bad sample does not hide the others.
        verification: Verification::Skip,
        plugin_memory_bytes_max: memory_bytes_max,
    };
    Ok(Bench { workshop, _state: state, _runtime: runtime })
}

impl Bench {
    fn check_model(&self, name: &ModelName, files: &ModelFiles, mode: SampleMode, report: &mut CheckReport) {
        let job = Job {
            name: name.clone(),
            dir: files.dir.clone(),
            changed: files.units.keys().copied().collect(),
            files: files.units.clone(),
            restless: std::collections::BTreeMap::new(),
            basis: Basis::default(),
        };
        let assembly = match assemble(&job, &self.workshop) {
            JobResult::Done(assembly) => assembly,
            JobResult::NotWhole(_, reason) => return report.error(&format!("{}: {reason}", files.dir.display())),
            JobResult::Moved => {
                return report.error(&format!("{}: files changed during the check; run it again", files.dir.display()));
            }
        };
        for record in &assembly.records {
            if let Some(reason) = &record.reason {
                report.error(&format!("{}: {}: {reason}", files.dir.display(), record.part));
            }
        }
        if let Some(served) = &assembly.basis.served {
            self.check_samples(served, &assembly.basis, mode, report);
        }
    }

    /// Holds the samples of each served version to their values, or records new ones.
    fn check_samples(&self, served: &ServedModel, basis: &Basis, mode: SampleMode, report: &mut CheckReport) {
        for (number, release) in &served.releases {
            let Release { version, plugin: PluginSlot::Serving(generation) } = &**release else { continue };
            let own = basis.own.get(number).and_then(|pieces| pieces.samples.clone());
            let samples = own.or_else(|| basis.shared.samples.clone()).unwrap_or_default();
            if mode == SampleMode::Record {
                for sample in samples.iter() {
                    self.update(version, generation, sample, report);
                }
                continue;
            }
            let workshop = &self.workshop;
            for failure in verify(workshop, version, generation, &samples, HeldTo::Values) {
                report.error(&format!(
                    "{}: plugin: {failure} (fix: correct the plugin or the sample, or record what it answers now with \
                     --update-samples)",
                    served.name
                ));
            }
        }
    }

    fn update(
        &self,
        version: &crate::registry::LoadedVersion,
        generation: &PluginGeneration,
        sample: &Sample,
        report: &mut CheckReport,
    ) {
        let answer = answer_sample(&self.workshop, version, generation, sample);
        if let Some(failure) = answer.failure {
            return report.error(&format!("sample '{}' was not recorded: {failure}", sample.name));
        }
        let dir: &Path = &sample.dir;
        match samples::write_expected(dir, answer.status, &answer.content_type, &answer.body) {
            Ok(()) => println!("recorded: {} (status {})", dir.display(), answer.status),
            Err(error) => report.error(&format!("writing into {}: {error}", dir.display())),
        }
    }
}
