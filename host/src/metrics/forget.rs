//! Taking the series of models that are gone out of every family. Which models have any is known by name, so that nobody has
//! to read all series to find out; a version that is loaded meanwhile keeps its model's.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ModelName;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};

use super::Metrics;

/// Models that have series. Its lock is held while a version's handles are made and while series are forgotten, so that
/// no handle is to a series that was taken out.
#[derive(Clone, Default)]
pub(super) struct Known(Arc<Mutex<BTreeSet<ModelName>>>);

impl Known {
    /// Notes that a model has series; keeps them from being forgotten for as long as the guard lives.
    pub(super) fn note(&self, model: &ModelName) -> MutexGuard<'_, BTreeSet<ModelName>> {
        let mut known = self.lock();
        if !known.contains(model) {
            known.insert(model.clone());
        }
        known
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ModelName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics {
    /// Models that have series and of which no version is loaded, nor one that has been replaced still busy.
    #[must_use]
    pub fn without_versions(&self) -> BTreeSet<ModelName> {
        let used = self.triton.models();
        self.known.lock().iter().filter(|name| !used.contains(*name)).cloned().collect()
    }

    /// Forgets every series of these models, but for those of which a version is loaded. It reads every family once: for a
    /// thread that serves nobody.
    pub fn forget(&self, models: &BTreeSet<ModelName>) {
        let mut known = self.known.lock();
        let used = self.triton.models();
        let gone: BTreeSet<&str> = models.difference(&used).map(ModelName::as_str).collect();
        for counters in [
            &self.non_finite,
            &self.requests,
            &self.queue_drops,
            &self.swaps,
            &self.engine_loads,
            &self.plugin.failures,
            &self.plugin.calls,
            &self.plugin.dropped,
        ] {
            forget_in(counters, "model", &gone);
        }
        for gauges in [
            &self.queue_size,
            &self.queue_limit,
            &self.runs_inline,
            &self.plugin.generation,
            &self.plugin.warm,
            &self.plugin.created,
        ] {
            forget_in(gauges, "model", &gone);
        }
        forget_in(&self.stage, "model", &gone);
        forget_in(&self.batch_rows, "model", &gone);
        forget_in(&self.plugin.counter, "model", &gone);
        self.kserve.iter().for_each(|histograms| forget_in(histograms, "model_name", &gone));
        self.plugin.observation.forget(&gone);
        known.retain(|name| !gone.contains(name.as_str()));
    }
}

/// Takes the series out whose label `label` names a model that is gone.
fn forget_in<B: MetricVecBuilder>(series: &MetricVec<B>, label: &str, gone: &BTreeSet<&str>) {
    for family in series.collect() {
        for metric in family.get_metric() {
            let labels: HashMap<&str, &str> =
                metric.get_label().iter().map(|label| (label.name(), label.value())).collect();
            if labels.get(label).is_some_and(|model| gone.contains(model)) {
                // Absent already: nothing to forget.
                let _ = series.remove(&labels);
            }
        }
    }
}
