//! Versions: what the policy asks for, loaded where it is not loaded already.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use model::{ModelConfig, VersionNumber, VersionPolicy};

use super::{Assembler, Refusal};
use crate::registry::{LoadedVersion, Release};
use crate::repository::content::version_digest;
use crate::repository::declared_config::DeclaredConfig;
use crate::repository::scan::Unit;
use crate::repository::workshop::{MODEL_IN_FOLDER, version_file};

/// A version ready to serve, and how it comes to be.
pub(super) struct Ready {
    pub(super) version: Arc<LoadedVersion>,
    pub(super) origin: Origin,
}

/// How a version comes to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This job loaded it.
    Loaded,
    /// It serves, and its files were looked at and found to be the ones it was loaded from.
    Same,
    /// It serves, whatever has become of its files: what was told of them stays told.
    Kept,
}

impl Ready {
    pub(super) fn is_new(&self) -> bool {
        self.origin == Origin::Loaded
    }
}

impl Assembler<'_> {
    /// Loads what the policy asks for and is not loaded already. Versions that fail are recorded and left out.
    pub(super) fn versions(&mut self, config: &Arc<DeclaredConfig>) -> BTreeMap<VersionNumber, Ready> {
        let present = self.present(&config.model);
        let desired = config.model.version_policy.choose(&present);
        self.report_folders(&config.model.version_policy, &desired);
        let is_coming = self.job.moving.iter().any(|unit| matches!(unit, Unit::Version(_)));
        if desired.is_empty() && (self.note_restless_versions() || is_coming) {
            self.lacks_versions = true;
        } else if desired.is_empty() {
            let reason = format!(
                "at least one version must be available under the version policy of model '{}'; put one into {}",
                self.job.name,
                version_file(&config.model, &self.job.dir, VersionNumber::new(1).expect("1 is not 0")).display()
            );
            self.refuse("versions", None, Refusal::build(&reason));
            self.lacks_versions = true;
        } else {
            self.problems.remove("versions");
        }
        let mut ready = BTreeMap::new();
        for number in desired {
            if self.is_known_bad(config, number) {
                self.lacks_versions = true;
                continue;
            }
            match self.version(config, number) {
                Ok(version) => drop(ready.insert(number, version)),
                Err(refusal) => {
                    self.lacks_versions = true;
                    self.refuse(&Unit::Version(number).to_string(), None, refusal);
                }
            }
        }
        if self.lacks_versions {
            self.keep_served(&mut ready);
        }
        ready
    }

    /// Tells the log of versions that the policy names and nobody has, and of folders that look like versions and are none.
    fn report_folders(&self, policy: &VersionPolicy, desired: &[VersionNumber]) {
        if let VersionPolicy::Specific(named) = policy {
            for version in named.iter().filter(|number| !desired.contains(number)) {
                tracing::error!(model = %self.job.name, %version, "the version policy names a version that is not there");
            }
        }
        for folder in folders_with_leading_zero(&self.job.dir) {
            tracing::warn!(model = %self.job.name, folder, "ignored: a version's folder has no leading zero");
        }
    }

    /// Versions whose files do not come to rest are why there is none; says whether there are such.
    fn note_restless_versions(&mut self) -> bool {
        let restless = self.job.restless.iter().filter(|(unit, _)| matches!(unit, Unit::Version(_)));
        let notes: Vec<(String, String)> = restless.map(|(unit, reason)| (unit.to_string(), reason.clone())).collect();
        let any = !notes.is_empty();
        self.problems.extend(notes);
        any
    }

    /// What serves now stays, its plugin included, where something that should replace it does not serve.
    fn keep_served(&mut self, ready: &mut BTreeMap<VersionNumber, Ready>) {
        for (number, release) in self.job.basis.served.iter().flat_map(|served| &served.releases) {
            if let Entry::Vacant(place) = ready.entry(*number) {
                place.insert(Ready { version: Arc::clone(&release.version), origin: Origin::Kept });
                self.restore_pieces(*number);
            }
        }
    }

    /// A version that was refused, and nothing that could change that has changed since.
    fn is_known_bad(&self, config: &Arc<DeclaredConfig>, number: VersionNumber) -> bool {
        let unit = Unit::Version(number);
        let same_config = self.job.basis.config.as_ref().is_some_and(|current| Arc::ptr_eq(current, config));
        let unchanged = same_config && !self.job.changed.contains(&unit) && !self.job.changed.contains(&Unit::Plugin);
        unchanged && self.current_release(number).is_none() && self.problems.contains_key(&unit.to_string())
    }

    /// Version folders that hold a model file, where the backend has files. One without is perhaps being filled: it counts once it has one.
    fn present(&mut self, config: &ModelConfig) -> Vec<VersionNumber> {
        let mut present = Vec::new();
        for (number, files) in self.job.files.iter().filter_map(|(unit, files)| Some((version_number(unit)?, files))) {
            let file = Path::new(&number.to_string()).join(&config.model_filename);
            let is_there = files.contains_key(&file) || files.contains_key(&file.join(MODEL_IN_FOLDER));
            if is_there || !config.backend.has_file() {
                present.push(number);
                continue;
            }
            let reason = format!("{} is not there", self.job.dir.join(file).display());
            if self.job.changed.contains(&Unit::Version(number)) {
                tracing::warn!(model = %self.job.name, version = %number, reason, "not a version yet");
            }
            self.problems.insert(Unit::Version(number).to_string(), reason);
        }
        // A version that serves is not gone because its files are being replaced.
        let serves = |number: &VersionNumber| self.current_release(*number).is_some();
        present.extend(self.job.moving.iter().filter_map(version_number).filter(serves));
        present
    }

    fn version(&mut self, config: &Arc<DeclaredConfig>, number: VersionNumber) -> Result<Ready, Refusal> {
        let unit = Unit::Version(number);
        let current = self.current_release(number).map(|release| Arc::clone(&release.version));
        let kept = |version: &Arc<LoadedVersion>, origin| Ready { version: Arc::clone(version), origin };
        if let Some(version) = current.as_ref().filter(|_| self.job.moving.contains(&unit)) {
            return Ok(kept(version, Origin::Kept));
        }
        let is_unchanged = !self.job.changed.contains(&unit);
        if let Some(version) = current.as_ref().filter(|_| is_unchanged)
            && adapt(version, config)?
        {
            return Ok(kept(version, Origin::Kept));
        }
        let files = &self.job.files[&unit];
        let digest = version_digest(&self.job.dir, Path::new(&number.to_string()), files)
            .map_err(|error| Refusal::build(&error))?;
        if let Some(version) = current.as_ref().filter(|version| version.digest == digest)
            && adapt(version, config)?
        {
            return Ok(kept(version, Origin::Same));
        }
        let loaded = self.workshop.load_version(config, &self.job.dir, number, digest);
        Ok(Ready { version: Arc::new(loaded.map_err(Refusal::version)?), origin: Origin::Loaded })
    }

    pub(super) fn current_release(&self, number: VersionNumber) -> Option<&Arc<Release>> {
        self.job.basis.served.as_ref()?.releases.get(&number)
    }
}

/// Whether a version that serves is what the configuration asks for, as it is or with more or fewer instances.
fn adapt(version: &LoadedVersion, config: &Arc<DeclaredConfig>) -> Result<bool, Refusal> {
    let current = version.config();
    if current.declared.makes_the_same_version_as(config) {
        if current.declared.version_labels != config.version_labels {
            version.adopt(config);
        }
        return Ok(true);
    }
    if !current.declared.differs_only_in_instances(config) {
        return Ok(false);
    }
    version.resize(config).map_err(|error| Refusal::build(&error))?;
    tracing::info!(
        model = %version.model, version = %version.number, instances = version.batch.instances(),
        "instances changed; nothing was loaded again"
    );
    Ok(true)
}

fn version_number(unit: &Unit) -> Option<VersionNumber> {
    match unit {
        Unit::Version(number) => Some(*number),
        _ => None,
    }
}

/// Folders named as a number with zeros before it, which Triton ignores.
fn folders_with_leading_zero(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.path().is_dir()).filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}
