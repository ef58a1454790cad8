//! The distributions of the times that a version's requests took, as Triton shows them where it is asked to: summaries of
//! about the last minute (`summary_latencies`) and histograms (`histogram_latencies`). Requests that failed are not in
//! them. What is not asked for costs a request nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Histogram, HistogramOpts};
use tokio::time::Instant;

use super::families::{family, histogram, summary};
use super::inference::InferenceSnapshot;
use super::model_metrics::ModelMetrics;
use super::names;
use super::recent_times::RecentTimes;

/// What one answered request took.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimes {
    /// From its submission to its answer.
    pub(super) request: Duration,
    /// Waiting, laying inputs into the batch, the engine, cutting outputs.
    pub(super) phases: [Duration; 4],
}

impl RequestTimes {
    /// In the order of [`SUMMARIES`] and of the histograms of phases.
    fn all(&self) -> [Duration; 5] {
        let [queue, input, infer, output] = self.phases;
        [self.request, queue, input, infer, output]
    }
}

/// A family of histograms.
pub(super) struct HistogramFamily {
    pub(super) name: &'static str,
    help: &'static str,
    /// Where the model's configuration names none.
    bounds: &'static [f64],
    /// Of its unit in a second.
    per_second: f64,
    /// The time it shows, by its place in [`RequestTimes::all`].
    time: usize,
}

const MICROS: f64 = 1e6;

/// The one that Triton has, and the five that its open proposal adds (triton-inference-server/core, pull request 474).
pub(super) const HISTOGRAMS: [HistogramFamily; 6] = [
    HistogramFamily {
        name: names::NV_FIRST_RESPONSE,
        help: "Duration from request to first response in milliseconds",
        bounds: &[100.0, 500.0, 2_000.0, 5_000.0],
        per_second: 1e3,
        time: 0,
    },
    HistogramFamily {
        name: names::NV_REQUEST_HISTOGRAM,
        help: "Histogram of inference request durations in microseconds",
        bounds: &[1_000.0, 5_000.0, 25_000.0, 50_000.0, 100_000.0],
        per_second: MICROS,
        time: 0,
    },
    HistogramFamily {
        name: names::NV_QUEUE_HISTOGRAM,
        help: "Histogram of inference queuing durations in microseconds",
        bounds: &[100.0, 1_000.0, 5_000.0, 10_000.0, 50_000.0],
        per_second: MICROS,
        time: 1,
    },
    HistogramFamily {
        name: names::NV_INPUT_HISTOGRAM,
        help: "Histogram of compute input durations in microseconds",
        bounds: &[100.0, 500.0, 1_000.0, 5_000.0, 10_000.0],
        per_second: MICROS,
        time: 2,
    },
    HistogramFamily {
        name: names::NV_INFER_HISTOGRAM,
        help: "Histogram of compute inference durations in microseconds",
        bounds: &[1_000.0, 5_000.0, 25_000.0, 50_000.0, 100_000.0],
        per_second: MICROS,
        time: 3,
    },
    HistogramFamily {
        name: names::NV_OUTPUT_HISTOGRAM,
        help: "Histogram of compute output durations in microseconds",
        bounds: &[100.0, 500.0, 1_000.0, 5_000.0, 10_000.0],
        per_second: MICROS,
        time: 4,
    },
];

/// The summaries, and what they count and add up, which is what the counters do.
type Total = fn(&InferenceSnapshot) -> super::TimedCount;

const SUMMARIES: [(&str, &str, Total); 5] = [
    (names::NV_REQUEST_SUMMARY, "Summary of inference request durations in microseconds", |s| s.phases.success),
    (names::NV_QUEUE_SUMMARY, "Summary of inference queuing durations in microseconds", |s| s.phases.queue),
    (names::NV_INPUT_SUMMARY, "Summary of compute input durations in microseconds", |s| s.phases.compute_input),
    (names::NV_INFER_SUMMARY, "Summary of compute inference durations in microseconds", |s| s.phases.compute_infer),
    (names::NV_OUTPUT_SUMMARY, "Summary of compute output durations in microseconds", |s| s.phases.compute_output),
];

/// Which distributions there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) histograms: bool,
    /// The shares that summaries tell of; none where there are no summaries.
    pub(super) shares: Arc<[f64]>,
}

/// The distributions of one version.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    histograms: ArcSwapOption<[BoundedHistogram; 6]>,
    summaries: Option<Summaries>,
}

/// A histogram with the bounds that it was made with.
#[derive(Clone, Debug)]
struct BoundedHistogram {
    bounds: Vec<f64>,
    histogram: Histogram,
}

#[derive(Debug)]
struct Summaries {
    started: Instant,
    recent: Mutex<[RecentTimes; 5]>,
}

impl Latencies {
    pub(super) fn new(wanted: &Wanted, declared: &ModelMetrics) -> Self {
        let started = Instant::now();
        let has_summaries = !wanted.shares.is_empty();
        let this = Self {
            histograms: ArcSwapOption::default(),
            summaries: has_summaries.then(|| Summaries { started, recent: Mutex::default() }),
        };
        if wanted.histograms {
            this.histograms.store(Some(Arc::new(HISTOGRAMS.map(|family| BoundedHistogram::of(&family, declared)))));
        }
        this
    }

    /// Gives the histograms the bounds of `declared`. Those whose bounds change begin anew.
    pub(super) fn declare(&self, declared: &ModelMetrics) {
        let Some(current) = self.histograms.load_full() else { return };
        let mut next = HISTOGRAMS.map(|family| BoundedHistogram::of(&family, declared));
        for (next, current) in next.iter_mut().zip(current.iter()) {
            if next.bounds == current.bounds {
                *next = current.clone();
            }
        }
        self.histograms.store(Some(Arc::new(next)));
    }

    pub(super) fn record(&self, times: &RequestTimes) {
        let times = times.all();
        if let Some(histograms) = &*self.histograms.load() {
            for (family, bounded) in HISTOGRAMS.iter().zip(histograms.iter()) {
                bounded.histogram.observe(times[family.time].as_secs_f64() * family.per_second);
            }
        }
        if let Some(summaries) = &self.summaries {
            let age = summaries.started.elapsed();
            let mut recent = summaries.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.iter_mut().zip(times).for_each(|(recent, time)| recent.record(age, time));
        }
    }

    /// The quantiles of each summary, as shares and microseconds.
    fn quantiles(&self, shares: &[f64]) -> [Vec<(f64, f64)>; 5] {
        let Some(summaries) = &self.summaries else { return Default::default() };
        let age = summaries.started.elapsed();
        let recent = summaries.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.each_ref().map(|recent| shares.iter().copied().zip(recent.quantiles(age, shares)).collect())
    }
}

impl BoundedHistogram {
    fn of(family: &HistogramFamily, declared: &ModelMetrics) -> Self {
        let bounds = declared.bounds.get(family.name).cloned().unwrap_or_else(|| family.bounds.to_vec());
        let options = HistogramOpts::new(family.name, family.help).buckets(bounds.clone());
        let histogram = Histogram::with_opts(options).expect("bounds are checked where configurations are read");
        Self { bounds, histogram }
    }
}

/// What is shown of one version.
pub(super) struct Shown<'a> {
    pub(super) labels: &'a [LabelPair],
    pub(super) snapshot: &'a InferenceSnapshot,
    pub(super) latencies: &'a Latencies,
}

/// The names and helps of all that [`families`] may show.
pub(super) fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    let histograms = HISTOGRAMS.iter().map(|family| (family.name, family.help));
    histograms.chain(SUMMARIES.iter().map(|(name, help, _)| (*name, *help)))
}

/// The families that are wanted, of these versions.
pub(super) fn families(wanted: &Wanted, versions: &[Shown<'_>]) -> Vec<MetricFamily> {
    let mut shown = if wanted.histograms { histograms(versions) } else { Vec::new() };
    if !wanted.shares.is_empty() {
        shown.extend(summaries(&wanted.shares, versions));
    }
    shown
}

fn histograms(versions: &[Shown<'_>]) -> Vec<MetricFamily> {
    let of_place = |(place, shown): (usize, &HistogramFamily)| {
        let metric = |version: &Shown<'_>| {
            let histograms = version.latencies.histograms.load();
            let bounded = &histograms.as_ref()?[place];
            Some(histogram(version.labels.to_vec(), &bounded.histogram))
        };
        family((shown.name, shown.help), MetricType::HISTOGRAM, versions.iter().filter_map(metric).collect())
    };
    HISTOGRAMS.iter().enumerate().map(of_place).collect()
}

fn summaries(shares: &[f64], versions: &[Shown<'_>]) -> Vec<MetricFamily> {
    let mut metrics: [Vec<Metric>; 5] = Default::default();
    for version in versions {
        let quantiles = version.latencies.quantiles(shares);
        for ((metrics, quantiles), (_, _, total)) in metrics.iter_mut().zip(quantiles).zip(SUMMARIES) {
            let total = total(version.snapshot);
            #[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
            let total = (total.count, total.micros() as f64);
            metrics.push(summary(version.labels.to_vec(), total, &quantiles));
        }
    }
    let shown = SUMMARIES.iter().zip(metrics);
    shown.map(|((name, help, _), metrics)| family((name, help), MetricType::SUMMARY, metrics)).collect()
}
