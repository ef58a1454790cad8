//! Write Airlock plugins in Rust.
//!
//! A plugin of kind `adapter` is a type that implements [`Adapter`], named once in [`export!`]. The crate also builds
//! for the machine you develop on, where everything the host would provide is played by [`testing`]: `cargo test` runs
//! a plugin's logic without a host. What always holds: a plugin keeps nothing of a request after a call (what
//! `postprocess` must know travels in `carry`), and every error says whose fault it is ([`PluginError`]).
//!
//! ```
//! use airlock_plugin::{Adapter, Call, Inference, PluginError, Prepared, Request, Response, Tensor, json, output};
//!
//! struct Doubler;
//!
//! impl Adapter for Doubler {
//!     fn preprocess(request: Request) -> Result<Prepared, PluginError> {
//!         request.call.expect_json()?;
//!         let x: [f32; 4] = json::parse(&request.body)?;
//!         Ok(Inference::new([Tensor::fp32("x", [1, 4], &x)]).into())
//!     }
//!
//!     fn postprocess(_call: Call, outputs: Vec<Tensor>, _carry: Vec<u8>) -> Result<Response, PluginError> {
//!         Response::json(&output(&outputs, "y")?.as_fp32()?.to_vec())
//!     }
//! }
//!
//! airlock_plugin::export!(Doubler);
//! ```

mod adapter;
#[doc(hidden)]
pub mod bindings;
mod bytes_tensor;
pub mod config;
mod errors;
mod fields;
mod host;
mod inference;
pub mod json;
pub mod key_value;
pub mod log;
pub mod metrics;
pub mod model_info;
mod per_instance;
mod request;
mod response;
mod tensor;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use adapter::Adapter;
#[doc(hidden)]
pub use adapter::Export;
pub use fields::{FIELD_ERRORS_MAX, Fields};
pub use inference::output;
pub use per_instance::PerInstance;
pub use tensor::{Element, Elements};

pub use half::{bf16, f16};

pub use bindings::airlock::plugin::types::{
    Call, DataType, FieldError, Header, Parameter, ParameterValue, PluginError, Request, Response, Tensor, TensorSpec,
    Unavailability,
};
pub use bindings::exports::airlock::plugin::adapter::{Inference, Prepared};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
