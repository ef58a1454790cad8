//! The response cache (Triton's `response_cache`): what a model answered to these very inputs before. One cache for all
//! models that ask for it, bounded in bytes. Owned by the app and shared; each loaded version holds a [`VersionCache`].
//!
//! A hit is always right: inputs are compared whole, with names, types and shapes, and answers belong to one load of one
//! version, so that nothing of a model that was replaced is found. Entries own their bytes, since a view of a batch or of
//! a request's body would keep all of it. Which outputs a request wants is decided after the cache, which holds them all.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::Tensor;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Equivalent, Lifecycle, OptionsBuilder, Weighter};
use tokio::time::Instant;

/// What an entry takes beside its tensors: its key, its place in the table, and what the allocator adds.
const ENTRY_BYTES: usize = 256;
/// The same of a tensor beside its elements and its shape.
const TENSOR_BYTES: usize = 128;
/// What a small answer takes.
const ANSWER_BYTES_GUESS: u64 = 512;
/// Answers that the memory of those that had to go is made for, at most.
const REMEMBERED_MAX: usize = 1 << 24;
/// A part of the cache that is locked on its own is not smaller than this, for an entry has to fit into one.
const SHARD_BYTES_MIN: u64 = 16 << 20;
/// How many such parts there are at most.
const SHARDS_MAX: u64 = 16;

/// See the module.
pub struct ResponseCache {
    entries: Entries,
    loads: AtomicU64,
    counts: Arc<Counts>,
}

type Entries = Cache<Key, Arc<[Tensor]>, Bytewise, DefaultHashBuilder, CountEvictions>;

/// The whole of what decides an answer.
struct Key {
    /// Which load of which version.
    load: u64,
    inputs: Box<[Tensor]>,
}

/// The same, of a request.
struct KeyRef<'a> {
    load: u64,
    inputs: &'a [Tensor],
}

fn hash<H: Hasher>(load: u64, inputs: &[Tensor], state: &mut H) {
    load.hash(state);
    for input in inputs {
        input.name().hash(state);
        input.data_type().hash(state);
        input.shape().hash(state);
        input.data().hash(state);
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.load, &self.inputs, state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.load, self.inputs, state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.load == other.load && self.inputs == other.inputs
    }
}

impl Eq for Key {}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.load == key.load && *self.inputs == *key.inputs
    }
}

/// Weighs entries in bytes.
#[derive(Clone)]
struct Bytewise;

impl Weighter<Key, Arc<[Tensor]>> for Bytewise {
    fn weight(&self, key: &Key, outputs: &Arc<[Tensor]>) -> u64 {
        weight(&key.inputs, outputs)
    }
}

fn weight(inputs: &[Tensor], outputs: &[Tensor]) -> u64 {
    let of_tensor = |tensor: &Tensor| TENSOR_BYTES + size_of_val(tensor.shape()) + tensor.data().len();
    let tensors = inputs.iter().chain(outputs).map(of_tensor);
    (ENTRY_BYTES + tensors.sum::<usize>()) as u64
}

/// Counts what makes room for others.
#[derive(Clone)]
struct CountEvictions(Arc<Counts>);

impl Lifecycle<Key, Arc<[Tensor]>> for CountEvictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: Key, _: Arc<[Tensor]>) {
        self.0.evictions.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    lookup_nanos: AtomicU64,
    insertion_nanos: AtomicU64,
}

/// What the cache says of itself at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSnapshot {
    /// Answers held.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes that they may take.
    pub bytes_max: u64,
    /// Requests that found their answer.
    pub hits: u64,
    /// Requests that did not.
    pub misses: u64,
    /// Answers that had to make room.
    pub evictions: u64,
    /// Time spent looking.
    pub lookup: Duration,
    /// Time spent keeping answers.
    pub insertion: Duration,
}

impl ResponseCache {
    /// A cache of at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        // A guess at how many answers there may be decides how many of those that had to go are remembered. It is one of
        // small answers: whoever is not remembered when it comes back is taken for new, and may never stay.
        let guess = usize::try_from(bytes_max / ANSWER_BYTES_GUESS).unwrap_or(usize::MAX).clamp(64, REMEMBERED_MAX);
        let mut options = OptionsBuilder::new();
        options.weight_capacity(bytes_max).estimated_items_capacity(guess);
        // Rounded down to a power of two, since it would be rounded up.
        options.shards(1 << shards.ilog2());
        let options = options.build().expect("both capacities are given");
        let counts = Arc::<Counts>::default();
        let lifecycle = CountEvictions(Arc::clone(&counts));
        let entries = Cache::with_options(options, Bytewise, DefaultHashBuilder::default(), lifecycle);
        Self { entries, loads: AtomicU64::new(0), counts }
    }

    /// What it says of itself.
    #[must_use]
    pub fn snapshot(&self) -> CacheSnapshot {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { hits, misses, evictions, lookup_nanos, insertion_nanos } = &*self.counts;
        CacheSnapshot {
            entries: self.entries.len() as u64,
            bytes: self.entries.weight(),
            bytes_max: self.entries.capacity(),
            hits: read(hits),
            misses: read(misses),
            evictions: read(evictions),
            lookup: Duration::from_nanos(read(lookup_nanos)),
            insertion: Duration::from_nanos(read(insertion_nanos)),
        }
    }
}

/// The cache, for one load of one version. What it kept goes with it.
pub struct VersionCache {
    cache: Arc<ResponseCache>,
    load: u64,
}

/// What looking into the cache gave.
pub enum Lookup {
    /// All outputs that the model gave to the same inputs, and how long it took to find them.
    Hit(Vec<Tensor>, Duration),
    /// Nothing; the answer may be kept.
    Miss(Missing),
}

/// A request whose answer was not there.
pub struct Missing {
    /// They share the request's memory until they are kept.
    inputs: Vec<Tensor>,
    lookup: Duration,
}

impl VersionCache {
    /// A part of `cache` that no other load of any version sees.
    #[must_use]
    pub fn new(cache: Arc<ResponseCache>) -> Self {
        let load = cache.loads.fetch_add(1, Ordering::Relaxed);
        Self { cache, load }
    }

    /// Looks for the answer to `inputs`, which are in the model's order.
    #[must_use]
    pub fn look_up(&self, inputs: &[Tensor]) -> Lookup {
        let started = Instant::now();
        let found = self.cache.entries.get(&KeyRef { load: self.load, inputs });
        let lookup = started.elapsed();
        let counts = &self.cache.counts;
        add(&counts.lookup_nanos, lookup);
        match found {
            Some(outputs) => {
                counts.hits.fetch_add(1, Ordering::Relaxed);
                Lookup::Hit(outputs.to_vec(), lookup)
            }
            None => {
                counts.misses.fetch_add(1, Ordering::Relaxed);
                Lookup::Miss(Missing { inputs: inputs.to_vec(), lookup })
            }
        }
    }

    /// Keeps the answer to what was not there, unless it takes more than the cache can hold in one place. Returns the
    /// time that the miss has cost, looking and keeping.
    pub fn keep(&self, missing: &Missing, outputs: &[Tensor]) -> Duration {
        let started = Instant::now();
        if weight(&missing.inputs, outputs) <= self.cache.entries.shard_capacity() {
            let key = Key { load: self.load, inputs: missing.inputs.iter().map(Tensor::detached).collect() };
            self.cache.entries.insert(key, outputs.iter().map(Tensor::detached).collect());
        }
        let insertion = started.elapsed();
        add(&self.cache.counts.insertion_nanos, insertion);
        missing.lookup + insertion
    }
}

impl Drop for VersionCache {
    fn drop(&mut self) {
        self.cache.entries.retain(|key, _| key.load != self.load);
    }
}

fn add(nanos: &AtomicU64, time: Duration) {
    nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
