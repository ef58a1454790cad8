//! What one model version reports: handles resolved once, so that no request looks a label up.

use std::sync::Arc;
use std::time::Duration;

use batching::{BatchObserver, BatchReport, DropReason};
use model::{ErrorCode, ModelName, VersionNumber};
use prometheus::{Histogram, IntCounter, IntCounterVec};

use super::Metrics;
use super::inference::{InferenceCounters, InferenceSnapshot};
use super::model_metrics::ModelMetrics;

/// The stages of a request that are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the stages'")]
pub enum Stage {
    Preprocess,
    Queue,
    Compute,
    Postprocess,
    Total,
}

impl Stage {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Preprocess, "preprocess"),
        (Self::Queue, "queue"),
        (Self::Compute, "compute"),
        (Self::Postprocess, "postprocess"),
        (Self::Total, "total"),
    ];
}

impl Metrics {
    /// The handles of one model version whose series are shown as `declared` says once it serves.
    #[must_use]
    pub fn version(&self, model: &ModelName, number: VersionNumber, declared: &Arc<ModelMetrics>) -> VersionMetrics {
        let _known = self.known.note(model);
        let version = number.to_string();
        let labels = [model.as_str(), &version];
        let stage = |name| self.stage.with_label_values(&[model.as_str(), &version, name]);
        let inference = self.triton.counters(model, number, declared);
        let drops = |reason| self.queue_drops.with_label_values(&[model.as_str(), &version, reason]);
        VersionMetrics {
            stages: Stage::ALL.map(|(_, name)| stage(name)),
            batch_rows: self.batch_rows.with_label_values(&labels),
            ok: self.requests.with_label_values(&[model.as_str(), &version, "ok"]),
            requests: self.requests.clone(),
            model: model.as_str().into(),
            version: version.clone().into(),
            expired: drops("expired"),
            abandoned: drops("abandoned"),
            queue_full: drops("queue_full"),
            stopped: drops("stopped"),
            non_finite: self.non_finite.clone(),
            kserve: self.kserve.each_ref().map(|family| family.with_label_values(&[model.as_str()])),
            since: inference.read(),
            inference,
            declared: Arc::clone(declared),
        }
    }
}

/// The handles of one model version.
pub struct VersionMetrics {
    stages: [Histogram; 5],
    batch_rows: Histogram,
    ok: IntCounter,
    requests: IntCounterVec,
    model: Arc<str>,
    version: Arc<str>,
    expired: IntCounter,
    abandoned: IntCounter,
    queue_full: IntCounter,
    stopped: IntCounter,
    non_finite: IntCounterVec,
    /// Preprocess, predict, postprocess.
    kserve: [Histogram; 3],
    inference: Arc<InferenceCounters>,
    /// What had been counted when the version was loaded.
    since: InferenceSnapshot,
    declared: Arc<ModelMetrics>,
}

impl VersionMetrics {
    /// What Triton counts of it.
    #[must_use]
    pub fn inference(&self) -> &InferenceCounters {
        &self.inference
    }

    /// It serves from now on, so the series are shown as its configuration says, and as that of no other.
    pub fn begin_serving(&self) {
        self.inference.declare(&self.declared);
    }

    /// What Triton counts of it, since it was loaded.
    #[must_use]
    pub fn statistics(&self) -> InferenceSnapshot {
        self.inference.read().since(&self.since)
    }

    /// Records the time of a stage.
    pub fn stage(&self, stage: Stage, time: Duration) {
        self.stages[stage as usize].observe(time.as_secs_f64());
    }

    /// Records the stages of a request through a plugin as KServe's dashboards read them.
    pub fn kserve(&self, preprocess: Duration, predict: Duration, postprocess: Duration) {
        for (histogram, time) in self.kserve.iter().zip([preprocess, predict, postprocess]) {
            histogram.observe(time.as_secs_f64());
        }
    }

    /// Counts an answer of which this output held a NaN or an infinity.
    pub fn non_finite(&self, output: &str) {
        self.non_finite.with_label_values(&[&*self.model, &*self.version, output]).inc();
    }

    /// Counts an answered request.
    pub fn answered(&self, failure: Option<ErrorCode>) {
        match failure {
            None => self.ok.inc(),
            Some(code) => self.requests.with_label_values(&[&*self.model, &*self.version, code.as_str()]).inc(),
        }
    }
}

impl BatchObserver for VersionMetrics {
    fn batch_finished(&self, report: &BatchReport) {
        // A count of rows is far below 2^52.
        #[expect(clippy::cast_precision_loss, reason = "rows are few")]
        self.batch_rows.observe(report.rows as f64);
        self.inference.batch_finished(report);
    }

    fn request_dropped(&self, reason: DropReason) {
        match reason {
            DropReason::Expired => self.expired.inc(),
            DropReason::Abandoned => self.abandoned.inc(),
            DropReason::QueueFull => self.queue_full.inc(),
            DropReason::Stopped => self.stopped.inc(),
        }
    }
}
