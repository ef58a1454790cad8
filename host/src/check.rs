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
use engine::{Backends, OrtLoader, OrtRuntime, find_library};
use model::ModelName;
use plugin::SandboxRuntime;

use crate::generation::PluginGeneration;
use crate::janitor::chore_queue;
use crate::metrics::Metrics;
use crate::registry::{PluginSlot, Release, ServedModel};
use crate::repository::assemble::{Basis, Job, JobResult, assemble};
use crate::repository::config_correction::Correction;
use crate::repository::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use crate::repository::content::Pieces;
use crate::repository::history::History;
use crate::repository::plugin_toml::parse_plugin_toml;
use crate::repository::private_copy::LoadingFolder;
use crate::repository::problem::{Problem, Severity, read_text};
use crate::repository::samples::{self, Sample};
use crate::repository::scan::{ModelFiles, Unit, scan_repository};
use crate::repository::verify::{HeldTo, answer_sample, verify};
use crate::repository::workshop::{Verification, Workshop, texts};
use crate::settings::{LogFormat, LogLevels, LogSettings, Settings};

/// Time for one sample.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What `airlock check` can be told beside the server's settings, whose limits hold here too.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The model repository
    #[arg(value_name = "REPO")]
    pub repository: PathBuf,
    /// Write what the plugins answer now into the samples' expected files, for a person to review
    #[arg(long)]
    pub update_samples: bool,
}

/// Runs the check. The exit code is 0 when nothing stops the repository from being served.
///
/// # Errors
/// When the check itself cannot be made.
pub fn run(args: &CheckArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let log = LogSettings {
        format: Some(LogFormat::Text),
        filter: "error".to_owned(),
        levels: LogLevels::default(),
        file: None,
    };
    crate::logging::start(&log).context("starting the log")?;
    let found = scan_repository(&args.repository)
        .with_context(|| format!("listing the model repository {}", args.repository.display()))?;
    let mut report = CheckReport::default();
    for (path, reason) in found.skipped.iter().chain(found.unreadable.values()) {
        report.error(&format!("{}: {reason}", path.display()));
    }
    for (name, files) in &found.models {
        read_all(name, files, settings, &mut report);
    }
    let mode = if args.update_samples { SampleMode::Record } else { SampleMode::Compare };
    match build_workshop(settings) {
        Ok(bench) => {
            for (name, files) in &found.models {
                bench.check_model(name, files, mode, &mut report);
            }
        }
        Err(error) => report.error(&format!("models cannot be loaded: {error:#}")),
    }
    if found.models.is_empty() {
        let folder = args.repository.display();
        report.error(&format!("{folder} holds no model; it needs one folder per model, such as my_model/1/model.onnx"));
    }
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    println!(
        "{} checked, {}, {}",
        count(found.models.len(), "model"),
        count(report.errors, "error"),
        count(report.warnings, "warning")
    );
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
    /// Models whose configuration cannot be used.
    without_config: BTreeSet<ModelName>,
}

impl CheckReport {
    fn error(&mut self, text: &str) {
        if self.said.insert(text.to_owned()) {
            self.errors += 1;
            println!("error: {text}");
        }
    }

    /// What to write where a configuration and its model file disagree.
    fn correction(&mut self, subject: &str, correction: &Correction) {
        let lines = correction.lines().join("\n    ");
        self.error(&format!(
            "{subject}: {}\n  write in the configuration, in place of its own fields of these names:\n    {lines}",
            correction.problem()
        ));
    }

    /// The problems of one file. The loader tells them again, all in one text, which is not printed then.
    fn problems(&mut self, problems: &[Problem]) {
        problems.iter().for_each(|problem| self.problem(problem));
        self.said.insert(texts(problems).join("; "));
    }

    /// Labels of versions that would not serve.
    fn labels(&mut self, served: &ServedModel, dir: &Path) {
        let labels = served.config.iter().flat_map(|config| &config.version_labels);
        for (label, version) in labels.filter(|(_, version)| !served.releases.contains_key(version)) {
            self.warnings += 1;
            println!("warning: {}: the label '{label}' names version {version}, which does not serve", dir.display());
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
fn read_all(name: &ModelName, files: &ModelFiles, settings: &Settings, report: &mut CheckReport) {
    let config_file = settings.loading.config_choice.file(&files.dir);
    let parsed = read_text(&config_file).and_then(|text| {
        let Some(text) = text else { return Ok(Vec::new()) };
        let context = ConfigContext { model: name, dir: &files.dir, defaults: &ConfigDefaults::of(settings) };
        parse_model_config(&config_file, &text, &context).map(|(_, warnings)| warnings)
    });
    match parsed {
        Ok(warnings) => warnings.iter().for_each(|warning| report.problem(warning)),
        Err(problems) => {
            report.problems(&problems);
            report.without_config.insert(name.clone());
        }
    }
    for (unit, unit_files) in &files.units {
        let folder = match unit {
            Unit::Config => continue,
            Unit::Plugin => files.dir.clone(),
            Unit::Version(number) => files.dir.join(number.to_string()),
        };
        let manifest = folder.join("plugin.toml");
        let parsed = read_text(&manifest)
            .and_then(|text| text.map_or(Ok(()), |text| parse_plugin_toml(&manifest, &text).map(drop)));
        if let Err(problems) = parsed {
            report.problems(&problems);
        }
        let samples_dir = folder.join("samples");
        if unit_files.keys().any(|path| files.dir.join(path).starts_with(&samples_dir))
            && let Err(problems) = samples::read_samples(&samples_dir)
        {
            report.problems(&problems);
        }
    }
}

/// The tools of a check and what must outlive them.
struct Bench {
    workshop: Workshop,
    _state: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

fn build_workshop(settings: &Settings) -> anyhow::Result<Bench> {
    let location = find_library(settings.onnxruntime.as_deref())?;
    let onnxruntime = OrtRuntime::init(&location.path, &settings.loading.runtime_options())?;
    let loader = Arc::new(Backends::new(OrtLoader::new(onnxruntime, settings.loading.loader_options())));
    let state = tempfile::tempdir().context("making a temporary folder")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sandbox = SandboxRuntime::new(settings.sandbox_config(state.path()))?;
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
        rate_limiter: None,
        response_cache: None,
        config_choice: settings.loading.config_choice.clone(),
        defaults: ConfigDefaults::of(settings),
        load_retries: settings.loading.retries,
        headroom_bytes: settings.loading.headroom_bytes,
        held_until: 0,
        sample_timeout: SAMPLE_TIMEOUT,
        // The samples are run afterwards, all of them, so that one bad sample does not hide the others.
        verification: Verification::Skip,
        plugin_memory_bytes_max: settings.sandbox.memory_bytes_max,
    };
    Ok(Bench { workshop, _state: state, _runtime: runtime })
}

impl Bench {
    fn check_model(&self, name: &ModelName, files: &ModelFiles, mode: SampleMode, report: &mut CheckReport) {
        let job = Job {
            name: name.clone(),
            incarnation: 0,
            dir: files.dir.clone(),
            config: None,
            changed: files.units.keys().copied().collect(),
            files: files.units.clone(),
            moving: BTreeSet::new(),
            restless: std::collections::BTreeMap::new(),
            basis: Basis::default(),
            orders: Vec::new(),
        };
        let assembly = match assemble(&job, &self.workshop) {
            JobResult::Done(assembly) => assembly,
            JobResult::NotWhole(_, reason) => return report.error(&format!("{}: {reason}", files.dir.display())),
            JobResult::Moved => {
                return report.error(&format!("{}: files changed during the check; run it again", files.dir.display()));
            }
        };
        for record in &assembly.records {
            if let Some(correction) = &record.correction {
                report.correction(&format!("{}: {}", files.dir.display(), record.part), correction);
            } else if let Some(reason) = record.reason.as_ref().filter(|reason| !report.said.contains(*reason)) {
                report.error(&format!("{}: {}: {reason}", files.dir.display(), record.part));
            }
        }
        if report.without_config.contains(name) {
            self.check_plugin_alone(name, files, report);
        }
        if let Some(served) = &assembly.basis.served {
            report.labels(served, &files.dir);
            self.check_samples(served, &assembly.basis, mode, report);
        }
    }

    /// Builds the plugin of a model that cannot be loaded, so that its problems are told as well.
    fn check_plugin_alone(&self, name: &ModelName, files: &ModelFiles, report: &mut CheckReport) {
        let Some(plugin_files) = files.units.get(&Unit::Plugin) else { return };
        let pieces = Pieces::read(&files.dir, Path::new(""), plugin_files, self.workshop.component_bytes_max());
        let built = pieces.map_err(|error| error.to_string()).and_then(|pieces| {
            let Some(content) = pieces.over(&Pieces::default()) else { return Ok(()) };
            let manifest = files.dir.join("plugin.toml");
            let built = self.workshop.build_generation(name, 1, &content, &manifest);
            built.map(drop).map_err(|error| error.to_string())
        });
        if let Err(reason) = built
            && !report.said.contains(&reason)
        {
            report.error(&format!("{}: plugin: {reason}", files.dir.display()));
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
        if sample.expectation.compare(answer.status, &answer.content_type, &answer.body).is_ok() {
            println!("unchanged: {}", dir.display());
            return;
        }
        match samples::write_expected(dir, answer.status, &answer.content_type, &answer.body) {
            Ok(()) => println!("recorded: {} (status {})", dir.display(), answer.status),
            Err(error) => report.error(&format!("writing into {}: {error}", dir.display())),
        }
    }
}
