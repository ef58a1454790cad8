//! Triton's series of the response cache, read from it when somebody looks: of the whole cache, and of each version whose
//! answers are kept.

use std::collections::HashMap;
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};

use super::families::{family, gauge};
use super::inference::InferenceSnapshot;
use super::names;
use crate::response_cache::CacheSnapshot;

/// A series: its name, its help, and what it reads of `S`.
type Series<S, V> = (&'static str, &'static str, fn(&S) -> V);

/// Of a version: name, help, and what it reads.
pub(super) const OF_VERSION: [Series<InferenceSnapshot, u64>; 4] = [
    (names::NV_CACHE_HITS_OF_MODEL, "Number of cache hits per model", |s| s.phases.cache_hit.count),
    (names::NV_CACHE_MISSES_OF_MODEL, "Number of cache misses per model", |s| s.phases.cache_miss.count),
    (names::NV_CACHE_HIT_TIME_OF_MODEL, "Total cache hit duration per model, in microseconds", |s| {
        s.phases.cache_hit.micros()
    }),
    (names::NV_CACHE_MISS_TIME_OF_MODEL, "Total cache miss duration per model, in microseconds", |s| {
        s.phases.cache_miss.micros()
    }),
];

/// Of the whole cache: name, help, and what it reads.
const OF_CACHE: [Series<CacheSnapshot, f64>; 9] = [
    (names::NV_CACHE_ENTRIES, "Number of responses stored in response cache", |s| number(s.entries)),
    (names::NV_CACHE_LOOKUPS, "Number of cache lookups in response cache", |s| number(s.hits + s.misses)),
    (names::NV_CACHE_HITS, "Number of cache hits in response cache", |s| number(s.hits)),
    (names::NV_CACHE_MISSES, "Number of cache misses in response cache", |s| number(s.misses)),
    (names::NV_CACHE_EVICTIONS, "Number of cache evictions in response cache", |s| number(s.evictions)),
    (names::NV_CACHE_LOOKUP_TIME, "Total cache lookup duration, in microseconds", |s| micros(s.lookup)),
    (names::NV_CACHE_INSERTION_TIME, "Total cache insertion duration, in microseconds", |s| micros(s.insertion)),
    (names::NV_CACHE_UTIL, "Cache utilization [0.0 - 1.0]", |s| number(s.bytes) / number(s.bytes_max.max(1))),
    (names::RESPONSE_CACHE_BYTES, "Bytes that the answers in the response cache take", |s| number(s.bytes)),
];

#[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
fn number(count: u64) -> f64 {
    count as f64
}

fn micros(time: Duration) -> f64 {
    number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// See the module.
pub(super) struct CacheSeries<R> {
    read: R,
    descs: Vec<Desc>,
}

impl<R: Fn() -> CacheSnapshot + Send + Sync> CacheSeries<R> {
    pub(super) fn new(read: R) -> Self {
        let desc = |(name, help, _): &(&str, &str, _)| {
            Desc::new((*name).to_owned(), (*help).to_owned(), Vec::new(), HashMap::new()).expect("the names are valid")
        };
        Self { read, descs: OF_CACHE.iter().map(desc).collect() }
    }
}

impl<R: Fn() -> CacheSnapshot + Send + Sync> Collector for CacheSeries<R> {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let snapshot = (self.read)();
        let shown = |(name, help, value): &Series<CacheSnapshot, f64>| {
            family((name, help), MetricType::GAUGE, vec![gauge(Vec::new(), value(&snapshot))])
        };
        OF_CACHE.iter().map(shown).collect()
    }
}
