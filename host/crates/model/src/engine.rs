//! The engine's seam: what the batcher and the host know of whatever runs models. Batch memory belongs to the engine:
//! an instance prepares a slot, the batcher writes each row into it once, and outputs come back as views that keep
//! their memory alive until the last one is dropped. Submission and completion are apart, so that an instance may run
//! on the calling thread (CPU) or keep several batches in flight on a device (GPU) behind the same trait.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Assembly, FileTensors, ModelConfig, Signature, Tensor, VersionNumber};

/// Loads model versions.
pub trait ModelLoader: Send + Sync + 'static {
    /// Loads one version: opens its file once, completes the configuration from it, checks the one against the other,
    /// makes as many instances as the configuration asks for and runs the warm-up on each. Blocks for as long as that
    /// takes; call it from a background thread.
    ///
    /// # Errors
    /// A [`LoadError`]; nothing stays loaded then.
    fn load(&self, request: &LoadRequest<'_>) -> Result<LoadedModel, LoadError>;
}

/// What to load.
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest<'a> {
    /// The model's configuration.
    pub config: &'a ModelConfig,
    /// The version.
    pub version: VersionNumber,
    /// The model's file. It may be replaced on disk afterwards; the loaded version must not notice.
    pub path: &'a Path,
}

/// A loaded version, before anyone uses it.
pub struct LoadedModel {
    /// The configuration, completed from the file.
    pub config: ModelConfig,
    /// Inputs and outputs as served: the file's, narrowed by what the configuration declares, without the inputs that
    /// `assembly` fills in.
    pub signature: Signature,
    /// How batches are put together; `None` where that is the requests' rows, one behind the other.
    pub assembly: Option<Assembly>,
    /// The executors, each to be used by one thread at a time.
    pub instances: Vec<Box<dyn ModelInstance>>,
    /// Makes further executors.
    pub factory: Arc<dyn InstanceFactory>,
    /// The class labels of outputs, where the file itself names them: the label of class 0 first.
    pub labels: BTreeMap<Arc<str>, Arc<[String]>>,
    /// The execution provider that runs it, such as `CPUExecutionProvider`.
    pub provider: &'static str,
}

/// Makes further executors of a version that is loaded, without loading it again. It keeps the version loaded.
pub trait InstanceFactory: Send + Sync {
    /// Makes one and runs the warm-up on it. Blocks for as long as that takes; call it from a background thread.
    ///
    /// # Errors
    /// [`LoadError::Warmup`] when the warm-up fails.
    fn make(&self) -> Result<Box<dyn ModelInstance>, LoadError>;
}

/// One executor of a loaded version. It is used in pairs of calls: [`prepare`](Self::prepare), rows appended to the slot
/// that it returns, then [`submit`](Self::submit).
pub trait ModelInstance: Send {
    /// Readies memory for a batch of this layout and returns it for writing. A slot prepared before and never submitted
    /// is reused.
    ///
    /// # Errors
    /// [`EngineError`] when the memory cannot be had.
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError>;

    /// Starts the batch in the slot last prepared and calls `done` exactly once, from this thread before returning or
    /// from another one later. At most [`capacity`](Self::capacity) batches may be in flight.
    fn submit(&mut self, done: Completion);

    /// Batches that may be in flight: 1 where `submit` runs to the end on the calling thread.
    fn capacity(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// Whether `submit` always calls `done` before it returns.
    fn completes_inline(&self) -> bool {
        true
    }
}

/// The shape of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchLayout {
    /// By input of the model, in its order: the full shape. Of no account for an input that is left out.
    pub shapes: Vec<Vec<u64>>,
    /// Rows of all requests; `None` where the model does not batch.
    pub rows: Option<u64>,
    /// Inputs that are left out, ascending: the model uses the values in its file. Empty but where inputs are optional.
    pub absent: Vec<usize>,
}

/// Memory of one batch while it is written.
pub trait Slot {
    /// Appends elements, as in a [`Tensor`], to input `input` (its position in the model). For each input they must add up
    /// to the layout's shape before the batch is submitted.
    ///
    /// # Panics
    /// When more is appended than the layout has room for.
    fn append(&mut self, input: usize, elements: &[u8]);
}

/// Called once with the outcome of a batch.
pub type Completion = Box<dyn FnOnce(Result<BatchOutput, EngineError>) + Send>;

/// The outputs of a batch in the signature's order. Their data are views of engine memory.
#[derive(Debug)]
pub struct BatchOutput {
    /// Full tensors, all rows in the first dimension where the model batches.
    pub tensors: Vec<Tensor>,
}

/// A batch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine refused or failed to run it.
    #[error("running the model failed: {0}")]
    Run(String),
    /// An output is not what the signature says.
    #[error("output '{output}' of the model is {got}, but its signature says {expected}")]
    Output {
        /// The output.
        output: String,
        /// What the signature says.
        expected: String,
        /// What the engine returned.
        got: String,
    },
    /// Memory for the batch could not be had.
    #[error("no memory for a batch of {bytes} bytes")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
    },
}

/// A version could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// ONNX Runtime's library is missing or unusable.
    #[error("{0}")]
    Library(String),
    /// The file cannot be read or is no ONNX model.
    #[error("loading {}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the engine said.
        message: String,
    },
    /// File and configuration disagree; every disagreement is listed.
    #[error("{}", problems.join("; "))]
    Mismatch {
        /// One text per disagreement.
        problems: Vec<String>,
        /// What the file has, where the file is what the configuration disagrees with.
        file: Option<Box<FileTensors>>,
    },
    /// Something this build cannot serve.
    #[error("{0}")]
    Unsupported(String),
    /// A warm-up request failed. The text is Triton's.
    #[error("failed to run warmup sample '{sample}': {message}")]
    Warmup {
        /// The warm-up's name.
        sample: String,
        /// Why.
        message: String,
    },
}
