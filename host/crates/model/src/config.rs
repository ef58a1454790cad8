//! A model's configuration after parsing: what `config.pbtxt` asks for, checked and with every default filled in. The
//! text format is the host's concern; this type cannot hold a value the batcher or the engine would have to refuse.

mod batching;
mod instances;
mod padding;
mod ragged;
mod rate_limit;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

pub use batching::{BatchingConfig, BatchingConfigError, Priorities, QueuePolicy, TimeoutAction};
pub use instances::InstanceGroup;
pub use padding::{Boundaries, Buckets, CutOutput, FilledInput, FilledKind, PadTo, PaddedInput, PaddingConfig};
pub use ragged::{GeneratedInput, GeneratedKind, RaggedConfig};
pub use rate_limit::{RateLimit, RateResource, RateScope};
pub use session::{
    Accelerator, ExecutionMode, GraphOptimization, MemoryArena, SessionConfig, SessionEntries, SessionEntryError,
    SessionThreads, ThreadCount,
};

use crate::{AutoComplete, DataType, ModelName, VersionNumber};

/// Everything the engine side knows about a model. Field names follow Triton's `ModelConfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The model's name, equal to its folder's.
    pub name: ModelName,
    /// What runs it.
    pub backend: Backend,
    /// Most rows of one batch; 0 means that the model has no batch dimension and requests run one by one.
    pub max_batch_size: u32,
    /// Declared inputs; empty means "as the model file says".
    pub inputs: Vec<TensorConfig>,
    /// The declared inputs that a request may leave out.
    pub optional_inputs: BTreeSet<Arc<str>>,
    /// Declared outputs, perhaps a subset of the file's; empty means "as the model file says".
    pub outputs: Vec<TensorConfig>,
    /// How requests wait and are gathered.
    pub batching: BatchingConfig,
    /// How requests of different lengths share a batch.
    pub padding: PaddingConfig,
    /// How requests of different shapes share a batch.
    pub ragged: RaggedConfig,
    /// Executors per version; at least one group.
    pub instance_groups: Vec<InstanceGroup>,
    /// How ONNX Runtime runs it.
    pub session: SessionConfig,
    /// Which version folders are served.
    pub version_policy: VersionPolicy,
    /// Whether what is not declared is taken from the model file.
    pub auto_complete: AutoComplete,
    /// The model's file inside a version folder; `model.onnx` unless configured.
    pub model_filename: String,
    /// Requests run on every instance before it serves.
    pub warmup: Vec<WarmupSample>,
    /// Where batches run.
    pub execution: Execution,
    /// What becomes of outputs that are no numbers.
    pub non_finite: NonFinite,
    /// Whether answers are kept for requests with the same inputs.
    pub has_response_cache: bool,
    /// The remaining `parameters`, by key.
    pub parameters: BTreeMap<String, String>,
}

impl ModelConfig {
    /// A configuration with Triton's defaults for a model that declares nothing.
    #[must_use]
    pub fn named(name: ModelName) -> Self {
        Self {
            instance_groups: vec![InstanceGroup::named(name.as_str())],
            name,
            backend: Backend::OnnxRuntime,
            max_batch_size: 0,
            inputs: Vec::new(),
            optional_inputs: BTreeSet::new(),
            outputs: Vec::new(),
            batching: BatchingConfig { is_dynamic: false, ..BatchingConfig::default() },
            padding: PaddingConfig::default(),
            ragged: RaggedConfig::default(),
            session: SessionConfig::default(),
            version_policy: VersionPolicy::Latest(1),
            auto_complete: AutoComplete::default(),
            model_filename: "model.onnx".to_owned(),
            warmup: Vec::new(),
            execution: Execution::Auto,
            non_finite: NonFinite::Count,
            has_response_cache: false,
            parameters: BTreeMap::new(),
        }
    }

    /// Executors of all groups.
    #[must_use]
    pub fn instance_count(&self) -> NonZeroUsize {
        let total = self.instance_groups.iter().map(|group| group.count.get()).fold(0, usize::saturating_add);
        NonZeroUsize::new(total).unwrap_or(NonZeroUsize::MIN)
    }

    /// What each executor needs in order to run, in their order; empty where none needs anything.
    #[must_use]
    pub fn rate_limits(&self) -> Vec<RateLimit> {
        if self.instance_groups.iter().all(|group| group.rate_limit == RateLimit::default()) {
            return Vec::new();
        }
        let groups = self.instance_groups.iter();
        groups.flat_map(|group| std::iter::repeat_n(group.rate_limit.clone(), group.count.get())).collect()
    }

    /// Most rows of one request, for [`Signature::check_inputs`](crate::Signature::check_inputs): `max_batch_size`, or
    /// [`MAX_PIECES`](BatchingConfig::MAX_PIECES) times that where larger requests run in pieces; 0 where the model does
    /// not batch.
    #[must_use]
    pub fn max_request_rows(&self) -> u32 {
        let pieces = if self.batching.split_large_requests { BatchingConfig::MAX_PIECES } else { 1 };
        self.max_batch_size.saturating_mul(pieces)
    }
}

/// What runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// ONNX Runtime, from an ONNX file.
    OnnxRuntime,
    /// Nothing: each output is an input, after a delay. There is no file.
    Identity,
}

impl Backend {
    /// Its name in `config.pbtxt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnnxRuntime => "onnxruntime",
            Self::Identity => "identity",
        }
    }

    /// What Triton calls the platform of such models.
    #[must_use]
    pub fn platform(self) -> &'static str {
        match self {
            Self::OnnxRuntime => "onnxruntime_onnx",
            Self::Identity => "identity",
        }
    }

    /// Whether a version is a file, and not just a folder.
    #[must_use]
    pub fn has_file(self) -> bool {
        self == Self::OnnxRuntime
    }
}

/// A declared input or output. `dims` leaves out the batch dimension where the model batches, as in `config.pbtxt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorConfig {
    /// The tensor's name.
    pub name: Arc<str>,
    /// The element type.
    pub data_type: DataType,
    /// Dimensions as clients see them, at least 1 each, or -1 where free.
    pub dims: Vec<i64>,
    /// Dimensions as the model file has them, where it has others: the same free dimensions in the same order, and as many
    /// elements between them. Empty where the model has nothing but the batch dimension.
    pub reshape: Option<Vec<i64>>,
}

impl TensorConfig {
    /// Dimensions as the model file has them.
    #[must_use]
    pub fn model_dims(&self) -> &[i64] {
        self.reshape.as_deref().unwrap_or(&self.dims)
    }
}

/// Which version folders are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionPolicy {
    /// The highest so many.
    Latest(u32),
    /// All.
    All,
    /// These.
    Specific(Vec<VersionNumber>),
}

impl VersionPolicy {
    /// The versions to serve out of those present, ascending.
    #[must_use]
    pub fn choose(&self, present: &[VersionNumber]) -> Vec<VersionNumber> {
        let mut chosen = present.to_vec();
        chosen.sort_unstable();
        chosen.dedup();
        match self {
            Self::Latest(count) => {
                let surplus = chosen.len().saturating_sub(usize::try_from(*count).unwrap_or(usize::MAX));
                chosen.split_off(surplus)
            }
            Self::All => chosen,
            Self::Specific(wanted) => {
                chosen.retain(|version| wanted.contains(version));
                chosen
            }
        }
    }
}

/// Where batches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Inline while measured runs are short, on the instance's own thread otherwise.
    Auto,
    /// On the thread that holds the request.
    Inline,
    /// On the instance's own thread.
    Worker,
}

/// What becomes of an answer that holds a NaN or an infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonFinite {
    /// It is counted.
    Count,
    /// It is counted, and the request fails.
    Refuse,
}

/// A request to run on each instance before it serves (Triton's `ModelWarmup`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmupSample {
    /// A name for messages.
    pub name: String,
    /// Rows; 1 where the model does not batch.
    pub batch_size: u32,
    /// The inputs, every one of the model's.
    pub inputs: Vec<WarmupInput>,
    /// How often to run it.
    pub count: u32,
}

/// One input of a [`WarmupSample`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmupInput {
    /// The input's name.
    pub name: Arc<str>,
    /// The element type.
    pub data_type: DataType,
    /// Dimensions without the batch dimension; all known.
    pub dims: Vec<u64>,
    /// Where the elements come from.
    pub data: WarmupData,
}

/// The elements of a [`WarmupInput`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmupData {
    /// Zeros; empty strings for BYTES.
    Zero,
    /// Pseudo-random bits in range for the type.
    Random,
    /// The bytes of one row, repeated for each.
    Given(bytes::Bytes),
}

/// A limit outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {got}; it must be {bound}")]
pub struct LimitError {
    /// The limit.
    pub name: &'static str,
    /// The bound, in words.
    pub bound: String,
    /// The value given.
    pub got: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_be_larger_than_a_batch_only_where_it_can_run_in_pieces() {
        let cases =
            [(0, false, 0), (0, true, 0), (8, false, 8), (8, true, 32_768), (1 << 30, true, u32::MAX), (1, true, 4096)];
        for (max_batch_size, split_large_requests, rows) in cases {
            let mut config = ModelConfig::named(ModelName::new("m").expect("a name"));
            config.max_batch_size = max_batch_size;
            config.batching.split_large_requests = split_large_requests;
            assert_eq!(config.max_request_rows(), rows, "{max_batch_size} {split_large_requests}");
        }
    }

    #[test]
    fn version_policies_choose_from_what_is_present() {
        let versions =
            |numbers: &[u64]| -> Vec<VersionNumber> { numbers.iter().filter_map(|&n| VersionNumber::new(n)).collect() };
        let present = versions(&[3, 1, 10]);
        let cases = [
            (VersionPolicy::Latest(1), vec![10]),
            (VersionPolicy::Latest(2), vec![3, 10]),
            (VersionPolicy::Latest(9), vec![1, 3, 10]),
            (VersionPolicy::All, vec![1, 3, 10]),
            (VersionPolicy::Specific(versions(&[1, 7])), vec![1]),
        ];
        for (policy, chosen) in cases {
            assert_eq!(policy.choose(&present), versions(&chosen), "{policy:?}");
        }
    }
}
