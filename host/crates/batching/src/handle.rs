//! A running batcher from outside: started with a version's instances, asked by many, stopped once. Its state is in
//! [`state`](crate::state); its threads, if it needs any, end with [`BatchHandle::stop`] or with the last handle.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use model::{
    Assembly, BatchLayout, BatchingConfig, BatchingConfigError, Execution, ModelInstance, RateLimit, Signature,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::decision::BatchRules;
use crate::mode::{Mode, Pace};
use crate::outputs::Batches;
use crate::queue::BatchQueue;
use crate::rate_limit::{Gate, RateLimitError, RateLimiter};
use crate::report::{BatchError, BatchObserver, InferenceRequest, Inferred};
use crate::rerun::Reruns;
use crate::state::{Executor, InstanceSlot, Shared, State, WorkerState};
use crate::submission::{Entered, Submission};
use crate::worker;

/// What a batcher is made of.
pub struct BatcherSpec {
    /// Model and version, such as `fraud/3`; names threads and log lines.
    pub name: String,
    /// The version's inputs and outputs, as requests bring and get them.
    pub signature: Arc<Signature>,
    /// How batches are put together; `None` where that is the requests' rows, one behind the other.
    pub assembly: Option<Assembly>,
    /// Most rows of a batch; 0 where the model does not batch.
    pub max_batch_size: u32,
    /// How requests wait and are gathered.
    pub config: BatchingConfig,
    /// Where batches run. Instances that complete on another thread, or take several batches, are always driven by
    /// workers; one such instance decides for all of the version.
    pub execution: Execution,
    /// The executors, at least one.
    pub instances: Vec<Box<dyn ModelInstance>>,
    /// What they need in order to run; `None` where nothing is limited.
    pub rate_limits: Option<RateLimits>,
    /// Who hears of batches and dropped requests.
    pub observer: Arc<dyn BatchObserver>,
    /// Nothing runs before so many requests wait at once (Triton's `TRITONSERVER_DELAY_SCHEDULER`); 0 where they need not.
    pub held_until: usize,
}

/// What the instances of a batcher need in order to run, and who gives it to them.
#[derive(Clone)]
pub struct RateLimits {
    /// The process's limiter.
    pub limiter: RateLimiter,
    /// What each instance needs, in their order; those past the end need nothing.
    pub limits: Vec<RateLimit>,
}

/// Why a batcher did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It was given no instance.
    #[error("model '{name}' has no instance to run batches on")]
    NoInstance {
        /// The spec's name.
        name: String,
    },
    /// Its configuration contradicts itself.
    #[error("model '{name}' cannot batch as configured: {source}")]
    Config {
        /// The spec's name.
        name: String,
        /// What does not go together.
        source: BatchingConfigError,
    },
    /// An instance needs more than there is.
    #[error("model '{name}' cannot run: {source}")]
    RateLimit {
        /// The spec's name.
        name: String,
        /// What there is too little of.
        source: RateLimitError,
    },
    /// A worker thread cannot be had.
    #[error("starting a worker thread of model '{name}': {source}")]
    Thread {
        /// The spec's name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A batcher as it stands, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatcherSnapshot {
    /// Requests waiting.
    pub queued_requests: usize,
    /// Requests waiting by level, 1 the most urgent. Levels without any are left out; empty where there are no levels.
    pub queued_requests_by_level: BTreeMap<u32, usize>,
    /// Rows of the waiting requests.
    pub queued_rows: u64,
    /// Batches taken whose outcome is not known yet, halves of failed ones that are to run again included.
    pub batches_in_flight: usize,
    /// Instances with nothing to do.
    pub instances_idle: usize,
    /// Where the next batch runs.
    pub mode: Mode,
    /// Moving average of run times; `None` before the first.
    pub run_time_ewma: Option<Duration>,
}

/// A running batcher. Clones share it.
#[derive(Clone)]
pub struct BatchHandle {
    pub(crate) owner: Arc<Owner>,
}

pub(crate) struct Owner {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl BatchHandle {
    /// Starts a batcher. Worker threads named `batch-<name>-<index>` are started unless `execution` is `Inline`.
    ///
    /// # Errors
    /// A [`StartError`]; nothing keeps running then.
    pub fn start(mut spec: BatcherSpec) -> Result<Self, StartError> {
        if spec.instances.is_empty() {
            return Err(StartError::NoInstance { name: spec.name });
        }
        if let Err(source) = spec.config.check() {
            return Err(StartError::Config { name: spec.name, source });
        }
        let instances = spec.instances.len();
        let rate_limits = spec.rate_limits.take();
        let shared = Arc::new(assemble(spec));
        if let Some(limits) = &rate_limits {
            let failure = |source| StartError::RateLimit { name: shared.name.clone(), source };
            put_up_gates(&shared, limits).map_err(failure)?;
        }
        let needs_workers = shared.lock().pace.needs_workers();
        let owner = Arc::new(Owner { shared, threads: Mutex::new(Vec::new()) });
        if needs_workers {
            let runtime = Handle::try_current().ok();
            for index in 0..instances {
                owner.hire(index, runtime.clone())?;
            }
        }
        Ok(Self { owner })
    }

    /// Runs one request and returns its own rows. It may run the batch, others' requests included, on the calling
    /// thread. Dropping the future leaves the queue; a batch that has started runs on. With `preserve_ordering` a result
    /// or a failure is handed out after those of all earlier requests; refusals and timeouts are not held back.
    ///
    /// Needs a tokio runtime with its timer on. Deadlines and delays are timed by it and so are rounded up to the next
    /// millisecond.
    ///
    /// # Errors
    /// A [`BatchError`]: refused, expired, or failed with its batch.
    pub async fn submit(&self, request: InferenceRequest) -> Result<Inferred, BatchError> {
        let submission = match Submission::enter(&self.owner.shared, request)? {
            Entered::ToWait(submission) => submission,
            Entered::ToLead(submission) => {
                tokio::task::yield_now().await;
                submission.lead_unless_answered().await;
                submission
            }
        };
        submission.outcome().await
    }

    /// The batcher as it stands.
    #[must_use]
    pub fn snapshot(&self) -> BatcherSnapshot {
        let state = self.owner.shared.lock();
        BatcherSnapshot {
            queued_requests: state.queue.len(),
            queued_requests_by_level: state.queue.len_by_level(),
            queued_rows: state.queue.rows(),
            batches_in_flight: state.in_flight + state.reruns.len(),
            instances_idle: state.slots.iter().filter(|slot| slot.executor.is_some() && slot.in_flight == 0).count(),
            mode: state.pace.mode(),
            run_time_ewma: state.pace.average(),
        }
    }

    /// Refuses new requests, lets the waiting ones run without delay, ends and joins the threads and frees the
    /// instances. Blocks until then; call it off the runtime, whose threads run the requests that it waits for.
    pub fn stop(&self) {
        let shared = &self.owner.shared;
        shared.close();
        let mut state = shared.lock();
        while !state.is_quiet() {
            state = shared.drained.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let executors: Vec<_> = state.slots.iter_mut().filter_map(|slot| slot.executor.take()).collect();
        drop(state);
        for thread in std::mem::take(&mut *self.owner.threads()) {
            if thread.join().is_err() {
                tracing::error!(model = %shared.name, "a batch worker panicked");
            }
        }
        drop(executors);
    }
}

impl Owner {
    /// Starts the worker of instance `index`. Those that have ended are forgotten.
    pub(crate) fn hire(&self, index: usize, runtime: Option<Handle>) -> Result<(), StartError> {
        let failure = |source| StartError::Thread { name: self.shared.name.clone(), source };
        let thread = worker::spawn(Arc::clone(&self.shared), index, runtime).map_err(failure)?;
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    /// Ends the threads without waiting for them: this may run on a serving thread.
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    /// From now on requests are refused and nobody waits for others.
    fn close(&self) {
        self.change(|state| {
            state.is_stopping = true;
            state.queue.stop_waiting();
        });
    }
}

/// A gate for every instance that needs something.
fn put_up_gates(shared: &Arc<Shared>, RateLimits { limiter, limits }: &RateLimits) -> Result<(), RateLimitError> {
    for (index, limit) in limits.iter().enumerate().filter(|(_, limit)| !limit.resources.is_empty()) {
        let batcher = Arc::downgrade(shared);
        let deliver = move |permit| match batcher.upgrade() {
            Some(batcher) => batcher.receive(index, permit),
            None => drop(permit),
        };
        let member = limiter.join(limit, Arc::new(deliver))?;
        let mut state = shared.lock();
        state.is_limited = true;
        if let Some(slot) = state.slots.get_mut(index) {
            slot.gate = Some(Gate::new(member));
        }
    }
    Ok(())
}

fn assemble(spec: BatcherSpec) -> Shared {
    let runs_inline = |instance: &dyn ModelInstance| instance.completes_inline() && instance.capacity().get() == 1;
    let pace = if spec.instances.iter().all(|instance| runs_inline(&**instance)) {
        Pace::of(spec.execution)
    } else {
        Pace::fixed(Mode::Worker)
    };
    let slots: Vec<_> = spec.instances.into_iter().map(slot).collect();
    let rules = BatchRules::new(spec.max_batch_size, &spec.config);
    Shared {
        name: spec.name,
        signature: spec.signature,
        assembly: spec.assembly,
        batches: if spec.max_batch_size == 0 { Batches::Nothing } else { Batches::Rows },
        piece_rows: NonZeroU64::new(spec.max_batch_size.into()).filter(|_| spec.config.split_large_requests),
        order: spec.config.preserve_ordering.then(Arc::default),
        config: spec.config,
        observer: spec.observer,
        origin: Instant::now(),
        drained: Condvar::new(),
        state: Mutex::new(State {
            queue: BatchQueue::new(rules),
            reruns: Reruns::default(),
            slots,
            freed: Vec::new(),
            pace,
            appointed: None,
            in_flight: 0,
            leased: 0,
            is_limited: false,
            is_stopping: false,
            held_until: spec.held_until,
        }),
    }
}

pub(crate) fn slot(instance: Box<dyn ModelInstance>) -> InstanceSlot {
    let capacity = instance.capacity().get();
    let executor = Some(Executor { instance, layout: BatchLayout::default() });
    InstanceSlot {
        executor,
        is_retired: false,
        bell: Arc::default(),
        in_flight: 0,
        capacity,
        worker: WorkerState::Away,
        gate: None,
    }
}
