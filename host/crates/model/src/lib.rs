//! Airlock's vocabulary: data types, tensors, signatures, validated model configuration, the engine's seam and the
//! error codes. Everything here is a value or a trait; there is no IO, no clock and no runtime, so every other crate
//! can depend on it and be tested without them. Types are valid by construction: whoever holds one need not check it.

mod assembly;
mod auto_complete;
mod config;
mod data_type;
mod declaration;
mod engine;
mod error_code;
mod moment;
mod name;
mod padding;
mod signature;
mod tensor;
#[cfg(feature = "testing")]
pub mod testing;

pub use assembly::{
    AssembledBatch, Assembly, OptionalInputs, Ragged, RaggedError, Request, split_outputs, split_tensors,
};
pub use auto_complete::{AutoComplete, AutoCompleteError, FileTensors};
pub use config::{
    Accelerator, Backend, BatchingConfig, BatchingConfigError, Boundaries, Buckets, CutOutput, Execution,
    ExecutionMode, FilledInput, FilledKind, GeneratedInput, GeneratedKind, GraphOptimization, InstanceGroup,
    LimitError, MemoryArena, ModelConfig, NonFinite, PadTo, PaddedInput, PaddingConfig, Priorities, QueuePolicy,
    RaggedConfig, RateLimit, RateResource, RateScope, SessionConfig, SessionEntries, SessionEntryError, SessionThreads,
    TensorConfig, ThreadCount, TimeoutAction, VersionPolicy, WarmupData, WarmupInput, WarmupSample,
};
pub use data_type::DataType;
pub use declaration::Declaration;
pub use engine::{
    BatchLayout, BatchOutput, Completion, EngineError, InstanceFactory, LoadError, LoadRequest, LoadedModel,
    ModelInstance, ModelLoader, Slot,
};
pub use error_code::{ErrorCode, GrpcStatus};
pub use moment::Moment;
pub use name::{ModelName, NameError, VersionNumber};
pub use padding::{BatchInput, CountType, Fill, PaddedAxis, Padding, PaddingError, PaddingFault};
pub use signature::{Signature, SignatureMismatch, TensorSpec, display_shape};
pub use tensor::{BytesElements, Tensor, TensorError, element_count};
