//! What of a ragged batch the file decides: a ragged input is one dimension there, inputs that the server generates are
//! among the file's, and a scattered output may have any shape. The specs of these are the file's, which is what a batch
//! has; what requests have is another matter.

use std::sync::Arc;

use model::{DataType, TensorSpec, display_shape};

use super::Declared;
use crate::file::FileTensor;
use crate::raw::Side;

impl Declared<'_> {
    /// Whether a tensor has another shape in a batch than declared, or is not declared at all.
    pub(super) fn is_in_batch_only(&self, name: &Arc<str>) -> bool {
        let ragged = &self.config.ragged;
        match self.side {
            Side::Input => ragged.inputs.contains(name) || ragged.generated.contains_key(name),
            Side::Output => ragged.scattered.contains_key(name),
        }
    }

    /// The spec of such a tensor, whose `shape` is the file's; problems are added.
    pub(super) fn spec_in_batch(
        &self,
        tensor: &FileTensor,
        (data_type, shape): (DataType, Option<&[i64]>),
        problems: &mut Vec<String>,
    ) -> Option<TensorSpec> {
        let name = &tensor.name;
        if self.side == Side::Input && self.config.ragged.inputs.contains(name) && shape != Some(&[-1]) {
            problems.push(format!(
                "unable to load model '{}', configuration expects model provides input with shape [-1]  for ragged input \
                 '{name}', model provides {}",
                self.config.name,
                display_shape(shape.unwrap_or_default())
            ));
            return None;
        }
        let Some(shape) = shape else {
            problems.push(format!(
                "model '{}', {} '{name}': the model file does not say how many dimensions it has, which a ragged batch \
                 needs; export it with shapes",
                self.config.name,
                self.side.word()
            ));
            return None;
        };
        Some(TensorSpec { name: Arc::clone(name), data_type, shape: shape.to_vec() })
    }

    /// Inputs that the server generates and the file does not have.
    pub(super) fn check_generated(&self, problems: &mut Vec<String>) {
        problems.extend(self.config.ragged.generated.keys().filter_map(|name| self.unknown_problem(name)));
    }
}
