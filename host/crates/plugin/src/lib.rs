//! The sandbox side of Airlock: plugins as WebAssembly components, each call bounded in time, memory and output, with
//! nothing granted. A [`SandboxRuntime`] holds what all plugins of a process share; it compiles a component into a
//! [`CompiledPlugin`]; a [`Plugin`] is one generation of it and owns its warm instances. A guest can cost its own request
//! and nothing else: whatever it does, the call ends with a [`PluginFailure`] that names it, and the next call works.

mod bindings;
mod compile;
mod failure;
mod limits;
mod plugin;
mod runtime;
mod sandbox;
mod sink;
mod value;

pub use compile::{CompileError, CompiledPlugin};
pub use failure::{Place, PluginFailure, Stage};
pub use limits::{Limits, PlacementPolicy, PluginSpec, Reuse, WarmPolicy};
pub use plugin::{DropReason, Plugin, PluginError, PoolSnapshot};
pub use runtime::{Allocator, PoolUse, RuntimeConfig, RuntimeError, RuntimeSnapshot, SandboxRuntime};
pub use sink::{Dropped, LogEntry, LogLevel, LogSource, MetricKind, Placement, PluginSink, StageTiming};
pub use value::{Call, FieldError, Header, Inference, Parameter, ParameterValue, Prepared, Response};
