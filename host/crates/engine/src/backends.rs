//! One loader for every backend: the configuration says which one a model is of.

use model::{Backend, LoadError, LoadRequest, LoadedModel, ModelLoader};

use crate::identity::IdentityLoader;
use crate::loader::OrtLoader;

/// Loads models of every backend.
#[derive(Clone, Debug)]
pub struct Backends {
    onnxruntime: OrtLoader,
    identity: IdentityLoader,
}

impl Backends {
    /// The built-in backends, with this loader for ONNX models.
    #[must_use]
    pub fn new(onnxruntime: OrtLoader) -> Self {
        Self { onnxruntime, identity: IdentityLoader }
    }
}

impl ModelLoader for Backends {
    fn load(&self, request: &LoadRequest<'_>) -> Result<LoadedModel, LoadError> {
        match request.config.backend {
            Backend::OnnxRuntime => self.onnxruntime.load(request),
            Backend::Identity => self.identity.load(request),
        }
    }
}
