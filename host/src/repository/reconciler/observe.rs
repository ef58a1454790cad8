//! What a look at one model makes of it: what moves, what is at rest and goes to a load thread, what is gone, and what
//! cannot be looked at.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::{ModelName, Moment};

use super::{FOLDER, Loop};
use crate::metrics::SwapOutcome;
use crate::registry::ServedModel;
use crate::repository::control::ControlError;
use crate::repository::model_state::{Following, ModelState};
use crate::repository::scan::{Files, ModelFiles, Unit};
use crate::repository::settle::{Observation, Settling};
use crate::repository::workshop::Workshop;
use crate::settings::ModelControl;

/// What a look at a model's units has shown.
#[derive(Default)]
struct Look {
    at_rest: BTreeSet<Unit>,
    restless: Vec<Unit>,
    again: Option<Moment>,
}

impl Loop {
    /// Takes in what a model's folder looks like and notes when to look again; queues a job for what is at rest.
    pub(super) fn observe(&mut self, name: &ModelName, files: ModelFiles, now: Moment) {
        self.observe_readable(name);
        let state = self.state_of(name, &files.dir);
        state.dir.clone_from(&files.dir);
        state.gone_since = None;
        let mut look = self.look_at_units(name, files, now);
        let following = self.following(name);
        look.at_rest.retain(|unit| following.includes(*unit));
        let Some(state) = self.models.get_mut(name) else { return };
        // A model that is new, or loaded on request, is taken whole: no unit of it is published while another is still
        // being copied.
        let waits = look.again.is_some() || (state.is_ordered() && !look.restless.is_empty());
        let hold = (!state.tried || state.is_ordered()) && waits;
        if let Some(until) = look.again {
            self.waiting.insert(name.clone(), until);
        }
        if !state.busy && !hold && !look.at_rest.is_empty() {
            if state.basis.served.is_none() {
                self.parts.registry.begin_loading(name);
            }
            self.jobs.add(state.job(name, look.at_rest, following));
        } else if state.is_ordered() && !state.busy && look.again.is_none() && look.restless.is_empty() {
            self.answer_unloadable(name);
        }
        for unit in look.restless {
            self.note_restless(name, unit, "its files keep changing");
        }
    }

    /// What is known of a model, from now on if nothing was.
    pub(super) fn state_of(&mut self, name: &ModelName, dir: &Path) -> &mut ModelState {
        let incarnations = &mut self.incarnations;
        self.models.entry(name.clone()).or_insert_with(|| {
            *incarnations += 1;
            ModelState::new(dir.to_path_buf(), *incarnations)
        })
    }

    fn look_at_units(&mut self, name: &ModelName, files: ModelFiles, now: Moment) -> Look {
        let policy = self.policy();
        let mut look = Look::default();
        let first_pass = self.first_pass;
        let Some(state) = self.models.get_mut(name) else { return look };
        let is_urgent = first_pass || state.is_ordered();
        let mut units = files.units;
        for unit in state.units.keys() {
            units.entry(*unit).or_default();
        }
        let old = |files: &Files| files.values().all(|stat| stat.is_older_than(policy.settle, SystemTime::now()));
        for (unit, files) in units {
            // Files that nobody has touched for so long need not be watched for it, where somebody waits for them.
            let is_still = is_urgent && (state.is_substituted() || old(&files));
            let is_known = state.units.get(&unit).is_some_and(|settling| *settling.files() == files);
            let settling = state.units.entry(unit).or_insert_with(|| Settling::first_seen(files.clone(), now));
            if is_still && !is_known {
                settling.was_at_rest(&files);
            }
            match settling.observe(files, now, policy) {
                Observation::Settled => {}
                Observation::AtRest => drop(look.at_rest.insert(unit)),
                Observation::Wait(until) => look.again = Some(look.again.map_or(until, |at| at.min(until))),
                Observation::StillChanging => look.restless.push(unit),
            }
        }
        look
    }

    /// What of a model is followed now.
    fn following(&self, name: &ModelName) -> Following {
        let Some(state) = self.models.get(name) else { return Following::Nothing };
        match &self.parts.control {
            ModelControl::Files => Following::Everything,
            _ if !state.tried || state.is_ordered() => Following::Everything,
            _ if state.is_substituted() => Following::Nothing,
            _ => Following::Plugin,
        }
    }

    /// Files of a unit have not come to rest, or not become whole, for the cap: the one record of it. A model that has
    /// nothing else to show is known by the reason at once. Whoever waits for the model hears it.
    pub(super) fn note_restless(&mut self, name: &ModelName, unit: Unit, reason: &str) {
        let Some(state) = self.models.get_mut(name) else { return };
        state.tried = true;
        state.restless.insert(unit, reason.to_owned());
        let refusal = ControlError::Refused { name: name.clone(), reason: format!("{unit}: {reason};") };
        state.answer(&Err(refusal));
        let mut served = state.basis.served.as_deref().cloned().unwrap_or_else(|| ServedModel::empty(name.clone()));
        served.problems.extend(state.restless.iter().map(|(unit, reason)| (unit.to_string(), reason.clone())));
        served.problems.insert(unit.to_string(), reason.to_owned());
        self.publish_problems(name, served);
        report_restless(name, unit, &self.parts.workshop, reason);
    }

    /// A model's folder is there and cannot be looked at: what serves, serves on. One record per reason.
    pub(super) fn observe_unreadable(&mut self, name: &ModelName, dir: &Path, reason: &str) {
        let state = self.state_of(name, dir);
        state.gone_since = None;
        state.tried = true;
        state.answer(&Err(ControlError::NotFound { name: name.clone(), reason: reason.to_owned() }));
        if state.unreadable.as_deref() == Some(reason) {
            return;
        }
        state.unreadable = Some(reason.to_owned());
        self.parts.workshop.metrics.swap(name, SwapOutcome::FailedToBuild);
        tracing::error!(
            model = %name, part = FOLDER, outcome = SwapOutcome::FailedToBuild.as_str(), reason, folders = ?self.folders_of(name),
            "the model's folder cannot be read; what served before serves on"
        );
        self.publish_problem(name, Some(reason));
    }

    fn observe_readable(&mut self, name: &ModelName) {
        if self.models.get_mut(name).and_then(|state| state.unreadable.take()).is_some() {
            self.publish_problem(name, None);
        }
    }

    /// Publishes what serves with or without a problem of its folder.
    fn publish_problem(&mut self, name: &ModelName, reason: Option<&str>) {
        let Some(state) = self.models.get_mut(name) else { return };
        let mut served = state.basis.served.as_deref().cloned().unwrap_or_else(|| ServedModel::empty(name.clone()));
        match reason {
            Some(reason) => drop(served.problems.insert(FOLDER.to_owned(), reason.to_owned())),
            None => drop(served.problems.remove(FOLDER)),
        }
        self.publish_problems(name, served);
    }

    /// Publishes what serves with other problems than before.
    fn publish_problems(&mut self, name: &ModelName, served: ServedModel) {
        let served = Arc::new(served);
        if let Some(in_force) = self.models.get_mut(name).and_then(|state| state.basis.served.as_mut()) {
            *in_force = Arc::clone(&served);
        }
        self.parts.registry.publish(served);
    }

    /// Nothing of a model can be loaded: it has no files.
    fn answer_unloadable(&mut self, name: &ModelName) {
        let Some(state) = self.models.get_mut(name) else { return };
        let reason = format!("{} holds nothing to load", state.dir.display());
        state.tried = true;
        state.answer(&Err(ControlError::NotFound { name: name.clone(), reason }));
    }

    /// A model's folder is gone; when it stays gone, the model is removed.
    pub(super) fn observe_gone(&mut self, name: &ModelName, now: Moment) {
        if self.parts.control != ModelControl::Files {
            return;
        }
        let settle = self.parts.rescan.settle;
        let Some(state) = self.models.get_mut(name) else { return };
        let since = *state.gone_since.get_or_insert(now);
        if state.busy || now.since(since) < settle {
            self.waiting.insert(name.clone(), since.after(settle).max(now.after(Duration::from_millis(10))));
            return;
        }
        self.models.remove(name);
        if let Some(old) = self.parts.registry.remove(name) {
            tracing::info!(model = %name, "model removed: its folder is gone");
            self.retire(&old, None);
        }
    }
}

fn report_restless(name: &ModelName, unit: Unit, workshop: &Workshop, reason: &str) {
    workshop.metrics.swap(name, SwapOutcome::StillChanging);
    tracing::error!(
        model = %name, part = %unit, outcome = SwapOutcome::StillChanging.as_str(), reason,
        "not read; what served before serves on"
    );
}
