//! Pairs: each version with the plugin it will serve with, verified together, and what is served when some pairs
//! cannot be.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::VersionNumber;

use super::shared_plugin::Shared;
use super::versions::{Origin, Ready};
use super::{Assembler, Refusal};
use crate::generation::PluginGeneration;
use crate::registry::{LoadedVersion, PluginSlot, Release};
use crate::repository::samples::Sample;
use crate::repository::scan::Unit;
use crate::repository::verify::{HeldTo, verify};
use crate::repository::workshop::Verification;

impl Assembler<'_> {
    /// Pairs each version with its plugin, and decides what is served when some of them cannot be.
    pub(super) fn releases(
        &mut self,
        versions: BTreeMap<VersionNumber, Ready>,
        shared: &Shared,
    ) -> BTreeMap<VersionNumber, Arc<Release>> {
        let mut releases = BTreeMap::new();
        let mut failed = false;
        for (number, ready) in versions {
            match self.pair(number, &ready, shared) {
                Ok(release) => drop(releases.insert(number, release)),
                Err((generation, refusal)) => {
                    failed = true;
                    self.restore_pieces(number);
                    self.refuse(&Unit::Version(number).to_string(), generation, refusal);
                }
            }
        }
        if let Some(served) = self.job.basis.served.as_ref().filter(|_| failed) {
            for (number, release) in &served.releases {
                releases.entry(*number).or_insert_with(|| self.kept(release, shared));
            }
        }
        releases
    }

    /// The pieces of a refused version are not in force.
    pub(super) fn restore_pieces(&mut self, number: VersionNumber) {
        match self.job.basis.own.get(&number) {
            Some(pieces) => drop(self.next.own.insert(number, Arc::clone(pieces))),
            None => drop(self.next.own.remove(&number)),
        }
    }

    /// A version that stays although it is not what was asked for: it follows the model-level plugin if it used it.
    fn kept(&self, release: &Arc<Release>, shared: &Shared) -> Arc<Release> {
        if self.job.basis.own.get(&release.version.number).is_some_and(|own| own.makes_a_plugin()) {
            return Arc::clone(release);
        }
        Arc::new(Release { version: Arc::clone(&release.version), plugin: slot(shared) })
    }

    fn pair(
        &mut self,
        number: VersionNumber,
        ready: &Ready,
        shared: &Shared,
    ) -> Result<Arc<Release>, (Option<u64>, Refusal)> {
        let (plugin, made) = if self.brings_plugin(number) {
            self.own_plugin(number).map_err(|refusal| (None, refusal))?
        } else {
            (slot(shared), false)
        };
        let generation = match &plugin {
            PluginSlot::Serving(generation) => Some(Arc::clone(generation)),
            _ => None,
        };
        // A new model-level plugin has met this version already.
        let shared_is_new = self.save.is_some() && !self.brings_plugin(number);
        if let Some(generation) = &generation
            && (made || ready.is_new())
            && !shared_is_new
        {
            let held_to = self.held_to(number, ready);
            let failures = self.run_samples(number, &ready.version, generation, held_to);
            if !failures.is_empty() {
                return Err((Some(generation.number), Refusal::verification(&failures)));
            }
        }
        if made {
            self.next.last_generation += 1;
        }
        if made || ready.is_new() {
            self.publish(&Unit::Version(number).to_string(), generation.map(|g| g.number));
        } else if ready.origin == Origin::Same {
            self.problems.remove(&Unit::Version(number).to_string());
        }
        Ok(Arc::new(Release { version: Arc::clone(&ready.version), plugin }))
    }

    /// The plugin of a version that brings pieces of its own, and whether it had to be made.
    fn own_plugin(&self, number: VersionNumber) -> Result<(PluginSlot, bool), Refusal> {
        let Some(content) = self.next.own.get(&number).and_then(|own| own.over(&self.next.shared)) else {
            return Ok((PluginSlot::Absent, false));
        };
        if let Some(Release { plugin: PluginSlot::Serving(current), .. }) = self.current_release(number).map(|r| &**r)
            && current.digest == content.digest
        {
            return Ok((PluginSlot::Serving(Arc::clone(current)), false));
        }
        let manifest = self.job.dir.join(number.to_string()).join("plugin.toml");
        let generation = self
            .workshop
            .build_generation(&self.job.name, self.next.last_generation + 1, &content, &manifest)
            .map_err(|error| Refusal::build(&error))?;
        Ok((PluginSlot::Serving(Arc::new(generation)), true))
    }

    pub(super) fn brings_plugin(&self, number: VersionNumber) -> bool {
        self.next.own.get(&number).is_some_and(|own| own.makes_a_plugin())
    }

    fn samples(&self, number: VersionNumber) -> Option<Arc<Vec<Sample>>> {
        let own = self.next.own.get(&number).and_then(|own| own.samples.clone());
        own.or_else(|| self.next.shared.samples.clone())
    }

    /// A changed plugin is held to the values; retrained weights are held to the samples they carry, else to the shape
    /// of the model's.
    pub(super) fn held_to(&self, number: VersionNumber, ready: &Ready) -> HeldTo {
        let carries_samples = self.next.own.get(&number).is_some_and(|own| own.samples.is_some());
        if ready.is_new() && !carries_samples { HeldTo::Shape } else { HeldTo::Values }
    }

    pub(super) fn run_samples(
        &self,
        number: VersionNumber,
        version: &LoadedVersion,
        generation: &PluginGeneration,
        held_to: HeldTo,
    ) -> Vec<String> {
        if self.workshop.verification == Verification::Skip {
            return Vec::new();
        }
        let Some(samples) = self.samples(number) else { return Vec::new() };
        verify(self.workshop, version, generation, &samples, held_to)
    }
}

fn slot(shared: &Shared) -> PluginSlot {
    match shared {
        Shared::Absent => PluginSlot::Absent,
        Shared::Serving(generation) => PluginSlot::Serving(Arc::clone(generation)),
        Shared::Refused(reason) => PluginSlot::Refused(Arc::clone(reason)),
    }
}
