//! The signature of the model version that this request goes to.

use crate::{TensorSpec, host};

/// The model's inputs.
#[must_use]
pub fn inputs() -> Vec<TensorSpec> {
    host::model_info::inputs()
}

/// The model's outputs.
#[must_use]
pub fn outputs() -> Vec<TensorSpec> {
    host::model_info::outputs()
}
