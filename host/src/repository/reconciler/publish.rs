//! The end of a job: what it made is published in one store, recorded, and whoever waited for it is told.

use std::sync::Arc;
use std::time::SystemTime;

use model::ModelName;

use super::{JobDone, Loop};
use crate::registry::ServedModel;
use crate::repository::assemble::{Assembly, Basis, Job, JobResult, SwapRecord};
use crate::repository::content::PluginContent;
use crate::repository::control::ControlError;
use crate::repository::history::GenerationRecord;
use crate::repository::scan::Unit;
use crate::repository::settle::Observation;

impl Loop {
    pub(super) fn take_result(&mut self, done: JobDone) {
        let (now, policy) = (self.now(), self.policy());
        let JobDone { job: Job { name, incarnation, changed, files, orders, .. }, result } = done;
        let Some(state) = self.models.get_mut(&name).filter(|state| state.incarnation == incarnation) else { return };
        state.busy = false;
        state.orders = orders;
        match result {
            JobResult::Done(assembly) => {
                for unit in &changed {
                    state.dealt_with(*unit, files.get(unit));
                }
                state.tried = true;
                let outcome = outcome(&name, &assembly);
                let assembly = if outcome.is_err() && state.is_ordered() {
                    nothing_of(*assembly, &state.basis)
                } else {
                    *assembly
                };
                self.publish(&name, assembly);
                if let Some(state) = self.models.get_mut(&name) {
                    state.answer(&outcome);
                }
            }
            JobResult::NotWhole(unit, reason) => {
                let observation = state.units.get_mut(&unit).map(|settling| settling.not_whole(now, policy));
                // Files at rest that somebody asks for are what they are: nobody waits for them to become whole.
                if state.is_ordered() || observation == Some(Observation::StillChanging) {
                    self.note_restless(&name, unit, &reason);
                }
            }
            JobResult::Moved => {}
        }
        // What changed meanwhile, and what waited for this job, is looked at now.
        self.waiting.insert(name, now);
    }

    /// The one place where anything starts to serve.
    fn publish(&mut self, name: &ModelName, assembly: Assembly) {
        let Assembly { basis, records, save } = assembly;
        let Some(served) = basis.served.clone() else { return };
        if let Some(state) = self.models.get_mut(name) {
            state.basis = basis;
        }
        let old = self.parts.registry.publish(Arc::clone(&served));
        for record in &records {
            self.report(name, record);
        }
        let metrics = &self.parts.workshop.metrics;
        for release in served.releases.values() {
            let version = release.version.number;
            match release.generation() {
                Some(generation) => metrics.show_generation(name, version, generation.number),
                None => metrics.forget_generation(name, version),
            }
        }
        if let Some(old) = old {
            self.retire(&old, Some(&served));
        }
        if let Some((generation, content)) = save {
            self.keep_on_disk(name.clone(), generation, content);
        }
    }

    fn report(&self, name: &ModelName, record: &SwapRecord) {
        self.parts.workshop.metrics.swap(name, record.outcome);
        let SwapRecord { part, outcome, generation, reason, correction: _ } = record;
        let outcome = outcome.as_str();
        match reason {
            None if part == "plugin" && generation.is_none() => {
                tracing::warn!(model = %name, part, outcome, "plugin removed; the model serves without one");
            }
            None => tracing::info!(model = %name, part, outcome, generation, "published"),
            Some(reason) => {
                tracing::error!(model = %name, part, outcome, generation, reason, "refused; what served before serves on");
            }
        }
    }

    /// Marks what `new` no longer has as draining.
    pub(super) fn retire(&self, old: &ServedModel, new: Option<&ServedModel>) {
        let metrics = &self.parts.workshop.metrics;
        for (number, release) in &old.releases {
            let successor = new.and_then(|served| served.releases.get(number));
            if successor.is_none() {
                metrics.forget_version(&old.name, *number);
                tracing::info!(model = %old.name, version = %number, "version no longer served");
            }
            if !successor.is_some_and(|release_now| Arc::ptr_eq(&release_now.version, &release.version)) {
                release.version.start_draining(&metrics.draining);
            }
            if let Some(generation) = release.generation()
                && !new.is_some_and(|served| served.serves(generation))
            {
                generation.start_draining(&metrics.draining);
            }
        }
        if !new.is_some_and(|served| served.releases.values().any(|release| release.generation().is_some())) {
            metrics.forget_plugin(&old.name);
        }
    }

    fn keep_on_disk(&self, model: ModelName, generation: u64, content: PluginContent) {
        let published_unix_seconds =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let record = GenerationRecord { generation, digest: content.digest.to_string(), published_unix_seconds };
        self.history.keep(model, record, content);
    }

    pub(super) fn report_first_pass(&mut self) {
        let metrics = &self.parts.workshop.metrics;
        let map = self.parts.registry.snapshot();
        let ready = map.models().filter(|model| !model.releases.is_empty()).count();
        metrics.models_in_state("ready", ready);
        metrics.models_in_state("unavailable", self.models.len().saturating_sub(ready));
        if self.first_pass && self.models.values().all(|model| model.tried) {
            self.first_pass = false;
            self.parts.registry.first_pass_done();
            tracing::info!(models = self.models.len(), ready, "first pass over the model repositories done");
            if self.models.is_empty() && !self.parts.control.takes_requests() {
                let repositories: Vec<_> = self.parts.roots.iter().map(|root| root.display().to_string()).collect();
                tracing::warn!(
                    ?repositories,
                    "no model found; a repository holds one folder per model, such as my_model/1/model.onnx"
                );
            }
        }
    }
}

/// A load request is carried out whole or not at all: of one that failed, only what is wrong is published, beside what
/// serves. Where nothing serves, whatever of it can serve is better than nothing.
fn nothing_of(assembly: Assembly, in_force: &Basis) -> Assembly {
    let serves = |served: &&Arc<ServedModel>| !served.releases.is_empty();
    let Some(served) = in_force.served.as_ref().filter(serves) else { return assembly };
    let problems = assembly.basis.served.as_ref().map(|served| served.problems.clone()).unwrap_or_default();
    let served = ServedModel { problems, ..(**served).clone() };
    let basis = Basis { served: Some(Arc::new(served)), refused: assembly.basis.refused, ..in_force.clone() };
    let records = assembly.records.into_iter().filter(|record| record.reason.is_some()).collect();
    Assembly { basis, records, save: None }
}

/// What a load request hears: every reason why something of the model does not serve as it should.
fn outcome(name: &ModelName, assembly: &Assembly) -> Result<(), ControlError> {
    let failed = assembly.records.iter().filter_map(|record| Some((record.part.as_str(), record.reason.as_ref()?)));
    let mut failed: Vec<(&str, &String)> = failed.collect();
    let served = assembly.basis.served.as_ref();
    let serves = served.is_some_and(|served| !served.releases.is_empty());
    if failed.is_empty() && !serves {
        let problems = served.iter().flat_map(|served| &served.problems);
        failed.extend(problems.map(|(part, reason)| (part.as_str(), reason)));
    }
    if failed.is_empty() && serves {
        return Ok(());
    }
    let name = name.clone();
    let config = Unit::Config.to_string();
    if let Some((_, reason)) = failed.iter().find(|(part, _)| *part == config) {
        return Err(ControlError::NotFound { name, reason: (*reason).clone() });
    }
    let reason: Vec<String> = failed.iter().map(|(part, reason)| told(part, reason)).collect();
    Err(ControlError::Refused { name, reason: reason.join("") })
}

/// A reason in Triton's words where they are about a version.
fn told(part: &str, reason: &str) -> String {
    if part.starts_with("version ") {
        format!("{part} is at UNAVAILABLE state: {reason};\n")
    } else {
        format!("{part}: {reason};\n")
    }
}
