//! What requests see of a model: its signature, without the inputs that the server fills in or generates, and with the
//! shapes that requests bring and get; and how batches of the model are made of requests.

use std::sync::Arc;

use model::{Assembly, LoadError, ModelConfig, OptionalInputs, Signature};

/// The signature to serve, and how batches are put together where that is more than rows one behind the other.
///
/// # Errors
/// [`LoadError::Mismatch`] with everything in the configuration that does not fit the model.
pub(crate) fn served(config: &ModelConfig, model: &Signature) -> Result<(Signature, Option<Assembly>), LoadError> {
    let problems = |texts: Vec<String>| LoadError::Mismatch { problems: texts, file: None };
    let name = &config.name;
    if !config.padding.is_empty() {
        let resolved = config.padding.resolve(model, config.max_batch_size);
        let (signature, padding) = resolved.map_err(|errors| {
            problems(errors.iter().map(|error| format!("model '{name}', parameter {error}")).collect())
        })?;
        return Ok((signature, Some(Assembly::Padded(Arc::new(padding)))));
    }
    if !config.ragged.is_empty() {
        let resolved = config.ragged.resolve(config, model);
        let (signature, ragged) = resolved
            .map_err(|errors| problems(errors.iter().map(|error| format!("model '{name}', {error}")).collect()))?;
        return Ok((signature, Some(Assembly::Ragged(Arc::new(ragged)))));
    }
    let optional = OptionalInputs::of(model).map(|optional| Assembly::Optional(Arc::new(optional)));
    Ok((model.clone(), optional))
}
