//! The host's interfaces: the component's imports, or their doubles where the crate is built for another target.

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::airlock::plugin::{config, key_value, log, metrics, model_info};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::doubles::{config, key_value, log, metrics, model_info};
