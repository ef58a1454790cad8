//! What Triton counts of each model version, for its `nv_*` series and its statistics: requests by outcome, rows, batches,
//! and the time that requests spent in each phase. Counters only grow, and a version that is loaded again goes on with
//! those of the one it replaces; its statistics count from its load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use batching::{BatchReport, Inferred};
use model::ErrorCode;

use crate::response_cache::VersionCache;

use super::latencies::{Latencies, RequestTimes, Wanted};
use super::model_metrics::ModelMetrics;

/// Why a request failed, in Triton's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The queue refused it, or let it expire.
    Rejected,
    /// The client left.
    Canceled,
    /// The engine failed.
    Backend,
    /// Anything else.
    Other,
}

impl FailureReason {
    pub(super) const ALL: [(Self, &'static str); 4] = [
        (Self::Rejected, "REJECTED"),
        (Self::Canceled, "CANCELED"),
        (Self::Backend, "BACKEND"),
        (Self::Other, "OTHER"),
    ];

    fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::QueueFull | ErrorCode::QueueTimeout | ErrorCode::DeadlineExceeded => Self::Rejected,
            ErrorCode::Cancelled => Self::Canceled,
            ErrorCode::EngineFailed => Self::Backend,
            _ => Self::Other,
        }
    }
}

/// How often something took how long.
#[derive(Debug, Default)]
struct Timed {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Timed {
    fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn read(&self) -> TimedCount {
        TimedCount { count: self.count.load(Ordering::Relaxed), ns: self.nanos.load(Ordering::Relaxed) }
    }
}

/// How often something took how long, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedCount {
    /// How often.
    pub count: u64,
    /// Nanoseconds in all.
    pub ns: u64,
}

impl TimedCount {
    fn since(self, earlier: Self) -> Self {
        Self { count: self.count.saturating_sub(earlier.count), ns: self.ns.saturating_sub(earlier.ns) }
    }

    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.ns = self.ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Microseconds in all.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.ns / 1_000
    }
}

/// The phases of a request in the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// From its submission to its answer.
    pub success: TimedCount,
    /// The same of those that failed.
    pub fail: TimedCount,
    /// Waiting.
    pub queue: TimedCount,
    /// Laying the inputs into the batch.
    pub compute_input: TimedCount,
    /// The engine.
    pub compute_infer: TimedCount,
    /// Cutting the outputs.
    pub compute_output: TimedCount,
    /// Finding an answer in the cache.
    pub cache_hit: TimedCount,
    /// Not finding it, and keeping it.
    pub cache_miss: TimedCount,
}

/// Batches of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Laying the inputs into the batch.
    pub compute_input: TimedCount,
    /// The engine.
    pub compute_infer: TimedCount,
    /// Cutting the outputs.
    pub compute_output: TimedCount,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InferenceSnapshot {
    /// When the last request was answered, in milliseconds since 1970; 0 before the first.
    pub last_inference_ms: u64,
    /// Rows of the requests that were answered.
    pub inference_count: u64,
    /// Batches that ran.
    pub execution_count: u64,
    /// Requests by outcome, and their times.
    pub phases: PhaseCounts,
    /// Requests that failed, by [`FailureReason`] in its order.
    pub failures: [u64; 4],
    /// Batches by rows.
    pub batches: BTreeMap<u64, BatchCounts>,
}

impl InferenceSnapshot {
    /// What has been counted since `earlier`.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        let (now, then) = (&mut self.phases, &earlier.phases);
        *now = PhaseCounts {
            success: now.success.since(then.success),
            fail: now.fail.since(then.fail),
            queue: now.queue.since(then.queue),
            compute_input: now.compute_input.since(then.compute_input),
            compute_infer: now.compute_infer.since(then.compute_infer),
            compute_output: now.compute_output.since(then.compute_output),
            cache_hit: now.cache_hit.since(then.cache_hit),
            cache_miss: now.cache_miss.since(then.cache_miss),
        };
        self.inference_count = self.inference_count.saturating_sub(earlier.inference_count);
        self.execution_count = self.execution_count.saturating_sub(earlier.execution_count);
        for (rows, then) in &earlier.batches {
            if let Some(now) = self.batches.get_mut(rows) {
                now.compute_input = now.compute_input.since(then.compute_input);
                now.compute_infer = now.compute_infer.since(then.compute_infer);
                now.compute_output = now.compute_output.since(then.compute_output);
            }
        }
        self.batches.retain(|_, counts| counts.compute_infer.count > 0);
        if self.phases.success.count + self.phases.fail.count == 0 {
            self.last_inference_ms = 0;
        }
        self
    }
}

/// The counters of one model version. Samples are no requests; the batches that they run in do count.
#[derive(Debug, Default)]
pub struct InferenceCounters {
    success: Timed,
    fail: Timed,
    queue: Timed,
    compute_input: Timed,
    compute_infer: Timed,
    compute_output: Timed,
    cache_hit: Timed,
    cache_miss: Timed,
    /// Whether answers are kept.
    is_caching: AtomicBool,
    rows: AtomicU64,
    executions: AtomicU64,
    failures: [AtomicU64; 4],
    last_ms: AtomicU64,
    pending: AtomicU64,
    load_nanos: AtomicU64,
    batches: Mutex<BTreeMap<u64, BatchCounts>>,
    latencies: Latencies,
    /// What the configuration in force says of the series.
    declared: ArcSwap<ModelMetrics>,
}

impl InferenceCounters {
    /// The counters of a version with these distributions, shown as `declared` says.
    pub(super) fn new(wanted: &Wanted, declared: &Arc<ModelMetrics>) -> Self {
        let latencies = Latencies::new(wanted, declared);
        Self { latencies, declared: ArcSwap::new(Arc::clone(declared)), ..Self::default() }
    }

    /// From now on they are shown as `declared` says.
    pub(super) fn declare(&self, declared: &Arc<ModelMetrics>) {
        if self.declared.load().bounds != declared.bounds {
            self.latencies.declare(declared);
        }
        self.declared.store(Arc::clone(declared));
    }

    pub(super) fn declared(&self) -> Arc<ModelMetrics> {
        self.declared.load_full()
    }

    pub(super) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// A request of so many rows has its outputs, so long after its submission.
    pub fn succeeded(&self, rows: u64, inferred: &Inferred, time: Duration) {
        let times = inferred.times;
        let infer = times.compute.saturating_sub(times.input);
        self.success.add(time);
        self.queue.add(inferred.queue);
        self.compute_input.add(times.input);
        self.compute_infer.add(infer);
        self.compute_output.add(times.output);
        let phases = [inferred.queue, times.input, infer, times.output];
        self.latencies.record(&RequestTimes { request: time, phases });
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.last_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// A request was answered from the cache, so long after its submission; looking took `lookup`. As in Triton it has
    /// waited for no time and is no inference.
    pub fn hit(&self, lookup: Duration, time: Duration) {
        self.success.add(time);
        self.queue.add(Duration::ZERO);
        self.cache_hit.add(lookup);
        self.last_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// The answer to a request was not in the cache and has been kept, both in so much time.
    pub fn missed(&self, time: Duration) {
        self.cache_miss.add(time);
    }

    /// A request has failed.
    pub fn failed(&self, code: ErrorCode, time: Duration) {
        self.fail.add(time);
        self.failures[FailureReason::of(code) as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn batch_finished(&self, report: &BatchReport) {
        if report.failed {
            return;
        }
        self.executions.fetch_add(1, Ordering::Relaxed);
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = batches.entry(report.rows).or_default();
        counts.compute_input.add(report.times.input);
        counts.compute_infer.add(report.times.compute.saturating_sub(report.times.input));
        counts.compute_output.add(report.times.output);
    }

    /// Requests waiting now.
    pub fn show_pending(&self, requests: usize) {
        self.pending.store(requests as u64, Ordering::Relaxed);
    }

    /// How long the version took to load.
    pub fn show_load(&self, time: Duration) {
        self.load_nanos.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Where answers are kept, if anywhere.
    pub fn show_caching(&self, answers: Option<&VersionCache>) {
        self.is_caching.store(answers.is_some(), Ordering::Relaxed);
    }

    pub(super) fn is_caching(&self) -> bool {
        self.is_caching.load(Ordering::Relaxed)
    }

    pub(super) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    pub(super) fn load_time(&self) -> Duration {
        Duration::from_nanos(self.load_nanos.load(Ordering::Relaxed))
    }

    /// Everything now. Counters are read one after the other: under traffic they may differ by what is between.
    #[must_use]
    pub fn read(&self) -> InferenceSnapshot {
        InferenceSnapshot {
            last_inference_ms: self.last_ms.load(Ordering::Relaxed),
            inference_count: self.rows.load(Ordering::Relaxed),
            execution_count: self.executions.load(Ordering::Relaxed),
            phases: PhaseCounts {
                success: self.success.read(),
                fail: self.fail.read(),
                queue: self.queue.read(),
                compute_input: self.compute_input.read(),
                compute_infer: self.compute_infer.read(),
                compute_output: self.compute_output.read(),
                cache_hit: self.cache_hit.read(),
                cache_miss: self.cache_miss.read(),
            },
            failures: self.failures.each_ref().map(|count| count.load(Ordering::Relaxed)),
            batches: self.batches.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use batching::BatchTimes;

    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn times(compute: u64, input: u64, output: u64) -> BatchTimes {
        BatchTimes { compute: micros(compute), input: micros(input), output: micros(output) }
    }

    fn answer(counters: &InferenceCounters, rows: u64) {
        let times = times(100, 10, 5);
        let inferred = Inferred { outputs: Vec::new(), queue: micros(20), times, batch_rows: 4 };
        counters.succeeded(rows, &inferred, micros(130));
    }

    #[test]
    fn requests_and_batches_are_counted_apart() {
        let counters = InferenceCounters::default();
        answer(&counters, 1);
        answer(&counters, 3);
        let report = BatchReport { rows: 4, requests: 2, queue: micros(20), times: times(100, 10, 5), failed: false };
        counters.batch_finished(&report);
        counters.batch_finished(&BatchReport { failed: true, ..report });
        counters.failed(ErrorCode::QueueTimeout, micros(7));
        counters.failed(ErrorCode::EngineFailed, micros(7));
        counters.failed(ErrorCode::InvalidTensors, micros(7));
        let read = counters.read();
        assert_eq!((read.inference_count, read.execution_count), (4, 1));
        assert_eq!(read.phases.success, TimedCount { count: 2, ns: 260_000 });
        assert_eq!(read.phases.compute_infer, TimedCount { count: 2, ns: 180_000 });
        assert_eq!((read.phases.queue.micros(), read.phases.fail.count), (40, 3));
        assert_eq!(read.failures, [1, 0, 1, 1]);
        assert_eq!(read.batches[&4].compute_infer, TimedCount { count: 1, ns: 90_000 });
        assert!(read.last_inference_ms > 0);
    }

    #[test]
    fn statistics_count_from_a_moment() {
        let counters = InferenceCounters::default();
        answer(&counters, 1);
        let then = counters.read();
        assert_eq!(counters.read().since(&then), InferenceSnapshot::default());
        answer(&counters, 2);
        let since = counters.read().since(&then);
        assert_eq!((since.inference_count, since.phases.success.count), (2, 1));
    }
}
