//! What a configuration leaves to the model file, filled in once the file is open: Triton's auto-completion, without its
//! second session. Pure; the file's tensors come in as far as they can be served.

use crate::{ModelConfig, ModelName, TensorConfig, TensorSpec};

/// Whether a configuration that says too little is completed from the model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoComplete {
    /// It is. A model that can batch and declares no batch size gets this one; 0 leaves it without.
    On {
        /// The batch size.
        default_max_batch_size: u32,
    },
    /// It stays as it is.
    Off,
}

impl AutoComplete {
    /// Triton's default batch size for models that can batch.
    pub const DEFAULT_MAX_BATCH_SIZE: u32 = 4;
}

impl Default for AutoComplete {
    fn default() -> Self {
        Self::On { default_max_batch_size: Self::DEFAULT_MAX_BATCH_SIZE }
    }
}

/// The inputs and outputs of a model file with the shapes it has; `None` for a side of which some tensor has no known
/// number of dimensions, or is none that a request can carry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileTensors {
    /// The inputs, in the file's order.
    pub inputs: Option<Vec<TensorSpec>>,
    /// The inputs that have values in the file and that a request can carry, in the file's order.
    pub optional: Vec<TensorSpec>,
    /// The outputs, in the file's order.
    pub outputs: Option<Vec<TensorSpec>>,
}

/// A configuration and a model file that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AutoCompleteError {
    /// The file has no free first dimension to batch along. The text is Triton's.
    #[error(
        "autofill failed for model '{model}': model does not support batching while non-zero max_batch_size is specified"
    )]
    NotBatchable {
        /// The model.
        model: ModelName,
    },
}

impl ModelConfig {
    /// Completes the configuration from the file's tensors, unless it declares both an input and an output or completion
    /// is off. A file can batch where every input and output has a free first dimension. Each side that declares nothing
    /// is filled; what batching leaves without a dimension is served as one element, as Triton does it.
    ///
    /// # Errors
    /// [`AutoCompleteError::NotBatchable`] where `max_batch_size` is set and the file cannot batch.
    pub fn complete(&mut self, file: &FileTensors) -> Result<(), AutoCompleteError> {
        let AutoComplete::On { default_max_batch_size } = self.auto_complete else { return Ok(()) };
        if !self.inputs.is_empty() && !self.outputs.is_empty() {
            return Ok(());
        }
        if let (Some(inputs), Some(outputs)) = (&file.inputs, &file.outputs) {
            let can_batch = batches(inputs) && batches(outputs);
            match (can_batch, self.max_batch_size) {
                (true, 0) => {
                    self.max_batch_size = default_max_batch_size;
                    self.batching.is_dynamic |= default_max_batch_size > 1;
                }
                (true, 2..) => self.batching.is_dynamic = true,
                (false, 1..) => return Err(AutoCompleteError::NotBatchable { model: self.name.clone() }),
                _ => {}
            }
        }
        let batch_dims = usize::from(self.max_batch_size > 0);
        let fill = |declared: &mut Vec<TensorConfig>, specs: &Option<Vec<TensorSpec>>| {
            if let (true, Some(specs)) = (declared.is_empty(), specs) {
                declared.extend(specs.iter().map(|spec| TensorConfig::of_file(spec, batch_dims)));
            }
        };
        fill(&mut self.inputs, &file.inputs);
        fill(&mut self.outputs, &file.outputs);
        Ok(())
    }
}

fn batches(specs: &[TensorSpec]) -> bool {
    !specs.is_empty() && specs.iter().all(|spec| spec.shape.first() == Some(&-1))
}

impl TensorConfig {
    /// What somebody who knows the file would declare, its first `batch_dims` dimensions left out.
    pub(crate) fn of_file(spec: &TensorSpec, batch_dims: usize) -> Self {
        let dims = spec.shape.get(batch_dims..).unwrap_or_default().to_vec();
        let (name, data_type) = (spec.name.clone(), spec.data_type);
        if !dims.is_empty() {
            return Self { name, data_type, dims, reshape: None };
        }
        // A scalar is served as one element without a word about it.
        let reshape = (batch_dims > 0).then(Vec::new);
        Self { name, data_type, dims: vec![1], reshape }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;

    fn specs(shapes: &[&[i64]]) -> Option<Vec<TensorSpec>> {
        let spec = |shape: &&[i64]| TensorSpec { name: "x".into(), data_type: DataType::Fp32, shape: shape.to_vec() };
        Some(shapes.iter().map(spec).collect())
    }

    fn declared(dims: &[i64], reshape: Option<&[i64]>) -> TensorConfig {
        let reshape = reshape.map(<[i64]>::to_vec);
        TensorConfig { name: "x".into(), data_type: DataType::Fp32, dims: dims.to_vec(), reshape }
    }

    fn completed(max_batch_size: u32, file: &FileTensors) -> Result<ModelConfig, String> {
        let name = ModelName::new("m").expect("a name");
        let mut config = ModelConfig { max_batch_size, ..ModelConfig::named(name) };
        config.complete(file).map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_file_that_can_batch_batches() {
        const REFUSED: &str =
            "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified";
        /// Batch size declared, shapes of the input and the output; batch size and whether requests are gathered.
        type Case = (u32, &'static [i64], &'static [i64], Result<(u32, bool), &'static str>);
        let cases: [Case; 8] = [
            (0, &[-1, 2], &[-1, 1], Ok((4, true))),
            (1, &[-1, 2], &[-1, 1], Ok((1, false))),
            (16, &[-1, 2], &[-1], Ok((16, true))),
            (0, &[1, 2], &[-1], Ok((0, false))),
            (0, &[], &[-1], Ok((0, false))),
            (8, &[1, 2], &[-1], Err(REFUSED)),
            (8, &[-1, 2], &[1], Err(REFUSED)),
            (8, &[-1], &[], Err(REFUSED)),
        ];
        for (max, input, output, expected) in cases {
            let file = FileTensors { inputs: specs(&[input]), outputs: specs(&[output]), ..FileTensors::default() };
            let got = completed(max, &file).map(|config| (config.max_batch_size, config.batching.is_dynamic));
            assert_eq!(got, expected.map_err(str::to_owned), "{max} {input:?} {output:?}");
        }
    }

    #[test]
    fn the_missing_side_is_filled_without_the_batch_dimension() {
        let file = FileTensors { inputs: specs(&[&[-1, 3, -1]]), outputs: specs(&[&[-1]]), ..FileTensors::default() };
        let config = completed(8, &file).expect("can batch");
        assert_eq!(config.inputs, [declared(&[3, -1], None)]);
        assert_eq!(config.outputs, [declared(&[1], Some(&[]))], "one element where nothing but the batch is left");
        let scalar = FileTensors { inputs: specs(&[&[2, 3]]), outputs: specs(&[&[]]), ..FileTensors::default() };
        let config = completed(0, &scalar).expect("without batching");
        assert_eq!((config.inputs, config.outputs), (vec![declared(&[2, 3], None)], vec![declared(&[1], None)]));
    }

    #[test]
    fn what_is_declared_stays() {
        let file = FileTensors { inputs: specs(&[&[-1, 2]]), outputs: specs(&[&[-1, 1]]), ..FileTensors::default() };
        let name = ModelName::new("m").expect("a name");
        let own = declared(&[7], None);
        let mut config = ModelConfig { inputs: vec![own.clone()], ..ModelConfig::named(name) };
        config.complete(&file).expect("can batch");
        assert_eq!((config.max_batch_size, &config.inputs[..]), (4, std::slice::from_ref(&own)));
        assert_eq!(config.outputs, [declared(&[1], None)]);

        let both = ModelConfig { max_batch_size: 0, ..config.clone() };
        let mut again = both.clone();
        again.complete(&file).expect("nothing to do");
        assert_eq!(again, both);
    }

    #[test]
    fn nothing_is_filled_where_completion_is_off_or_the_file_does_not_say() {
        let file = FileTensors { inputs: specs(&[&[-1, 2]]), ..FileTensors::default() };
        let config = completed(0, &file).expect("nothing contradicts");
        assert_eq!((config.max_batch_size, config.inputs.len(), config.outputs.len()), (0, 1, 0));
        let name = ModelName::new("m").expect("a name");
        let mut off = ModelConfig { auto_complete: AutoComplete::Off, ..ModelConfig::named(name) };
        let before = off.clone();
        off.complete(&FileTensors { outputs: specs(&[&[-1]]), ..file }).expect("nothing to do");
        assert_eq!(off, before);
    }
}
