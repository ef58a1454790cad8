//! One generation of a model's plugin: its compiled component, its limits and its warm instances. The two stages of a
//! request are calls on it; whoever pins the generation for both gets the same code in both.

mod answer;
mod convert;
mod deadline;
mod instance;
mod placement;
mod pool;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Tensor;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) use self::instance::Instance;
use self::placement::{StageTimes, Suspicion};
pub use self::pool::DropReason;
pub(crate) use self::pool::Pool;
use self::stage::Window;
use crate::{
    Call, CompiledPlugin, Placement, PluginFailure, PluginSpec, Prepared, Response, Reuse, SandboxRuntime, Stage,
};

/// One generation of a model's plugin.
pub struct Plugin {
    runtime: Arc<SandboxRuntime>,
    compiled: Arc<CompiledPlugin>,
    spec: Arc<PluginSpec>,
    pool: Arc<Pool>,
    preprocess: StageTimes,
    postprocess: StageTimes,
    suspicion: Suspicion,
}

/// Why a compiled component cannot serve under its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// It has more memory at start than its limit.
    #[error(
        "the plugin of model '{model}' has {needed} bytes of memory at start and limits.memory_mb allows {limit}; raise \
         the limit in plugin.toml"
    )]
    Memory {
        /// The model.
        model: String,
        /// Bytes at start.
        needed: u64,
        /// The limit.
        limit: usize,
    },
    /// It was compiled by another runtime, whose code this one cannot run.
    #[error(
        "the plugin of model '{model}' was compiled by another sandbox runtime; compile it with the one it runs in"
    )]
    OtherRuntime {
        /// The model.
        model: String,
    },
    /// A limit that lets nothing through.
    #[error("limits.time_ms of the plugin of model '{model}' must be at least 1 ms, got {} µs", got.as_micros())]
    Time {
        /// The model.
        model: String,
        /// The limit.
        got: Duration,
    },
}

/// What a generation uses at this moment, and what it has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Idle instances.
    pub warm: usize,
    /// Instances that serve a call.
    pub in_use: usize,
    /// Instances made so far.
    pub created_total: u64,
    /// Instances dropped so far, by reason.
    pub dropped_total: Vec<(DropReason, u64)>,
    /// Where `preprocess` runs now, and its mean time.
    pub preprocess: (Placement, Duration),
    /// Where `postprocess` runs now, and its mean time.
    pub postprocess: (Placement, Duration),
}

impl PoolSnapshot {
    /// Instances dropped so far for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped_total.iter().find(|(given, _)| *given == reason).map_or(0, |&(_, count)| count)
    }

    /// Instances replaced by policy so far: enough calls, too much memory, or idle for too long.
    #[must_use]
    pub fn recycled_total(&self) -> u64 {
        [DropReason::Calls, DropReason::Memory, DropReason::Idle].map(|reason| self.dropped(reason)).iter().sum()
    }
}

impl Plugin {
    /// A generation with no instance yet; the first call makes one.
    ///
    /// # Errors
    /// A [`PluginError`] where the component cannot serve under its limits.
    pub fn new(
        runtime: Arc<SandboxRuntime>,
        compiled: Arc<CompiledPlugin>,
        spec: PluginSpec,
    ) -> Result<Arc<Self>, PluginError> {
        let model = || spec.model.to_string();
        if !wasmtime::Engine::same(compiled.pre().engine(), runtime.engine()) {
            return Err(PluginError::OtherRuntime { model: model() });
        }
        let (needed, limit) = (compiled.memory_min_bytes(), spec.limits.memory_bytes);
        if needed > limit as u64 {
            return Err(PluginError::Memory { model: model(), needed, limit });
        }
        if spec.limits.time < Duration::from_millis(1) {
            return Err(PluginError::Time { model: model(), got: spec.limits.time });
        }
        let shards = runtime.config().serving_threads;
        let pool = Pool::new(runtime.next_pool(), shards, Arc::clone(runtime.capacity()));
        runtime.register(&pool);
        Ok(Arc::new(Self {
            runtime,
            compiled,
            spec: Arc::new(spec),
            pool,
            preprocess: StageTimes::default(),
            postprocess: StageTimes::default(),
            suspicion: Suspicion::default(),
        }))
    }

    /// Turns a request's body into tensors, or into an answer. Runs until `deadline` or the plugin's own time limit,
    /// whichever comes first. Must be called within a tokio runtime that has timers. Dropping the future stops the guest
    /// and drops its instance.
    ///
    /// # Errors
    /// A [`PluginFailure`]; the plugin serves further calls after each of them.
    pub async fn preprocess(
        self: &Arc<Self>,
        call: &Arc<Call>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Prepared, PluginFailure> {
        let window = Window::open(Stage::Preprocess, self, deadline);
        let work = Arc::clone(self).run_preprocess(Arc::clone(call), body, window);
        self.run(window, work).await
    }

    /// Turns the model's outputs into an answer. `carry` is what `preprocess` gave. Otherwise as [`Self::preprocess`].
    ///
    /// # Errors
    /// A [`PluginFailure`]; the plugin serves further calls after each of them.
    pub async fn postprocess(
        self: &Arc<Self>,
        call: &Arc<Call>,
        outputs: Vec<Tensor>,
        carry: Bytes,
        deadline: Instant,
    ) -> Result<Response, PluginFailure> {
        let window = Window::open(Stage::Postprocess, self, deadline);
        let work = Arc::clone(self).run_postprocess(Arc::clone(call), outputs, carry, window);
        self.run(window, work).await
    }

    /// What the generation uses at this moment, and what it has done.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        let (warm, in_use, created_total) = self.pool.counts();
        PoolSnapshot {
            warm,
            in_use,
            created_total,
            dropped_total: DropReason::ALL.map(|reason| (reason, self.pool.dropped(reason))).to_vec(),
            preprocess: (self.placement(Stage::Preprocess), self.preprocess.mean()),
            postprocess: (self.placement(Stage::Postprocess), self.postprocess.mean()),
        }
    }

    /// Drops warm instances that have been idle for too long at `now`. The host's janitor calls it every few seconds.
    pub fn sweep(&self, now: Instant) {
        if let Reuse::Warm(policy) = &self.spec.reuse {
            self.pool.sweep(now, policy.idle_max);
        }
    }

    /// Drops all warm instances, and from now on each one that comes back from a call. Requests that pinned this
    /// generation still finish on it.
    pub fn retire(&self) {
        self.pool.retire();
    }

    /// The compiled component.
    #[must_use]
    pub fn compiled(&self) -> &Arc<CompiledPlugin> {
        &self.compiled
    }

    /// What the generation was made with.
    #[must_use]
    pub fn spec(&self) -> &PluginSpec {
        &self.spec
    }

    fn times(&self, stage: Stage) -> &StageTimes {
        if stage == Stage::Postprocess { &self.postprocess } else { &self.preprocess }
    }

    fn placement(&self, stage: Stage) -> Placement {
        self.suspicion.placement(self.times(stage).placement(self.spec.placement))
    }

    /// Runs a stage where it belongs. On the plugin runtime the number of tasks is bounded by the callers that wait here;
    /// one that leaves takes its task with it.
    async fn run<T: Send + 'static>(
        &self,
        window: Window,
        work: impl Future<Output = Result<T, PluginFailure>> + Send + 'static,
    ) -> Result<T, PluginFailure> {
        let threads = match window.placement {
            Placement::Inline => return work.await,
            Placement::Runtime => self.runtime.long_guests(),
            Placement::Background => self.runtime.suspects(),
        };
        let mut task = Spawned(threads.spawn(work));
        match (&mut task.0).await {
            Ok(result) => result,
            Err(error) => Err(PluginFailure::Crashed {
                place: window.place(&self.spec),
                message: format!("the plugin runtime dropped the call: {error}"),
            }),
        }
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("model", &self.spec.model)
            .field("generation", &self.spec.generation)
            .field("digest", &self.compiled.digest())
            .finish_non_exhaustive()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.pool.retire();
    }
}

/// A task that ends when its owner goes.
struct Spawned<T>(JoinHandle<T>);

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
