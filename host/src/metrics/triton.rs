//! Triton's series of each model version, read from its counters when somebody looks. A version's series appear when it is
//! loaded and go with the last that uses it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use model::{ModelName, VersionNumber};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::inference::{FailureReason, InferenceCounters, InferenceSnapshot};
use super::{names, response_cache};

/// Which of Triton's series there are (`--metrics-config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TritonMetrics {
    /// The times of the phases.
    pub counter_latencies: bool,
}

impl Default for TritonMetrics {
    fn default() -> Self {
        Self { counter_latencies: true }
    }
}

type Users = BTreeMap<(ModelName, VersionNumber), Weak<InferenceCounters>>;

/// See the module.
#[derive(Clone)]
pub(super) struct TritonSeries {
    descs: Arc<[Desc]>,
    which: TritonMetrics,
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
    pub(super) fn new(which: TritonMetrics) -> Self {
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
        Self { descs: counters.chain(others).map(desc).collect(), which, users: Arc::default() }
    }

    /// The counters of a version: those of the one that it replaces, if that is still there.
    pub(super) fn counters(&self, model: &ModelName, version: VersionNumber) -> Arc<InferenceCounters> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, counters| counters.strong_count() > 0);
        let place = users.entry((model.clone(), version)).or_default();
        place.upgrade().unwrap_or_else(|| {
            let counters = Arc::default();
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
        let labels = |(model, version): &(ModelName, VersionNumber)| {
            vec![label("model", model.as_str()), label("version", &version.to_string())]
        };
        users.iter().filter_map(|(key, counters)| Some((labels(key), counters.upgrade()?))).collect()
    }
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
        let latencies = LATENCIES.iter().filter(|_| self.which.counter_latencies);
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
        counters.chain([failures, pending, loads]).chain(of_cached).collect()
    }
}

pub(super) fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}

fn counter(labels: Vec<LabelPair>, value: u64) -> Metric {
    let mut counter = Counter::default();
    #[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
    counter.set_value(value as f64);
    let mut metric = Metric::from_label(labels);
    metric.set_counter(counter);
    metric
}

pub(super) fn gauge(labels: Vec<LabelPair>, value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::from_label(labels);
    metric.set_gauge(gauge);
    metric
}

pub(super) fn family((name, help): (&str, &str), kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}
