//! How ONNX Runtime runs a model: threads, memory, graph rewrites, accelerators, and what of its session options a
//! repository may set.

mod entries;

use std::num::NonZeroU16;
use std::path::PathBuf;

pub use entries::{SessionEntries, SessionEntryError};

/// What one model asks of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Threads of the session.
    pub threads: SessionThreads,
    /// How far ONNX Runtime rewrites the graph.
    pub graph_optimization: GraphOptimization,
    /// Whether independent operators run one after the other or side by side (`execution_mode`).
    pub execution_mode: ExecutionMode,
    /// Whether memory comes from an arena, which keeps what a run has used (`enable_mem_arena`).
    pub memory_arena: MemoryArena,
    /// Whether the memory of a run is planned from that of the run before (`enable_mem_pattern`).
    pub memory_pattern: bool,
    /// Whether weights are allocated outside the arena (`session.use_device_allocator_for_initializers`).
    pub initializers_outside_arena: bool,
    /// Further session options, by their names in ONNX Runtime (`ort.session.<name>`).
    pub entries: SessionEntries,
    /// Execution accelerators, in the order of their preference.
    pub accelerators: Vec<Accelerator>,
    /// Libraries with operators of their own, as the configuration names them (`model_operations`).
    pub custom_op_libraries: Vec<PathBuf>,
}

impl Default for SessionConfig {
    /// ONNX Runtime's defaults, with all rewrites of the graph.
    fn default() -> Self {
        Self {
            threads: SessionThreads::default(),
            graph_optimization: GraphOptimization::All,
            execution_mode: ExecutionMode::Sequential,
            memory_arena: MemoryArena::Kept,
            memory_pattern: true,
            initializers_outside_arena: false,
            entries: SessionEntries::default(),
            accelerators: Vec::new(),
            custom_op_libraries: Vec::new(),
        }
    }
}

/// Threads of a session; `None` where the model's configuration names none, which is one thread, or the server's global
/// pool where it has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionThreads {
    /// Threads inside one operator.
    pub intra_op: Option<ThreadCount>,
    /// Operators side by side.
    pub inter_op: Option<ThreadCount>,
}

impl SessionThreads {
    /// Whether the configuration names any.
    #[must_use]
    pub fn are_named(&self) -> bool {
        self.intra_op.is_some() || self.inter_op.is_some()
    }
}

/// How many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCount {
    /// As many as the cores that this process may use.
    Cores,
    /// So many.
    Exactly(NonZeroU16),
}

impl From<u16> for ThreadCount {
    /// 0 stands for all cores, as in ONNX Runtime.
    fn from(count: u16) -> Self {
        NonZeroU16::new(count).map_or(Self::Cores, Self::Exactly)
    }
}

/// ONNX Runtime's graph optimization level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphOptimization {
    /// None.
    Disabled,
    /// Semantics-preserving rewrites only.
    Basic,
    /// Basic, and fusions.
    Extended,
    /// All, layout changes included.
    All,
}

/// The order of operators that do not need each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionMode {
    /// One after the other.
    Sequential,
    /// Side by side, on the threads of `inter_op`.
    Parallel,
}

/// Where the memory of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryArena {
    /// From the system, run by run.
    Off,
    /// From an arena that keeps it for the next run.
    Kept,
    /// From an arena that gives back what it can after each run (`memory.enable_memory_arena_shrinkage`).
    Shrunk,
}

/// An execution accelerator of Triton's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// `cuda`, on a GPU.
    Cuda,
    /// `tensorrt`, on a GPU.
    TensorRt,
    /// `openvino`, on the CPU.
    OpenVino,
}

impl Accelerator {
    /// Its name in a configuration.
    #[must_use]
    pub fn config_name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::TensorRt => "tensorrt",
            Self::OpenVino => "openvino",
        }
    }

    /// The execution provider that does its work.
    #[must_use]
    pub fn provider(self) -> &'static str {
        match self {
            Self::Cuda => "CUDAExecutionProvider",
            Self::TensorRt => "TensorrtExecutionProvider",
            Self::OpenVino => "OpenVINOExecutionProvider",
        }
    }
}
