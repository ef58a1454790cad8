//! The one place that trusts native code: compiled components that this process, or an earlier one with the same rights,
//! wrote into its own cache.
#![allow(unsafe_code)]

use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// Makes a component of bytes that [`super::ArtifactCache`] has read and verified.
///
/// # Errors
/// Where the bytes are of another wasmtime, another configuration or another machine.
pub(super) fn component(engine: &Engine, verified: &[u8]) -> Result<Component> {
    // SAFETY: the bytes must be what `Component::serialize` once gave. They come from a file in our cache folder (mode
    // 0700, outside every watched tree, never filled from an upload), whose digest over the whole content was just
    // compared with the one written beside it, so they are what this program wrote. They lie in our memory, so nobody can
    // change them after the check. wasmtime itself refuses bytes of another version, configuration or machine.
    unsafe { Component::deserialize(engine, verified) }
}
