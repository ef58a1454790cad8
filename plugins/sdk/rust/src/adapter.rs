//! The trait a plugin implements, and the glue between it and the component's exports.

use std::marker::PhantomData;

use crate::bindings::exports::airlock::plugin::adapter::Guest;
use crate::{Call, PluginError, Prepared, Request, Response, Tensor, log};

/// The two ends around one model.
///
/// Both calls of a request run in the same generation of the plugin, but perhaps in different instances: hand what
/// `postprocess` must know over in `Inference::carry`, never in a static.
pub trait Adapter {
    /// Turns a business request into the model's inputs, or answers it at once.
    ///
    /// # Errors
    /// Whatever keeps the request from being answered; the variant says whose fault it is.
    fn preprocess(request: Request) -> Result<Prepared, PluginError>;

    /// Turns the model's outputs into the business answer. `outputs` are in the order asked for, `carry` is what
    /// `preprocess` left in its inference.
    ///
    /// # Errors
    /// Whatever keeps the request from being answered; the variant says whose fault it is.
    fn postprocess(call: Call, outputs: Vec<Tensor>, carry: Vec<u8>) -> Result<Response, PluginError>;
}

/// The component's exports for a plugin type; named by [`crate::export!`] only.
#[derive(Debug)]
pub struct Export<A>(PhantomData<A>);

impl<A: Adapter> Guest for Export<A> {
    fn preprocess(request: Request) -> Result<Prepared, PluginError> {
        log::report_panics();
        A::preprocess(request)
    }

    fn postprocess(call: Call, outputs: Vec<Tensor>, carry: Vec<u8>) -> Result<Response, PluginError> {
        log::report_panics();
        A::postprocess(call, outputs, carry)
    }
}

/// Makes the crate a component of kind `adapter` around a type that implements [`Adapter`]. Once per crate.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, missing_docs)]
        mod airlock_plugin_export {
            #[allow(unused_imports)]
            use super::*;
            type Exported = $crate::Export<$plugin>;
            $crate::bindings::export_adapter!(Exported with_types_in $crate::bindings);
        }
        // On other targets nothing is exported; the type is still checked.
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn($crate::Request) -> ::core::result::Result<$crate::Prepared, $crate::PluginError> =
            <$plugin as $crate::Adapter>::preprocess;
    };
}
