//! What requests see of a model: its signature, without the inputs that the server fills in.

use std::sync::Arc;

use model::{LoadError, ModelConfig, Padding, Signature};

/// The signature to serve, and how batches of the model are made where the configuration pads.
///
/// # Errors
/// [`LoadError::Mismatch`] with every padding parameter that does not fit the model.
pub(crate) fn served(config: &ModelConfig, model: &Signature) -> Result<(Signature, Option<Arc<Padding>>), LoadError> {
    if config.padding.is_empty() {
        return Ok((model.clone(), None));
    }
    let resolved = config.padding.resolve(model, config.max_batch_size);
    let (signature, padding) = resolved.map_err(|errors| {
        let problems = errors.iter().map(|error| format!("model '{}', parameter {error}", config.name)).collect();
        LoadError::Mismatch { problems, file: None }
    })?;
    Ok((signature, Some(Arc::new(padding))))
}
