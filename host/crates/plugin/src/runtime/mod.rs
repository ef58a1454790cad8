//! What all plugins of a process share: one engine and its pool, the epoch's clock, the linker, the compiler and its
//! caches, the permits of live instances and the threads for long guests. Built once at start; plugins hold an `Arc` of
//! it, and the last one to go stops its threads.

mod capacity;
mod config;
mod engine;
mod threads;
mod ticker;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::Handle;
use wasmtime::Engine;
use wasmtime::component::Linker;

pub(crate) use self::capacity::{Capacity, Grant, LineFull, Permit};
pub use self::config::RuntimeConfig;
pub use self::engine::Allocator;
use self::threads::GuestThreads;
pub(crate) use self::threads::lower_priority;
pub(crate) use self::ticker::{Running, Ticker};
use crate::compile::{ArtifactCache, CompileError, CompiledPlugin, Compiler, FunctionCache};
use crate::plugin::{Instance, Pool};
use crate::sandbox::{Sandbox, StoreBounds, link};

/// The sandbox side of a process.
pub struct SandboxRuntime {
    config: RuntimeConfig,
    engine: Engine,
    allocator: Allocator,
    linker: Linker<Sandbox>,
    compiler: Compiler,
    capacity: Arc<Capacity<Instance>>,
    pools: Mutex<Vec<Weak<Pool>>>,
    pools_made: AtomicU64,
    threads: GuestThreads,
    ticker: Ticker,
}

/// Why the sandbox side cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A bound of 0.
    #[error("the sandbox's {setting} must be at least 1, got {got}")]
    Config {
        /// The bound, a field of [`RuntimeConfig`].
        setting: &'static str,
        /// The value given.
        got: usize,
    },
    /// The cache folder cannot be used.
    #[error(
        "cannot use the compile cache folder '{folder}': {source}; make it writable for this user, or set --state-dir"
    )]
    Cache {
        /// The folder.
        folder: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// wasmtime does not start.
    #[error("cannot start the WebAssembly engine: {0}; lower --plugin-instances or --plugin-memory-mb")]
    Engine(String),
    /// A thread does not start.
    #[error("cannot start the thread '{thread}': {message}; raise the system's limit of threads")]
    Thread {
        /// Its name.
        thread: &'static str,
        /// What the system said.
        message: String,
    },
}

/// What the sandbox side uses at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeSnapshot {
    /// How instances get their memory.
    pub allocator: Allocator,
    /// Live instances: warm, in use and starting.
    pub instances: usize,
    /// Most live instances.
    pub instances_max: usize,
    /// Calls waiting for an instance.
    pub waiting: usize,
    /// Most calls waiting.
    pub waiting_max: usize,
    /// What is taken from the pool; absent without one.
    pub pool: Option<PoolUse>,
    /// Whether the epoch's clock stands still, since no guest runs.
    pub ticker_parked: bool,
}

/// What is taken from the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Core instances.
    pub core_instances: u64,
    /// Component instances.
    pub component_instances: u64,
    /// Linear memories.
    pub memories: usize,
    /// Tables.
    pub tables: usize,
    /// Fiber stacks.
    pub stacks: usize,
    /// Free memories that still hold a component's image.
    pub unused_warm_memories: u32,
}

impl SandboxRuntime {
    /// Starts the sandbox side. Reserves the pool; where the system refuses that much address space, instances get their
    /// memory on demand instead, and [`Self::allocator`] says why.
    ///
    /// # Errors
    /// A [`RuntimeError`] that names the bound, the folder or the thread.
    pub fn new(config: RuntimeConfig) -> Result<Arc<Self>, RuntimeError> {
        if let Some((setting, got)) = config.mistake() {
            return Err(RuntimeError::Config { setting, got });
        }
        let functions = open_functions(&config)?;
        let engine_error = |error: wasmtime::Error| RuntimeError::Engine(format!("{error:#}"));
        let (engine, allocator) = engine::build(&config, functions).map_err(engine_error)?;
        if let Allocator::OnDemand { reason } = &allocator {
            tracing::warn!(reason, "the instance pool cannot be reserved; instances get their memory on demand");
        }
        let mut linker = Linker::new(&engine);
        link(&mut linker).map_err(engine_error)?;
        let artifacts = ArtifactCache::open(&config.cache_dir, config.cache_bytes_max, &engine);
        let artifacts = artifacts.map_err(|source| cache_error(&config, source))?;
        let compiler =
            Compiler::new(config.compile_threads, artifacts).map_err(|e| thread_error("airlock-comp", &e))?;
        let threads = GuestThreads::start(config.plugin_threads)?;
        let ticker = Ticker::start(engine.clone()).map_err(|error| thread_error("airlock-epoch", &error))?;
        Ok(Arc::new(Self {
            capacity: Capacity::new(config.instances_max as usize, config.waiting_max),
            config,
            engine,
            allocator,
            linker,
            compiler,
            pools: Mutex::new(Vec::new()),
            pools_made: AtomicU64::new(0),
            threads,
            ticker,
        }))
    }

    /// Checks, compiles and links a component. Blocks for seconds where a large one is not cached: call it on a
    /// background thread.
    ///
    /// # Errors
    /// A [`CompileError`] that says what was expected, what was given and what to do.
    pub fn compile(&self, wasm: &[u8]) -> Result<Arc<CompiledPlugin>, CompileError> {
        self.compiler.compile(wasm, &self.config, &self.engine, &self.linker).map(Arc::new)
    }

    /// How instances get their memory.
    #[must_use]
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &RuntimeConfig {
        &self.config
    }

    /// What is in use at this moment.
    #[must_use]
    pub fn snapshot(&self) -> RuntimeSnapshot {
        let (instances, waiting) = self.capacity.in_use_and_waiting();
        let pool = self.engine.pooling_allocator_metrics().map(|pool| PoolUse {
            core_instances: pool.core_instances(),
            component_instances: pool.component_instances(),
            memories: pool.memories(),
            tables: pool.tables(),
            stacks: pool.stacks(),
            unused_warm_memories: pool.unused_warm_memories(),
        });
        RuntimeSnapshot {
            allocator: self.allocator.clone(),
            instances,
            instances_max: self.capacity.total(),
            waiting,
            waiting_max: self.capacity.waiting_max(),
            pool,
            ticker_parked: self.ticker.is_parked(),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    pub(crate) fn capacity(&self) -> &Arc<Capacity<Instance>> {
        &self.capacity
    }

    pub(crate) fn long_guests(&self) -> &Handle {
        self.threads.long_guests()
    }

    pub(crate) fn suspects(&self) -> &Handle {
        self.threads.suspects()
    }

    pub(crate) fn store_bounds(&self) -> StoreBounds {
        StoreBounds {
            core_instances: self.config.core_instance_slots as usize,
            memories: self.config.memories_per_instance as usize,
            tables: self.config.tables_per_instance as usize,
            table_elements: self.config.table_elements_max,
        }
    }

    /// A pool's number, for its place in line.
    pub(crate) fn next_pool(&self) -> u64 {
        self.pools_made.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn register(&self, pool: &Arc<Pool>) {
        let mut pools = self.lock_pools();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    /// Drops the instance that has been idle for longest, of whichever plugin; false where none is idle.
    pub(crate) fn evict_idle(&self) -> bool {
        let pools: Vec<Arc<Pool>> = self.lock_pools().iter().filter_map(Weak::upgrade).collect();
        let oldest = pools.iter().filter_map(|pool| Some((pool.oldest_idle()?, pool))).min_by_key(|&(since, _)| since);
        oldest.is_some_and(|(_, pool)| pool.evict_oldest())
    }

    fn lock_pools(&self) -> MutexGuard<'_, Vec<Weak<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_functions(config: &RuntimeConfig) -> Result<Option<Arc<FunctionCache>>, RuntimeError> {
    if config.function_cache_bytes_max == 0 {
        return Ok(None);
    }
    let folder = config.cache_dir.join("functions");
    let functions = FunctionCache::open(&folder, config.function_cache_bytes_max);
    let functions = functions.map_err(|source| cache_error(config, source))?;
    if functions.is_none() {
        tracing::info!(folder = %folder.display(), "another process keeps the function cache; compiling without it");
    }
    Ok(functions.map(Arc::new))
}

fn cache_error(config: &RuntimeConfig, source: std::io::Error) -> RuntimeError {
    RuntimeError::Cache { folder: config.cache_dir.display().to_string(), source }
}

fn thread_error(thread: &'static str, error: &dyn std::error::Error) -> RuntimeError {
    RuntimeError::Thread { thread, message: error.to_string() }
}
