//! From a model's settled files to what should be served next: one job, run on a load thread. It changes nothing by
//! itself: it returns the next state, and the reconciler publishes it in one store. Whatever fails here is one record
//! and leaves the part that served before in its place.

mod pairing;
mod shared_plugin;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{ModelName, VersionNumber};

use super::config_correction::Correction;
use super::content::{Pieces, PluginContent, component_is_whole, read_bounded};
use super::control::Answer;
use super::declared_config::DeclaredConfig;
use super::scan::{Files, Unit, scan_model};
use super::workshop::{VersionError, Workshop, texts};
use crate::generation::PluginGeneration;
use crate::metrics::SwapOutcome;
use crate::registry::{Release, ServedModel};

/// What a model's next state is built on: what is in force now.
#[derive(Clone, Default)]
pub struct Basis {
    /// The configuration in force.
    pub config: Option<Arc<DeclaredConfig>>,
    /// Model-level plugin pieces in force.
    pub shared: Arc<Pieces>,
    /// The generation made of them.
    pub shared_generation: Option<Arc<PluginGeneration>>,
    /// The digest of the model-level plugin last refused, and why: it is not tried again until something changes.
    pub refused: Option<(Arc<str>, Arc<str>)>,
    /// Pieces that versions bring themselves.
    pub own: BTreeMap<VersionNumber, Arc<Pieces>>,
    /// What is served.
    pub served: Option<Arc<ServedModel>>,
    /// The highest generation number given so far.
    pub last_generation: u64,
}

/// What to do for one model.
pub struct Job {
    /// The model.
    pub name: ModelName,
    /// Which of those that have had this name.
    pub incarnation: u64,
    /// Its folder.
    pub dir: PathBuf,
    /// Its configuration as JSON, where a load request gave one in place of the file.
    pub config: Option<Arc<str>>,
    /// Units at rest whose content may have changed.
    pub changed: BTreeSet<Unit>,
    /// Files of every unit at rest, changed or not.
    pub files: BTreeMap<Unit, Files>,
    /// Units whose files are moving, or wait for another job.
    pub moving: BTreeSet<Unit>,
    /// Units that do not come to rest, and why.
    pub restless: BTreeMap<Unit, String>,
    /// What is in force.
    pub basis: Basis,
    /// Whoever waits for what comes of it.
    pub orders: Vec<Answer>,
}

/// What came of a job.
pub enum JobResult {
    /// The next state, perhaps the same as before.
    Done(Box<Assembly>),
    /// A unit's files are not whole yet.
    NotWhole(Unit, String),
    /// Files changed while they were read: what was read is worth nothing.
    Moved,
}

/// The next state of a model.
pub struct Assembly {
    /// What is in force from now on, `served` included.
    pub basis: Basis,
    /// One record per thing attempted.
    pub records: Vec<SwapRecord>,
    /// A generation to keep on disk once it is published.
    pub save: Option<(u64, PluginContent)>,
}

/// One attempt to publish something, for the log, the metrics and the model's problems.
#[derive(Clone, Debug)]
pub struct SwapRecord {
    /// What was attempted: `plugin`, `version 2`, `config.pbtxt`.
    pub part: String,
    /// What came of it.
    pub outcome: SwapOutcome,
    /// The plugin generation concerned, where there is one.
    pub generation: Option<u64>,
    /// Why it failed.
    pub reason: Option<String>,
    /// What to write in the configuration instead, where that is why.
    pub correction: Option<Box<Correction>>,
}

/// A refused candidate.
struct Refusal {
    outcome: SwapOutcome,
    reason: String,
    correction: Option<Box<Correction>>,
}

impl Refusal {
    fn build(reason: &impl ToString) -> Self {
        Self { outcome: SwapOutcome::FailedToBuild, reason: reason.to_string(), correction: None }
    }

    fn version(error: VersionError) -> Self {
        let reason = error.to_string();
        let correction = if let VersionError::Disagrees(correction) = error { Some(correction) } else { None };
        Self { outcome: SwapOutcome::FailedToBuild, reason, correction }
    }

    fn verification(failures: &[String]) -> Self {
        let reason = format!(
            "{} (fix: correct the plugin or the sample; where the change is meant, record it with airlock check \
             --update-samples)",
            failures.join("; ")
        );
        Self { outcome: SwapOutcome::FailedToVerify, reason, correction: None }
    }
}

/// Does a job.
pub fn assemble(job: &Job, workshop: &Workshop) -> JobResult {
    let assembler = Assembler::new(job, workshop);
    if let Err(not_whole) = assembler.check_whole() {
        return not_whole;
    }
    let assembly = assembler.run();
    if has_moved(job) {
        return JobResult::Moved;
    }
    JobResult::Done(Box::new(assembly))
}

/// Whether what was read is no longer what the files are.
fn has_moved(job: &Job) -> bool {
    let Ok(now) = scan_model(&job.dir) else { return true };
    let none = Files::new();
    job.changed.iter().any(|unit| now.units.get(unit).unwrap_or(&none) != job.files.get(unit).unwrap_or(&none))
}

struct Assembler<'a> {
    job: &'a Job,
    workshop: &'a Workshop,
    next: Basis,
    problems: BTreeMap<String, String>,
    records: Vec<SwapRecord>,
    save: Option<(u64, PluginContent)>,
    /// Whether some version that the policy asks for cannot serve, so that what serves now must stay.
    lacks_versions: bool,
}

impl<'a> Assembler<'a> {
    fn new(job: &'a Job, workshop: &'a Workshop) -> Self {
        let mut next = job.basis.clone();
        if next.last_generation == 0 {
            let records = workshop.history.records(&job.name);
            next.last_generation = records.last().map_or(0, |record| record.generation);
        }
        let problems = next.served.as_ref().map(|served| served.problems.clone()).unwrap_or_default();
        Self { job, workshop, next, problems, records: Vec::new(), save: None, lacks_versions: false }
    }

    /// Structural completeness of what has changed: a half-copied file waits, it does not fail.
    fn check_whole(&self) -> Result<(), JobResult> {
        for (unit, files) in self.job.files.iter().filter(|(unit, _)| self.job.changed.contains(unit)) {
            for path in files.keys() {
                let full = self.job.dir.join(path);
                let whole = match path.extension().and_then(|e| e.to_str()) {
                    Some("onnx") => onnx_is_whole(&full),
                    Some("wasm") => self.component_is_whole(&full),
                    _ => Ok(()),
                };
                whole.map_err(|reason| JobResult::NotWhole(*unit, format!("{}: {reason}", full.display())))?;
            }
        }
        Ok(())
    }

    /// A component over the limit is not read for this: reading its content refuses it.
    fn component_is_whole(&self, path: &Path) -> Result<(), String> {
        read_bounded(path, self.workshop.component_bytes_max()).map_or(Ok(()), |bytes| component_is_whole(&bytes))
    }

    fn run(mut self) -> Assembly {
        match self.config() {
            Ok(config) => {
                self.read_pieces();
                let versions = self.versions(&config);
                let shared = self.shared(&versions);
                let releases = self.releases(versions, &shared);
                self.finish(Some(config), releases)
            }
            Err(refusal) => {
                self.refuse("config.pbtxt", None, refusal);
                let config = self.next.config.clone();
                let releases = self.next.served.as_ref().map(|s| s.releases.clone()).unwrap_or_default();
                self.finish(config, releases)
            }
        }
    }

    fn finish(
        mut self,
        config: Option<Arc<DeclaredConfig>>,
        releases: BTreeMap<VersionNumber, Arc<Release>>,
    ) -> Assembly {
        let job = self.job;
        let is_there = |number| {
            let unit = Unit::Version(number);
            releases.contains_key(&number) || job.files.contains_key(&unit) || job.moving.contains(&unit)
        };
        self.next.own.retain(|number, _| is_there(*number));
        // Nothing is wrong with a version that is not there.
        self.problems.retain(|part, _| Unit::version_of(part).is_none_or(is_there));
        let name = self.job.name.clone();
        self.next.config.clone_from(&config);
        self.next.served = Some(Arc::new(ServedModel { name, config, releases, problems: self.problems }));
        Assembly { basis: self.next, records: self.records, save: self.save }
    }

    fn refuse(&mut self, part: &str, generation: Option<u64>, refusal: Refusal) {
        self.problems.insert(part.to_owned(), refusal.reason.clone());
        self.records.push(SwapRecord {
            part: part.to_owned(),
            outcome: refusal.outcome,
            generation,
            reason: Some(refusal.reason),
            correction: refusal.correction,
        });
    }

    fn publish(&mut self, part: &str, generation: Option<u64>) {
        self.problems.remove(part);
        self.records.push(SwapRecord {
            part: part.to_owned(),
            outcome: SwapOutcome::Published,
            generation,
            reason: None,
            correction: None,
        });
    }

    fn config(&mut self) -> Result<Arc<DeclaredConfig>, Refusal> {
        if !self.job.changed.contains(&Unit::Config)
            && let Some(config) = &self.next.config
        {
            return Ok(Arc::clone(config));
        }
        let read = match &self.job.config {
            None => self.workshop.read_config(&self.job.name, &self.job.dir),
            Some(json) => self.workshop.read_config_json(&self.job.name, &self.job.dir, json),
        };
        let config = read.map_err(|problems| Refusal::build(&texts(&problems).join("; ")))?;
        match &self.next.config {
            Some(current) if **current == config => {
                let current = Arc::clone(current);
                self.problems.remove("config.pbtxt");
                Ok(current)
            }
            current => {
                if current.is_some() {
                    self.publish("config.pbtxt", None);
                }
                self.problems.remove("config.pbtxt");
                Ok(Arc::new(config))
            }
        }
    }

    /// Reads the plugin pieces of every changed unit. Pieces that cannot be read are refused and the old ones stay.
    fn read_pieces(&mut self) {
        for unit in &self.job.changed {
            let files = self.job.files.get(unit).cloned().unwrap_or_default();
            let component_bytes_max = self.workshop.component_bytes_max();
            let read = |prefix: &Path| Pieces::read(&self.job.dir, prefix, &files, component_bytes_max).map(Arc::new);
            match unit {
                Unit::Config => {}
                Unit::Plugin => match read(Path::new("")) {
                    Ok(pieces) => self.next.shared = pieces,
                    Err(error) => self.refuse("plugin", None, Refusal::build(&error)),
                },
                Unit::Version(number) => match read(Path::new(&number.to_string())) {
                    Ok(pieces) => drop(self.next.own.insert(*number, pieces)),
                    Err(error) => self.refuse(&unit.to_string(), None, Refusal::build(&error)),
                },
            }
        }
    }
}

fn onnx_is_whole(path: &Path) -> Result<(), String> {
    match engine::onnx_is_complete(path) {
        Ok(engine::Completeness::Complete { .. }) => Ok(()),
        Ok(engine::Completeness::Incomplete { reason }) => Err(reason),
        // What is no model, must not be loaded, or cannot be read now is reported where it is loaded.
        Ok(engine::Completeness::Invalid { .. } | engine::Completeness::Refused { .. }) | Err(_) => Ok(()),
    }
}
