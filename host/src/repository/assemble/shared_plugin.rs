//! The model-level plugin: the one in the folder, else the one in force, else the last good one on disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::VersionNumber;

use super::versions::Ready;
use super::{Assembler, Refusal};
use crate::generation::PluginGeneration;
use crate::repository::content::{Pieces, PluginContent};
use crate::repository::scan::Unit;
use crate::repository::verify::HeldTo;

/// The model-level plugin that versions without one of their own will serve with.
#[derive(Clone)]
pub(super) enum Shared {
    Absent,
    Serving(Arc<PluginGeneration>),
    Refused(Arc<str>),
}

impl Assembler<'_> {
    /// Decides the model-level plugin: the one in the folder, else the one in force, else the last good one on disk.
    pub(super) fn shared(&mut self, versions: &BTreeMap<VersionNumber, Ready>) -> Shared {
        let Some(content) = Pieces::default().over(&self.next.shared) else {
            if let Some(reason) = self.job.restless.get(&Unit::Plugin) {
                self.problems.insert("plugin".to_owned(), reason.clone());
                return Shared::Refused(reason.as_str().into());
            }
            if self.next.shared_generation.take().is_some() {
                self.publish("plugin", None);
            }
            self.problems.remove("plugin");
            return Shared::Absent;
        };
        let in_force = self.next.shared_generation.clone();
        if let Some(generation) = &in_force
            && generation.digest == content.digest
        {
            self.reverify(generation, versions);
            return Shared::Serving(Arc::clone(generation));
        }
        if let Some(reason) = self.known_refusal(&content, versions) {
            return self.fall_back(versions, &reason);
        }
        match self.try_shared(&content, versions) {
            Ok(generation) => self.accept_shared(generation, content),
            Err((number, refusal)) => {
                let reason: Arc<str> = refusal.reason.as_str().into();
                self.next.refused = Some((content.digest, Arc::clone(&reason)));
                self.refuse("plugin", Some(number), refusal);
                self.fall_back(versions, &reason)
            }
        }
    }

    /// Why this very plugin was refused, unless something that could change the verdict has changed.
    fn known_refusal(&self, content: &PluginContent, versions: &BTreeMap<VersionNumber, Ready>) -> Option<Arc<str>> {
        let (digest, reason) = self.next.refused.as_ref()?;
        let changed = self.job.changed.contains(&Unit::Plugin) || versions.values().any(|ready| ready.is_new());
        (*digest == content.digest && !changed).then(|| Arc::clone(reason))
    }

    fn accept_shared(&mut self, generation: PluginGeneration, content: PluginContent) -> Shared {
        let (generation, number) = (Arc::new(generation), self.next.last_generation);
        let number = number.max(generation.number);
        self.next.last_generation = number;
        self.next.shared_generation = Some(Arc::clone(&generation));
        self.next.refused = None;
        self.publish("plugin", Some(generation.number));
        self.save = Some((generation.number, content));
        Shared::Serving(generation)
    }

    fn try_shared(
        &self,
        content: &PluginContent,
        versions: &BTreeMap<VersionNumber, Ready>,
    ) -> Result<PluginGeneration, (u64, Refusal)> {
        let number = self.number_for(content);
        let manifest = self.job.dir.join("plugin.toml");
        let generation = self
            .workshop
            .build_generation(&self.job.name, number, content, &manifest)
            .map_err(|error| (number, Refusal::build(&error)))?;
        let users = versions.iter().filter(|(number, _)| !self.brings_plugin(**number));
        for (version_number, ready) in users {
            let held_to = self.held_to(*version_number, ready);
            let failures = self.run_samples(*version_number, &ready.version, &generation, held_to);
            if !failures.is_empty() {
                return Err((number, Refusal::verification(&failures)));
            }
        }
        Ok(generation)
    }

    /// The number of the next generation; after a restart the same content keeps the number it had.
    fn number_for(&self, content: &PluginContent) -> u64 {
        let records = self.workshop.history.records(&self.job.name);
        match records.last() {
            Some(last)
                if self.next.shared_generation.is_none()
                    && last.generation == self.next.last_generation
                    && last.digest == *content.digest =>
            {
                last.generation
            }
            _ => self.next.last_generation + 1,
        }
    }

    /// No candidate can serve: the generation in force stays, else the last good one on disk comes back.
    fn fall_back(&mut self, versions: &BTreeMap<VersionNumber, Ready>, reason: &Arc<str>) -> Shared {
        if let Some(generation) = &self.next.shared_generation {
            self.next.shared = Arc::clone(&self.job.basis.shared);
            return Shared::Serving(Arc::clone(generation));
        }
        let records = self.workshop.history.records(&self.job.name);
        for record in records.iter().rev() {
            let Ok(Some(content)) = self.workshop.history.content(&self.job.name, record.generation) else { continue };
            let manifest = Path::new("plugin.toml");
            let Ok(generation) = self.workshop.build_generation(&self.job.name, record.generation, &content, manifest)
            else {
                continue;
            };
            let passes = versions.iter().filter(|(number, _)| !self.brings_plugin(**number)).all(|(number, ready)| {
                self.run_samples(*number, &ready.version, &generation, HeldTo::Shape).is_empty()
            });
            if passes {
                tracing::warn!(model = %self.job.name, generation = record.generation, "serving the last good plugin");
                let generation = Arc::new(generation);
                self.next.shared_generation = Some(Arc::clone(&generation));
                return Shared::Serving(generation);
            }
        }
        Shared::Refused(Arc::clone(reason))
    }

    /// Changed samples re-verify what serves; it keeps serving whatever they say, and the reason is shown.
    fn reverify(&mut self, generation: &Arc<PluginGeneration>, versions: &BTreeMap<VersionNumber, Ready>) {
        if !self.job.changed.contains(&Unit::Plugin) {
            return;
        }
        self.problems.remove("plugin");
        self.problems.remove("samples");
        for (number, ready) in
            versions.iter().filter(|(number, ready)| !ready.is_new() && !self.brings_plugin(**number))
        {
            let failures = self.run_samples(*number, &ready.version, generation, HeldTo::Values);
            if !failures.is_empty() {
                self.refuse("samples", Some(generation.number), Refusal::verification(&failures));
                return;
            }
        }
    }
}
