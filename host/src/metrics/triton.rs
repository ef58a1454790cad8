//! Triton's series of each model version, read from its counters when somebody looks. A version's series appear when it is
//! loaded and go with the last that uses it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use model::{ModelName, VersionNumber};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{LabelPair, MetricFamily, MetricType};

use super::families::{counter, family, gauge, label};
use super::inference::{FailureReason, InferenceCounters, InferenceSnapshot};
use super::latencies::{self, Shown, Wanted};
use super::model_metrics::{ModelMetrics, tag_label};
use super::{names, response_cache};

/// Which of Triton's series there are (`--metrics-config`).
#[derive(Clone, Debug, PartialEq)]
pub struct TritonMetrics {
    /// Counters of the times of the phases.
    pub counter_latencies: bool,
    /// Histograms of them, and of the time to the first response.
    pub histogram_latencies: bool,
    /// Summaries of them.
    pub summary_latencies: bool,
    /// The quantiles of the summaries, from 0 to 1.
    pub summary_quantiles: Vec<f64>,
}

impl Default for TritonMetrics {
    fn default() -> Self {
        Self {
            counter_latencies: true,
            histogram_latencies: false,
            summary_latencies: false,
            summary_quantiles: vec![0.5, 0.9, 0.95, 0.99, 0.999],
        }
    }
}

type Users = BTreeMap<(ModelName, VersionNumber), Weak<InferenceCounters>>;

/// See the module.
#[derive(Clone)]
pub(super) struct TritonSeries {
    descs: Arc<[Desc]>,
    has_counters: bool,
    distributions: Wanted,
    users: Arc<Mutex<Users>>,
}

/// What a series reads.
type Read = fn(&InferenceSnapshot) -> u64;

/// Counters of a version without further labels.
const COUNTERS: [(&str, &str, Read); 3] = [
    (names::NV_SUCCESS, "Number of successful inference requests, all batch sizes", |s| s.phases.success.count),
    (names::NV_INFERENCES, "Number of inferences performed (does not include cached requests)", |s| s.inference_count),
    (names::NV_EXECUTIONS, "Number of model executions performed (does not include cached requests)", |s| {
        s.execution_count
    }),
];

/// The times of the phases, in microseconds.
const LATENCIES: [(&str, &str, Read); 5] = [
    (names::NV_REQUEST_DURATION, "Cumulative inference request duration in microseconds", |s| {
        s.phases.success.micros()
    }),
    (names::NV_QUEUE_DURATION, "Cumulative inference queuing duration in microseconds", |s| s.phases.queue.micros()),
    (names::NV_INPUT_DURATION, "Cumulative compute input duration in microseconds", |s| {
        s.phases.compute_input.micros()
    }),
    (names::NV_INFER_DURATION, "Cumulative compute inference duration in microseconds", |s| {
        s.phases.compute_infer.micros()
    }),
    (names::NV_OUTPUT_DURATION, "Cumulative inference compute output duration in microseconds", |s| {
        s.phases.compute_output.micros()
    }),
];

const FAILURE_HELP: &str = "Number of failed inference requests, all batch sizes";
const PENDING_HELP: &str = "Instantaneous number of pending requests awaiting execution per-model";
const LOAD_HELP: &str = "Model load time in seconds";

impl TritonSeries {
    pub(super) fn new(which: &TritonMetrics) -> Self {
        let shares = if which.summary_latencies { &which.summary_quantiles[..] } else { &[] };
        let distributions = Wanted { histograms: which.histogram_latencies, shares: shares.into() };
        let counters = COUNTERS.iter().chain(&LATENCIES).chain(&response_cache::OF_VERSION);
        let counters = counters.map(|(name, help, _)| (*name, *help));
        let others = [
            (names::NV_FAILURE, FAILURE_HELP),
            (names::NV_PENDING, PENDING_HELP),
            (names::NV_LOAD_DURATION, LOAD_HELP),
        ];
        let desc = |(name, help): (&str, &str)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new()).expect("the names are valid")
        };
        let descs = counters.chain(others).chain(latencies::described()).map(desc).collect();
        Self { descs, has_counters: which.counter_latencies, distributions, users: Arc::default() }
    }

    /// The counters of a version: those of the one that it replaces, if that is still there. New ones are shown as
    /// `declared` says.
    pub(super) fn counters(
        &self,
        model: &ModelName,
        version: VersionNumber,
        declared: &Arc<ModelMetrics>,
    ) -> Arc<InferenceCounters> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, counters| counters.strong_count() > 0);
        let place = users.entry((model.clone(), version)).or_default();
        place.upgrade().unwrap_or_else(|| {
            let counters = Arc::new(InferenceCounters::new(&self.distributions, declared));
            *place = Arc::downgrade(&counters);
            counters
        })
    }

    /// Models of which a version's counters are in use.
    pub(super) fn models(&self) -> BTreeSet<ModelName> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.iter().filter(|(_, user)| user.strong_count() > 0).map(|((model, _), _)| model.clone()).collect()
    }

    fn present(&self) -> Vec<(Vec<LabelPair>, Arc<InferenceCounters>)> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let present = users.iter().filter_map(|(key, counters)| Some((key, counters.upgrade()?)));
        present.map(|(key, counters)| (labels(key, &counters.declared()), counters)).collect()
    }
}

/// The labels of a version's series, its model's tags among them.
fn labels((model, version): &(ModelName, VersionNumber), declared: &ModelMetrics) -> Vec<LabelPair> {
    let tags = declared.tags.iter().filter_map(|(key, value)| Some(label(&tag_label(key)?, value)));
    let own = [label("model", model.as_str()), label("version", &version.to_string())];
    tags.chain(own).collect()
}

impl Collector for TritonSeries {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let present = self.present();
        if present.is_empty() {
            return Vec::new();
        }
        let read: Vec<_> = present.into_iter().map(|(labels, counters)| (labels, counters.read(), counters)).collect();
        let latencies = LATENCIES.iter().filter(|_| self.has_counters);
        let counters = COUNTERS.iter().chain(latencies).map(|(name, help, value)| {
            let metrics = read.iter().map(|(labels, snapshot, _)| counter(labels.clone(), value(snapshot)));
            family((name, help), MetricType::COUNTER, metrics.collect())
        });
        let of_cached = response_cache::OF_VERSION.iter().map(|(name, help, value)| {
            let caching = read.iter().filter(|(_, _, counters)| counters.is_caching());
            let metrics = caching.map(|(labels, snapshot, _)| counter(labels.clone(), value(snapshot)));
            family((name, help), MetricType::COUNTER, metrics.collect())
        });
        let of_cached = of_cached.filter(|family| !family.get_metric().is_empty());
        let failures = read.iter().flat_map(|(labels, snapshot, _)| {
            FailureReason::ALL.map(|(reason, name)| {
                let labels = labels.iter().cloned().chain([label("reason", name)]).collect();
                counter(labels, snapshot.failures[reason as usize])
            })
        });
        let failures = family((names::NV_FAILURE, FAILURE_HELP), MetricType::COUNTER, failures.collect());
        #[expect(clippy::cast_precision_loss, reason = "requests that wait are few")]
        let pending = read.iter().map(|(labels, _, counters)| gauge(labels.clone(), counters.pending() as f64));
        let pending = family((names::NV_PENDING, PENDING_HELP), MetricType::GAUGE, pending.collect());
        let loads = read.iter().map(|(labels, _, counters)| gauge(labels.clone(), counters.load_time().as_secs_f64()));
        let loads = family((names::NV_LOAD_DURATION, LOAD_HELP), MetricType::GAUGE, loads.collect());
        let shown =
            read.iter().map(|(labels, snapshot, counters)| Shown { labels, snapshot, latencies: counters.latencies() });
        let shown: Vec<_> = shown.collect();
        let latencies = latencies::families(&self.distributions, &shown);
        counters.chain([failures, pending, loads]).chain(of_cached).chain(latencies).collect()
    }
}
