//! The engine: ONNX Runtime behind the traits of the `model` crate. This is the only crate that knows `ort`; nothing of
//! it shows in the public API. One library and one environment live for the whole process; a loaded version is one
//! session, so its weights are in memory once, shared by all of its instances; each instance owns the memory of the
//! batch it is filling and is used by one thread at a time. Unsafe code is in `raw` only.
//!
//! From the start of a process: [`prepare_process`] before any thread exists, [`find_library`], [`OrtRuntime::init`],
//! then an [`OrtLoader`]. [`onnx_is_complete`] needs none of them.

mod accelerators;
mod backends;
mod check;
mod classifier;
mod completeness;
mod custom_ops;
mod element;
mod file;
mod identity;
mod instance;
mod library;
mod loader;
mod raw;
mod reshape;
mod runtime;
mod served;
mod session_options;
mod slot;
mod warmup;
mod wire;

pub use backends::Backends;
pub use completeness::{Completeness, ExternalFile, onnx_is_complete};
pub use identity::{IDENTITY_PROVIDER, IdentityLoader};
pub use library::{LibraryError, LibraryLocation, LibrarySource, find_library};
pub use loader::{CPU_PROVIDER, LoaderOptions, OrtLoader};
pub use raw::return_free_memory;
pub use runtime::{GlobalThreads, OrtRuntime, RuntimeOptions, prepare_process};
