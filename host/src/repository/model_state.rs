//! What the reconciler knows of one model: how far each unit is on its way to rest, what is in force, and whether a job
//! is out for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use model::{ModelName, Moment};

use super::assemble::{Basis, Job};
use super::scan::{Files, Unit};
use super::settle::Settling;

/// One model.
pub(super) struct ModelState {
    /// Its folder.
    pub dir: PathBuf,
    /// Its units.
    pub units: BTreeMap<Unit, Settling>,
    /// What is in force.
    pub basis: Basis,
    /// Whether a job is out.
    pub busy: bool,
    /// Units that do not come to rest, and why.
    pub restless: BTreeMap<Unit, String>,
    /// Whether a first job has been done, well or badly.
    pub tried: bool,
    /// Why its folder cannot be looked at now.
    pub unreadable: Option<String>,
    /// Since when its folder is gone.
    pub gone_since: Option<Moment>,
}

impl ModelState {
    /// A model just found.
    #[must_use]
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            units: BTreeMap::new(),
            basis: Basis::default(),
            restless: BTreeMap::new(),
            busy: false,
            tried: false,
            unreadable: None,
            gone_since: None,
        }
    }

    /// A job for what is at rest: everything while no configuration is in force, since nothing has been read then; else
    /// the first of configuration, plugin and versions, so that a plugin never waits for a version to load.
    pub(super) fn job(&mut self, name: &ModelName, mut at_rest: BTreeSet<Unit>) -> Job {
        let changed = if self.basis.config.is_some() {
            first_group(at_rest)
        } else {
            at_rest.extend(self.units.iter().filter(|(_, settling)| settling.is_settled()).map(|(unit, _)| *unit));
            at_rest
        };
        let usable = |unit: &Unit, settling: &Settling| {
            (settling.is_settled() || changed.contains(unit)) && !is_removed(*unit, settling, &self.dir)
        };
        let (usable, unusable): (Vec<_>, Vec<_>) =
            self.units.iter().partition(|(unit, settling)| usable(unit, settling));
        let files = usable.into_iter().map(|(unit, settling)| (*unit, settling.files().clone())).collect();
        let here = |(unit, settling): &(&Unit, &Settling)| !is_removed(**unit, settling, &self.dir);
        let moving = unusable.into_iter().filter(here).map(|(unit, _)| *unit).collect();
        self.busy = true;
        let (restless, basis) = (self.restless.clone(), self.basis.clone());
        Job { name: name.clone(), dir: self.dir.clone(), changed, files, moving, restless, basis }
    }

    /// A job has read a unit when its files were `files` (`None`: gone). If they still are, it is dealt with.
    pub(super) fn dealt_with(&mut self, unit: Unit, files: Option<&Files>) {
        self.restless.remove(&unit);
        let Some(settling) = self.units.get_mut(&unit) else { return };
        match files {
            Some(files) if files == settling.files() => settling.dealt_with(),
            None if settling.files().is_empty() => drop(self.units.remove(&unit)),
            _ => {}
        }
    }
}

fn first_group(at_rest: BTreeSet<Unit>) -> BTreeSet<Unit> {
    let Some(first) = at_rest.first().copied() else { return at_rest };
    let together = |unit: &Unit| *unit == first || matches!((first, unit), (Unit::Version(_), Unit::Version(_)));
    at_rest.into_iter().filter(together).collect()
}

/// A version whose folder is gone.
fn is_removed(unit: Unit, settling: &Settling, dir: &Path) -> bool {
    match unit {
        Unit::Version(number) => settling.files().is_empty() && !dir.join(number.to_string()).is_dir(),
        Unit::Config | Unit::Plugin => false,
    }
}
