//! The wasmtime engine: which proposals guests may use, and the pool that is sized from the configuration. One engine per
//! process.

use std::num::NonZeroUsize;
use std::sync::Arc;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Result};

use super::RuntimeConfig;
use crate::compile::FunctionCache;

/// Native stack that a guest may use: interpreters recurse.
const WASM_STACK_BYTES: usize = 1 << 20;

/// Stack of a guest's fiber: the guest's part and as much again for host functions.
const FIBER_STACK_BYTES: usize = 2 << 20;

/// Stacks beyond one per live instance, for stores that are being dropped while their successor starts.
const STACKS_SPARE: u32 = 16;

/// Frames of a crash's backtrace.
const BACKTRACE_FRAMES: NonZeroUsize = NonZeroUsize::new(32).expect("32 is not zero");

/// Heap images up to this size are mapped copy-on-write even where they are sparse; Python's is 12 MB.
const DENSE_IMAGE_BYTES: u64 = 64 << 20;

/// Slots that are given back at once. With more, a dropped instance's slots would lie in a queue of the pool while its
/// permit already went to the next one, which then found the pool full.
const DECOMMIT_BATCH: usize = 1;

/// How instances get their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// From the pool reserved at start.
    Pooling,
    /// From the system at each instantiation, since the pool's reservation failed.
    OnDemand {
        /// Why.
        reason: String,
    },
}

impl Allocator {
    /// The stable name, as in metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pooling => "pooling",
            Self::OnDemand { .. } => "on_demand",
        }
    }
}

/// Makes the engine: with the pool where it can be reserved, without it elsewhere.
pub(super) fn build(limits: &RuntimeConfig, functions: Option<Arc<FunctionCache>>) -> Result<(Engine, Allocator)> {
    let mut config = base_config();
    if let Some(functions) = functions {
        config.enable_incremental_compilation(functions)?;
    }
    let mut pooled = config.clone();
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    match Engine::new(&pooled) {
        Ok(engine) => Ok((engine, Allocator::Pooling)),
        Err(error) => {
            let reason = format!("{error:#}");
            Ok((Engine::new(&config)?, Allocator::OnDemand { reason }))
        }
    }
}

/// Threads are off too: the `threads` feature of wasmtime is not compiled in.
fn base_config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_gc(false)
        .wasm_exceptions(false)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(DENSE_IMAGE_BYTES)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .wasm_backtrace_max_frames(Some(BACKTRACE_FRAMES));
    config
}

fn pool(limits: &RuntimeConfig) -> PoolingAllocationConfig {
    let instances = limits.instances_max;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(limits.core_instance_slots))
        .total_memories(instances.saturating_mul(limits.memories_per_instance))
        .total_tables(instances.saturating_mul(limits.tables_per_instance))
        .total_stacks(instances.saturating_add(STACKS_SPARE))
        .total_gc_heaps(instances)
        .max_core_instances_per_component(limits.core_instance_slots)
        .max_memories_per_component(limits.memories_per_instance)
        .max_tables_per_component(limits.tables_per_instance)
        .max_tables_per_module(limits.tables_per_instance)
        .max_memories_per_module(limits.memories_per_instance)
        .max_component_instance_size(10 << 20)
        .max_core_instance_size(4 << 20)
        .table_elements(limits.table_elements_max)
        .max_memory_size(limits.memory_bytes_max)
        .max_unused_warm_slots(instances)
        .decommit_batch_size(DECOMMIT_BATCH);
    pool
}
