//! What a configuration would have to declare for its model file to load: the declared batch size and tensors, with as
//! little changed as the file asks for. Pure.

use crate::{AutoComplete, FileTensors, ModelConfig, TensorConfig, TensorSpec};

/// The part of a configuration that a model file decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Most rows of one batch; 0 where the file cannot batch.
    pub max_batch_size: u32,
    /// The inputs, in the file's order.
    pub inputs: Vec<TensorConfig>,
    /// The outputs that are served, in the file's order.
    pub outputs: Vec<TensorConfig>,
}

impl ModelConfig {
    /// The declaration nearest to this configuration's that agrees with `file`. Declared dims stay where they fit, the
    /// batch size stays where the file can batch, inputs with values in the file stay where they are declared as optional,
    /// and outputs that were not declared stay so unless none of the declared ones exists. A side that the file does not tell stays as it is declared.
    #[must_use]
    pub fn fitted(&self, file: &FileTensors) -> Declaration {
        let optional = file.optional.iter().filter(|spec| self.optional_inputs.contains(&spec.name));
        let inputs = file.inputs.as_ref().map(|specs| specs.iter().chain(optional).collect::<Vec<_>>());
        let outputs = file.outputs.as_ref().map(|specs| served(&self.outputs, specs));
        let can_batch = [&inputs, &outputs].into_iter().flatten().all(|specs| batch(specs));
        let max_batch_size = match can_batch {
            true if self.lacks_batch_size(&inputs, &outputs) => self.default_batch_size(),
            true => self.completed_batch_size(file),
            false => 0,
        };
        let batch_dims = usize::from(max_batch_size > 0);
        let fit = |declared: &[TensorConfig], specs: Option<Vec<&TensorSpec>>| match specs {
            None => declared.to_vec(),
            Some(specs) => specs.into_iter().map(|spec| fitted_tensor(declared, spec, batch_dims)).collect(),
        };
        Declaration { max_batch_size, inputs: fit(&self.inputs, inputs), outputs: fit(&self.outputs, outputs) }
    }

    /// Whether every dims declared is right but for the batch size that should go with them.
    fn lacks_batch_size(&self, inputs: &Option<Vec<&TensorSpec>>, outputs: &Option<Vec<&TensorSpec>>) -> bool {
        let sides = [(&self.inputs, inputs), (&self.outputs, outputs)];
        let declared = || {
            let pairs = sides.iter().flat_map(|(declared, specs)| declared.iter().map(move |tensor| (tensor, *specs)));
            pairs.filter_map(|(tensor, specs)| {
                let spec = specs.iter().flatten().find(|spec| spec.name == tensor.name)?;
                Some((tensor, &spec.shape[..]))
            })
        };
        let fits_rows = |(tensor, shape): (&TensorConfig, &[i64])| fits(tensor, shape.get(1..).unwrap_or_default(), 1);
        self.max_batch_size == 0
            && declared().all(fits_rows)
            && declared().any(|(tensor, shape)| !fits(tensor, shape, 0))
    }

    fn default_batch_size(&self) -> u32 {
        match self.auto_complete {
            AutoComplete::On { default_max_batch_size: size @ 1.. } => size,
            _ => AutoComplete::DEFAULT_MAX_BATCH_SIZE,
        }
    }

    /// The batch size once the configuration is completed; the declared one where it cannot be.
    fn completed_batch_size(&self, file: &FileTensors) -> u32 {
        let mut completed = self.clone();
        completed.complete(file).map_or(self.max_batch_size, |()| completed.max_batch_size)
    }
}

/// The outputs of the file that the configuration asks for: the declared ones, or all where it declares none that exist.
fn served<'s>(declared: &[TensorConfig], specs: &'s [TensorSpec]) -> Vec<&'s TensorSpec> {
    let is_declared = |spec: &&TensorSpec| declared.iter().any(|tensor| tensor.name == spec.name);
    let chosen: Vec<_> = specs.iter().filter(is_declared).collect();
    if chosen.is_empty() { specs.iter().collect() } else { chosen }
}

fn batch(specs: &[&TensorSpec]) -> bool {
    !specs.is_empty() && specs.iter().all(|spec| spec.shape.first() == Some(&-1))
}

fn fitted_tensor(declared: &[TensorConfig], spec: &TensorSpec, batch_dims: usize) -> TensorConfig {
    let dims = spec.shape.get(batch_dims..).unwrap_or_default();
    let keeps = |tensor: &&TensorConfig| tensor.name == spec.name && fits(tensor, dims, batch_dims);
    match declared.iter().find(keeps) {
        Some(tensor) => TensorConfig { data_type: spec.data_type, ..tensor.clone() },
        None => TensorConfig::of_file(spec, batch_dims),
    }
}

/// Whether declared dims agree with `dims`, the file's without the batch dimension.
fn fits(tensor: &TensorConfig, dims: &[i64], batch_dims: usize) -> bool {
    if dims.is_empty() && batch_dims == 0 {
        return tensor.reshape.is_none() && tensor.dims.iter().all(|&dim| dim == 1);
    }
    let declared = tensor.model_dims();
    declared.len() == dims.len() && dims.iter().zip(declared).all(|(&file, &own)| file == -1 || file == own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, ModelName};

    fn spec(name: &str, data_type: DataType, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), data_type, shape: shape.to_vec() }
    }

    fn tensor(name: &str, data_type: DataType, dims: &[i64]) -> TensorConfig {
        TensorConfig { name: name.into(), data_type, dims: dims.to_vec(), reshape: None }
    }

    fn config(max_batch_size: u32, inputs: Vec<TensorConfig>, outputs: Vec<TensorConfig>) -> ModelConfig {
        let name = ModelName::new("m").expect("a name");
        ModelConfig { max_batch_size, inputs, outputs, ..ModelConfig::named(name) }
    }

    /// Input x `[-1, 3, -1]` FP32; outputs y `[-1, 2]` FP32 and z `[-1]` INT64.
    fn file() -> FileTensors {
        FileTensors {
            inputs: Some(vec![spec("x", DataType::Fp32, &[-1, 3, -1])]),
            optional: Vec::new(),
            outputs: Some(vec![spec("y", DataType::Fp32, &[-1, 2]), spec("z", DataType::Int64, &[-1])]),
        }
    }

    #[test]
    fn what_fits_stays_and_what_does_not_becomes_the_files() {
        let strict = tensor("x", DataType::Fp32, &[3, 7]);
        let fitted = config(8, vec![strict.clone()], vec![tensor("y", DataType::Fp64, &[2])]).fitted(&file());
        assert_eq!((fitted.max_batch_size, &fitted.inputs[..]), (8, &[strict][..]));
        assert_eq!(fitted.outputs, [tensor("y", DataType::Fp32, &[2])], "the type is the file's, z stays undeclared");

        let repeated = config(8, vec![tensor("x", DataType::Fp32, &[-1, 3, -1])], vec![]).fitted(&file());
        assert_eq!(repeated.inputs, [tensor("x", DataType::Fp32, &[3, -1])]);
        let one_element = TensorConfig { reshape: Some(vec![]), ..tensor("z", DataType::Int64, &[1]) };
        assert_eq!(repeated.outputs, [tensor("y", DataType::Fp32, &[2]), one_element]);

        let misnamed = config(0, vec![tensor("a", DataType::Fp32, &[3, 7])], vec![tensor("b", DataType::Fp32, &[2])]);
        let fitted = misnamed.fitted(&file());
        assert_eq!(fitted.inputs, [tensor("x", DataType::Fp32, &[-1, 3, -1])]);
        assert_eq!(fitted.outputs.len(), 2, "all, since none of the declared ones exists");
    }

    #[test]
    fn the_batch_size_is_what_completion_would_make_it_or_0() {
        let fixed = FileTensors { inputs: Some(vec![spec("x", DataType::Fp32, &[1, 3])]), ..file() };
        let fitted = config(8, vec![tensor("x", DataType::Fp32, &[3])], vec![]).fitted(&fixed);
        assert_eq!((fitted.max_batch_size, fitted.inputs), (0, vec![tensor("x", DataType::Fp32, &[1, 3])]));
        assert_eq!(config(0, vec![tensor("x", DataType::Fp32, &[3])], vec![]).fitted(&file()).max_batch_size, 4);
        let both = config(0, vec![tensor("x", DataType::Fp32, &[3])], vec![tensor("y", DataType::Fp32, &[2])]);
        assert_eq!(both.fitted(&file()).max_batch_size, 0, "declared whole, it is not completed");
        let rows = config(0, vec![tensor("x", DataType::Fp32, &[3, 7])], vec![tensor("y", DataType::Fp64, &[2])]);
        let fitted = rows.fitted(&file());
        assert_eq!((fitted.max_batch_size, fitted.inputs), (4, rows.inputs), "dims that are right for rows");
    }

    #[test]
    fn inputs_with_values_in_the_file_stay_where_they_are_declared_as_optional() {
        let fixed = |name| spec(name, DataType::Fp32, &[2]);
        let file = FileTensors {
            inputs: Some(vec![fixed("x")]),
            optional: vec![fixed("scale"), fixed("bias")],
            outputs: Some(vec![fixed("y")]),
        };
        let dims = |name, dims: &[i64]| tensor(name, DataType::Fp32, dims);
        let mut config = config(0, vec![dims("scale", &[3]), dims("bias", &[2]), dims("x", &[2])], vec![]);
        config.optional_inputs.insert("scale".into());
        assert_eq!(config.fitted(&file).inputs, [dims("x", &[2]), dims("scale", &[2])]);
    }

    #[test]
    fn scalars_are_one_element_and_sides_that_are_not_told_stay() {
        let file = FileTensors { inputs: Some(vec![spec("x", DataType::Fp32, &[])]), ..FileTensors::default() };
        let output = tensor("y", DataType::Fp32, &[9]);
        let fitted = config(0, vec![tensor("x", DataType::Fp32, &[2])], vec![output.clone()]).fitted(&file);
        assert_eq!((fitted.inputs, fitted.outputs), (vec![tensor("x", DataType::Fp32, &[1])], vec![output]));
    }
}
