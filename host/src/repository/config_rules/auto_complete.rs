//! What a configuration leaves to the ONNX file, filled in once the file's signature is known.

use model::{ModelConfig, ModelName, Signature, TensorSpec};

/// The batch size of a model that can batch and declares nothing (Triton's `default-max-batch-size`).
const DEFAULT_MAX_BATCH_SIZE: u32 = 4;

/// A configuration and an ONNX file that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AutoCompleteError {
    /// The file has no free first dimension to batch along. The text is Triton's.
    #[error(
        "autofill failed for model '{model}': model does not support batching while non-zero max_batch_size is specified"
    )]
    NotBatchable {
        /// The model.
        model: ModelName,
    },
}

/// Completes `config` from the file's `signature`. A file batches where every input and output has a free first
/// dimension; such a model gets `max_batch_size` 4 if its configuration declares no batch size, no input and no output.
/// Declared tensors are left to the engine's own checks.
///
/// # Errors
/// [`AutoCompleteError::NotBatchable`] where nothing is declared but a batch size the file cannot serve.
pub(crate) fn auto_complete(config: &mut ModelConfig, signature: &Signature) -> Result<(), AutoCompleteError> {
    if !config.inputs.is_empty() || !config.outputs.is_empty() {
        return Ok(());
    }
    let batches = |specs: &[TensorSpec]| !specs.is_empty() && specs.iter().all(|spec| spec.shape.first() == Some(&-1));
    let can_batch = batches(&signature.inputs) && batches(&signature.outputs);
    match (can_batch, config.max_batch_size) {
        (true, 0) => config.max_batch_size = DEFAULT_MAX_BATCH_SIZE,
        (false, 1..) => return Err(AutoCompleteError::NotBatchable { model: config.name.clone() }),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DataType, TensorConfig};

    fn check(declared: (u32, bool), shapes: [&[i64]; 2], expected: Result<u32, &str>) {
        let mut config = ModelConfig::named(ModelName::new("m").expect("a name"));
        config.max_batch_size = declared.0;
        if declared.1 {
            config.inputs = vec![TensorConfig { name: "x".into(), data_type: DataType::Fp32, dims: vec![2] }];
        }
        let spec = |shape: &[i64]| TensorSpec { name: "x".into(), data_type: DataType::Fp32, shape: shape.to_vec() };
        let signature = Signature { inputs: vec![spec(shapes[0])], outputs: vec![spec(shapes[1])] };
        let result = auto_complete(&mut config, &signature).map(|()| config.max_batch_size);
        assert_eq!(result.map_err(|e| e.to_string()), expected.map_err(str::to_owned), "{declared:?} {shapes:?}");
    }

    #[test]
    fn batching_is_found_in_the_file_where_nothing_is_declared() {
        const REFUSED: &str =
            "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified";
        check((0, false), [&[-1, 2], &[-1]], Ok(4));
        check((16, false), [&[-1, 2], &[-1]], Ok(16));
        check((0, true), [&[-1, 2], &[-1]], Ok(0));
        for fixed in [[&[1, 2][..], &[-1]], [&[-1, 2], &[1]], [&[], &[-1]], [&[-1], &[]]] {
            check((0, false), fixed, Ok(0));
            check((8, false), fixed, Err(REFUSED));
            check((8, true), fixed, Ok(8));
        }
        let mut config = ModelConfig::named(ModelName::new("m").expect("a name"));
        assert_eq!(auto_complete(&mut config, &Signature::default()), Ok(()));
        assert_eq!(config.max_batch_size, 0, "nothing to batch along");
    }
}
