//! From a component's bytes to something that can be instantiated: checked, compiled once per digest, kept on disk.
//! Compilation runs on threads of its own at lower priority, so that serving keeps its cores.

mod artifacts;
mod deserialise;
mod error;
mod functions;
mod inspect;

use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

pub(crate) use self::artifacts::ArtifactCache;
use self::artifacts::private_folder;
pub use self::error::CompileError;
pub(crate) use self::functions::FunctionCache;
use crate::RuntimeConfig;
use crate::bindings::AdapterPluginPre;
use crate::runtime::lower_priority;
use crate::sandbox::Sandbox;

/// How much lower than serving threads compiling threads run (the system's nice value).
const COMPILE_NICE: i32 = 10;

/// A component that was checked, compiled and linked. Cheap to share; many generations may use one.
pub struct CompiledPlugin {
    digest: String,
    size: usize,
    core_instance_slots: u64,
    memory_min_bytes: u64,
    compile_time: Duration,
    cache_hit: bool,
    pre: AdapterPluginPre<Sandbox>,
}

impl CompiledPlugin {
    /// SHA-256 of the component's bytes, in lower-case hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Bytes of the component.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Core instances that one instance has.
    #[must_use]
    pub fn core_instance_slots(&self) -> u64 {
        self.core_instance_slots
    }

    /// Bytes of memory that one instance has at start.
    #[must_use]
    pub fn memory_min_bytes(&self) -> u64 {
        self.memory_min_bytes
    }

    /// How long it took to get the compiled form: compiling, or reading it from the cache.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Whether the compiled form came from the cache.
    #[must_use]
    pub fn cache_hit(&self) -> bool {
        self.cache_hit
    }

    pub(crate) fn pre(&self) -> &AdapterPluginPre<Sandbox> {
        &self.pre
    }
}

impl std::fmt::Debug for CompiledPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledPlugin").field("digest", &self.digest).field("size", &self.size).finish_non_exhaustive()
    }
}

/// Compiles with one engine and its caches.
pub(crate) struct Compiler {
    threads: rayon::ThreadPool,
    artifacts: ArtifactCache,
}

impl Compiler {
    pub(crate) fn new(threads: usize, artifacts: ArtifactCache) -> Result<Self, rayon::ThreadPoolBuildError> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("airlock-comp-{number}"))
            .start_handler(|_| lower_priority(COMPILE_NICE))
            .build()?;
        Ok(Self { threads, artifacts })
    }

    /// Checks, compiles and links `wasm`; blocks until done.
    pub(crate) fn compile(
        &self,
        wasm: &[u8],
        limits: &RuntimeConfig,
        engine: &Engine,
        linker: &Linker<Sandbox>,
    ) -> Result<CompiledPlugin, CompileError> {
        let needs = inspect::inspect(wasm, limits)?;
        let digest = hex(&Sha256::digest(wasm));
        let started = Instant::now();
        let (component, cache_hit) = match self.artifacts.load(engine, &digest) {
            Some(component) => (component, true),
            None => (self.compile_anew(wasm, engine, &digest)?, false),
        };
        let compile_time = started.elapsed();
        let pre = linker.instantiate_pre(&component).and_then(AdapterPluginPre::new);
        let pre = pre.map_err(|error| CompileError::Contract(format!("{error:#}")))?;
        Ok(CompiledPlugin {
            digest,
            size: wasm.len(),
            core_instance_slots: needs.core_instances,
            memory_min_bytes: needs.memory_bytes,
            compile_time,
            cache_hit,
            pre,
        })
    }

    fn compile_anew(&self, wasm: &[u8], engine: &Engine, digest: &str) -> Result<Component, CompileError> {
        let compiled = self.threads.install(|| Component::from_binary(engine, wasm));
        let component = compiled.map_err(|error| CompileError::Invalid(format!("{error:#}")))?;
        match component.serialize() {
            Ok(bytes) => self.artifacts.store(digest, &bytes),
            Err(error) => tracing::warn!(digest, error = format!("{error:#}"), "a component cannot be kept compiled"),
        }
        Ok(component)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
