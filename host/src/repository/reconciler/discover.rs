//! Which models there are: all repositories at once, or one model after a hint or a request.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use model::{ModelName, Moment};

use tokio::time::Instant;

use super::Loop;
use crate::metrics::SERIES_GRACE;
use crate::repository::scan::{ModelFiles, scan_model, scan_repository};
use crate::settings::{ModelControl, StartupModels};

/// Why a folder is no model.
const NO_MODEL: &str = "it has neither a config.pbtxt, nor a version folder, nor a plugin";

/// Why nobody can tell which folder is meant. The text is Triton's.
pub(super) const DUPLICATE: &str = "model appears in two or more repositories";

/// What the repositories hold of one name.
#[derive(Default)]
struct Found {
    folders: Vec<PathBuf>,
    readable: Option<ModelFiles>,
    reason: Option<String>,
}

impl Loop {
    pub(super) fn scan_all(&mut self, now: Moment) {
        let (found, all_listed) = self.list_repositories();
        self.want_all(&found);
        for (name, found) in &found {
            self.look_at(name, found, now);
        }
        if all_listed {
            let is_gone = |name: &&ModelName| !found.contains_key(*name);
            let gone: Vec<ModelName> = self.models.keys().filter(is_gone).cloned().collect();
            gone.iter().for_each(|name| self.observe_gone(name, now));
            self.report_missing(&found);
            if let Some(until) = Instant::now().checked_sub(SERIES_GRACE) {
                self.parts.registry.forget_unloaded(until, |name| !found.contains_key(name));
            }
        }
    }

    pub(super) fn scan_one(&mut self, name: &ModelName, now: Moment) {
        let substitute = self.models.get(name).filter(|state| state.is_substituted()).map(|state| state.dir.clone());
        let folders = substitute.map_or_else(|| self.folders_of(name), |dir| vec![dir]);
        let Some(first) = folders.first() else {
            if self.parts.roots.iter().all(|root| root.is_dir()) {
                self.observe_gone(name, now);
            }
            return;
        };
        let (readable, reason) = match scan_model(first) {
            Ok(files) => (Some(files), None),
            Err(error) => (None, Some(error.to_string())),
        };
        self.look_at(name, &Found { folders, readable, reason }, now);
    }

    /// The folders of this name, one per repository that has it.
    pub(super) fn folders_of(&self, name: &ModelName) -> Vec<PathBuf> {
        let roots = self.parts.roots.iter();
        roots.map(|root| root.join(name.as_str())).filter(|dir| dir.is_dir()).collect()
    }

    /// Lists every repository, and says whether all could be.
    fn list_repositories(&mut self) -> (BTreeMap<ModelName, Found>, bool) {
        let mut all: BTreeMap<ModelName, Found> = BTreeMap::new();
        let (mut skipped, mut all_listed) = (Vec::new(), true);
        for root in self.parts.roots.clone() {
            let files = match scan_repository(&root) {
                Ok(files) => files,
                Err(error) => {
                    all_listed = false;
                    self.report_unlistable(&root, &error);
                    continue;
                }
            };
            self.unlistable.remove(&root);
            skipped.extend(files.skipped);
            for (name, (dir, reason)) in files.unreadable {
                let found = all.entry(name).or_default();
                found.folders.push(dir);
                found.reason = Some(reason);
            }
            for (name, model) in files.models {
                if model.units.is_empty() && !self.models.contains_key(&name) && !self.wanted.contains(&name) {
                    skipped.push((model.dir, NO_MODEL.to_owned()));
                    continue;
                }
                let found = all.entry(name).or_default();
                found.folders.push(model.dir.clone());
                found.readable = Some(model);
            }
        }
        self.report_skipped(&skipped);
        if all_listed {
            let seen: BTreeSet<&PathBuf> = skipped.iter().map(|(path, _)| path).collect();
            self.skipped.retain(|path, _| seen.contains(path));
        }
        (all, all_listed)
    }

    /// One name, as it was found: a model, a folder that cannot be read, or folders of which nobody can tell which is meant.
    fn look_at(&mut self, name: &ModelName, found: &Found, now: Moment) {
        let is_substituted = self.models.get(name).is_some_and(|state| state.is_substituted());
        if !self.is_wanted(name) || (is_substituted && found.folders.iter().all(|dir| !self.is_dir_of(name, dir))) {
            return;
        }
        if let [first, _, ..] = &found.folders[..] {
            return self.observe_unreadable(name, first, DUPLICATE);
        }
        match (&found.readable, &found.reason) {
            (Some(files), _) if files.units.is_empty() && !self.models.contains_key(name) => {
                if self.wanted.contains(name) {
                    self.observe_unreadable(name, &files.dir, NO_MODEL);
                }
            }
            (Some(files), _) => self.observe(name, files.clone(), now),
            (None, Some(reason)) => self.observe_unreadable(name, &found.folders[0], reason),
            (None, None) => {}
        }
    }

    fn is_dir_of(&self, name: &ModelName, dir: &Path) -> bool {
        self.models.get(name).is_some_and(|state| state.dir == dir)
    }

    /// Whether anybody has asked for this model: everybody where the files decide, and only at the start where they do
    /// only then.
    fn is_wanted(&self, name: &ModelName) -> bool {
        match &self.parts.control {
            ModelControl::Files => true,
            ModelControl::FilesAtStart => self.first_pass || self.models.contains_key(name),
            ModelControl::Requests(_) => self.wanted.contains(name),
        }
    }

    /// At the start every model may have been asked for by `*`.
    fn want_all(&mut self, found: &BTreeMap<ModelName, Found>) {
        if self.first_pass && self.parts.control == ModelControl::Requests(StartupModels::All) {
            self.wanted.extend(found.keys().cloned());
        }
    }

    /// Models that were asked for at the start and are in no repository.
    fn report_missing(&mut self, found: &BTreeMap<ModelName, Found>) {
        if !self.first_pass {
            return;
        }
        let missing: Vec<ModelName> = self.wanted.iter().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in missing {
            let Some(dir) = self.parts.roots.first().map(|root| root.join(name.as_str())) else { continue };
            self.observe_unreadable(&name, &dir, &self.nowhere(&name));
        }
    }

    /// Where a model was looked for in vain.
    pub(super) fn nowhere(&self, name: &ModelName) -> String {
        let places: Vec<_> =
            self.parts.roots.iter().map(|root| root.join(name.as_str()).display().to_string()).collect();
        format!("there is no folder {}", places.join(", nor "))
    }

    fn report_skipped(&mut self, skipped: &[(PathBuf, String)]) {
        for (path, reason) in skipped {
            if self.skipped.get(path) != Some(reason) {
                tracing::warn!(path = %path.display(), reason, "left alone");
                self.skipped.insert(path.clone(), reason.clone());
            }
        }
    }

    fn report_unlistable(&mut self, root: &Path, error: &std::io::Error) {
        if self.unlistable.insert(root.to_path_buf()) {
            tracing::error!(
                repository = %root.display(), %error,
                "the model repository cannot be listed; its models serve on as they are"
            );
        }
    }
}
