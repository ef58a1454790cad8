//! The bounds of the sandbox side of one process. The pool, the stacks, the threads and the caches are sized from these
//! once, at start.

use std::path::PathBuf;

/// Bounds of one process. Every field has a default; `cache_dir` alone must be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// Where compiled components are kept: a folder of our own under `state_dir`, made with mode 0700. What lies in it is
    /// native code that this process will run, so nobody else may write there.
    pub cache_dir: PathBuf,
    /// Bytes of compiled components kept on disk; the least recently used go first. Default 1 GiB.
    pub cache_bytes_max: u64,
    /// Bytes of compiled functions kept on disk, so that a component much like an earlier one compiles quickly.
    /// Default 512 MiB; 0 keeps none.
    pub function_cache_bytes_max: u64,
    /// Live instances over all plugins: warm, in use and in verification together. Default 256.
    pub instances_max: u32,
    /// Calls that may wait for an instance once `instances_max` live. Default 1,024.
    pub waiting_max: usize,
    /// Core instances that one component may have (a Rust guest has 1, Python 14 to 38). Default 64.
    pub core_instance_slots: u32,
    /// Linear memories that one component may have. Default 2.
    pub memories_per_instance: u32,
    /// Tables that one component may have. Default 8.
    pub tables_per_instance: u32,
    /// Elements of one table. Default 100,000.
    pub table_elements_max: usize,
    /// Bytes of one linear memory, whatever a plugin's own limit. Default 1 GiB.
    pub memory_bytes_max: usize,
    /// Bytes of a component. Default 64 MiB.
    pub component_bytes_max: usize,
    /// Threads that serve requests; pools of warm instances have one shard for each. Default: the machine's cores.
    pub serving_threads: usize,
    /// Threads of the plugin runtime, for guests that are long or not yet proven short, and as many of low priority for
    /// plugins that ran out of time lately. Default: half the cores.
    pub plugin_threads: usize,
    /// Threads that compile, at lower priority. Default: half the cores.
    pub compile_threads: usize,
}

impl RuntimeConfig {
    /// The defaults, with the cache in `cache_dir`.
    #[must_use]
    pub fn new(cache_dir: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let half = (cores / 2).max(1);
        Self {
            cache_dir,
            cache_bytes_max: 1 << 30,
            function_cache_bytes_max: 512 << 20,
            instances_max: 256,
            waiting_max: 1_024,
            core_instance_slots: 64,
            memories_per_instance: 2,
            tables_per_instance: 8,
            table_elements_max: 100_000,
            memory_bytes_max: 1 << 30,
            component_bytes_max: 64 << 20,
            serving_threads: cores,
            plugin_threads: half,
            compile_threads: half,
        }
    }

    /// The first bound that cannot be, with its value.
    pub(super) fn mistake(&self) -> Option<(&'static str, usize)> {
        let counts = [
            ("instances_max", self.instances_max as usize),
            ("core_instance_slots", self.core_instance_slots as usize),
            ("memories_per_instance", self.memories_per_instance as usize),
            ("tables_per_instance", self.tables_per_instance as usize),
            ("table_elements_max", self.table_elements_max),
            ("memory_bytes_max", self.memory_bytes_max),
            ("component_bytes_max", self.component_bytes_max),
            ("serving_threads", self.serving_threads),
            ("plugin_threads", self.plugin_threads),
            ("compile_threads", self.compile_threads),
        ];
        counts.into_iter().find(|&(_, value)| value == 0)
    }
}
