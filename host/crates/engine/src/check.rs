//! The check of a model file against its configuration, which yields the signature to serve. Pure; the texts are
//! Triton's (its ONNX Runtime backend's load-time checks) wherever it has one. Every disagreement is gathered.

use std::sync::Arc;

use model::{DataType, LoadError, ModelConfig, Signature, TensorConfig, TensorSpec, display_shape};

mod ragged;

use crate::file::{FileSignature, FileTensor, FileTensorKind};
use crate::raw::Side;
use crate::reshape::Reshape;

/// What a version serves: the signature, and for each of its tensors how the file has it where that differs.
#[derive(Debug, PartialEq)]
pub(crate) struct Served {
    pub(crate) signature: Signature,
    pub(crate) input_reshapes: Vec<Option<Reshape>>,
    pub(crate) output_reshapes: Vec<Option<Reshape>>,
    /// By output: whether it has a row for each row of a batch.
    pub(crate) outputs_have_rows: Vec<bool>,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// Checks `file` against `config`. Every input is served that the file needs, then those with values in the file that the
/// configuration declares as optional, and of the outputs those that it declares, or all where it declares none; all in
/// the file's order. A declared shape is the one served, since it may be stricter.
///
/// # Errors
/// [`LoadError::Mismatch`] with every disagreement, or [`LoadError::Unsupported`] for what v2 cannot carry.
pub(crate) fn check(config: &ModelConfig, file: &FileSignature) -> Result<Served, LoadError> {
    refuse_batches_of_optional_inputs(config)?;
    let mut problems = Vec::new();
    count_inputs(config, file, &mut problems);
    let candidates: Vec<&FileTensor> = file.inputs.iter().chain(&file.optional).collect();
    let inputs = Declared { config, side: Side::Input, tensors: &config.inputs, file: candidates };
    let outputs =
        Declared { config, side: Side::Output, tensors: &config.outputs, file: file.outputs.iter().collect() };
    let served_outputs: Vec<&FileTensor> = file.outputs.iter().filter(|tensor| outputs.serves(tensor)).collect();
    let optional: Vec<_> =
        file.optional.iter().filter(|tensor| config.optional_inputs.contains(&tensor.name)).collect();
    let served_inputs: Vec<&FileTensor> = file.inputs.iter().chain(optional.iter().copied()).collect();
    refuse_unsupported(config, &served_inputs, &served_outputs)?;

    inputs.check_generated(&mut problems);
    let input_specs = inputs.specs(&served_inputs, &mut problems);
    let output_specs = outputs.specs(&served_outputs, &mut problems);
    if !problems.is_empty() {
        // No declaration of tensors alone makes a ragged batch right.
        let file = config.ragged.is_empty().then(|| Box::new(file.tensors()));
        return Err(LoadError::Mismatch { problems, file });
    }
    Ok(Served {
        outputs_have_rows: output_specs.iter().map(|spec| !config.ragged.scattered.contains_key(&spec.name)).collect(),
        signature: Signature { inputs: input_specs, optional_inputs: optional.len(), outputs: output_specs },
        input_reshapes: served_inputs.into_iter().map(|tensor| inputs.reshape(tensor)).collect(),
        output_reshapes: served_outputs.into_iter().map(|tensor| outputs.reshape(tensor)).collect(),
    })
}

fn count_inputs(config: &ModelConfig, file: &FileSignature, problems: &mut Vec<String>) {
    let is_required = |tensor: &&TensorConfig| !config.optional_inputs.contains(&tensor.name);
    let declared = config.inputs.iter().filter(is_required).count();
    let (expected, provided) = (declared + config.ragged.generated.len(), file.inputs.len());
    if !config.inputs.is_empty() && expected != provided {
        problems.push(format!(
            "unable to load model '{}', configuration expects {expected} inputs, model provides {provided}",
            config.name
        ));
    }
}

/// Optional inputs of a model that batches, which only completion from the file can have made it do by now. What else
/// differs then follows from that.
fn refuse_batches_of_optional_inputs(config: &ModelConfig) -> Result<(), LoadError> {
    if config.max_batch_size == 0 || config.optional_inputs.is_empty() {
        return Ok(());
    }
    let told = |name: &Arc<str>| {
        format!(
            "unable to load model '{}', optional input '{name}' is not supported for models that support batching; declare \
             inputs and outputs, so that no max_batch_size is filled in",
            config.name
        )
    };
    Err(LoadError::Mismatch { problems: config.optional_inputs.iter().map(told).collect(), file: None })
}

/// All that v2 cannot carry among what would be served.
fn refuse_unsupported(config: &ModelConfig, inputs: &[&FileTensor], outputs: &[&FileTensor]) -> Result<(), LoadError> {
    let sides = [(Side::Input, inputs), (Side::Output, outputs)];
    let texts: Vec<String> = sides
        .iter()
        .flat_map(|(side, tensors)| tensors.iter().map(move |tensor| (*side, *tensor)))
        .filter_map(|(side, tensor)| match &tensor.kind {
            FileTensorKind::Tensor { .. } => None,
            FileTensorKind::Unsupported { what, advice } => Some(unsupported_text(config, side, tensor, what, advice)),
        })
        .collect();
    if texts.is_empty() { Ok(()) } else { Err(LoadError::Unsupported(texts.join("; "))) }
}

fn unsupported_text(config: &ModelConfig, side: Side, tensor: &FileTensor, what: &str, advice: &str) -> String {
    let (model, word, name) = (&config.name, side.word(), &tensor.name);
    let narrow = match side {
        Side::Input => "",
        Side::Output => ", or declare only the other outputs in config.pbtxt",
    };
    format!(
        "unable to load model '{model}', its {word} '{name}' is {what}, which no request can carry: {advice}{narrow}"
    )
}

fn is_scalar(tensor: &FileTensor) -> bool {
    matches!(&tensor.kind, FileTensorKind::Tensor { shape: Some(shape), .. } if shape.is_empty())
}

/// One side of the configuration beside the same side of the file.
struct Declared<'a> {
    config: &'a ModelConfig,
    side: Side,
    tensors: &'a [TensorConfig],
    file: Vec<&'a FileTensor>,
}

impl Declared<'_> {
    fn declaration(&self, name: &str) -> Option<&TensorConfig> {
        self.tensors.iter().find(|tensor| &*tensor.name == name)
    }

    /// How the file has a tensor that is served with other dimensions.
    fn reshape(&self, tensor: &FileTensor) -> Option<Reshape> {
        let declared = self.declaration(&tensor.name);
        let batches = self.batches();
        if is_scalar(tensor) {
            let served = declared.map_or_else(|| vec![1], |declared| declared.dims.clone());
            return Some(Reshape { served, model: Vec::new(), batches });
        }
        let declared = declared?;
        let model = declared.reshape.clone().filter(|model| *model != declared.dims)?;
        Some(Reshape { served: declared.dims.clone(), model, batches })
    }

    fn serves(&self, tensor: &FileTensor) -> bool {
        self.tensors.is_empty() || self.declaration(&tensor.name).is_some()
    }

    /// The specs of `served`, the tensors of the file that are served; problems are added.
    fn specs(&self, served: &[&FileTensor], problems: &mut Vec<String>) -> Vec<TensorSpec> {
        self.check_names(problems);
        served.iter().filter_map(|tensor| self.spec(tensor, problems)).collect()
    }

    fn check_names(&self, problems: &mut Vec<String>) {
        let word = self.side.word();
        for (i, declared) in self.tensors.iter().enumerate() {
            let name = &declared.name;
            if self.tensors[..i].iter().any(|earlier| earlier.name == *name) {
                problems.push(format!("model '{}', {word} '{name}' is declared more than once", self.config.name));
            } else {
                problems.extend(self.unknown_problem(name));
            }
        }
    }

    fn unknown_problem(&self, name: &str) -> Option<String> {
        if self.file.iter().any(|tensor| *tensor.name == *name) {
            return None;
        }
        let (word, allowed) = (self.side.word(), self.file.iter().map(|tensor| &*tensor.name).collect::<Vec<_>>());
        Some(format!("unexpected inference {word} '{name}', allowed {word}s are: {}", allowed.join(", ")))
    }

    fn spec(&self, tensor: &FileTensor, problems: &mut Vec<String>) -> Option<TensorSpec> {
        let FileTensorKind::Tensor { data_type, shape } = &tensor.kind else { return None };
        let declared = self.declaration(&tensor.name);
        problems.extend(declared.and_then(|declared| self.type_problem(declared, *data_type)));
        if self.is_in_batch_only(&tensor.name) {
            return self.spec_in_batch(tensor, (*data_type, shape.as_deref()), problems);
        }
        if let Some(shape) = shape {
            problems.extend(self.batch_problem(&tensor.name, shape));
            problems.extend(declared.and_then(|declared| self.shape_problem(declared, shape)));
        }
        let shape = match (declared, shape) {
            (Some(declared), _) => self.full_shape(&declared.dims),
            // A scalar is served as one element.
            (None, Some(shape)) if shape.is_empty() => vec![1],
            (None, Some(shape)) => shape.clone(),
            (None, None) => {
                problems.push(self.unknown_rank_problem(&tensor.name));
                return None;
            }
        };
        Some(TensorSpec { name: Arc::clone(&tensor.name), data_type: *data_type, shape })
    }

    fn unknown_rank_problem(&self, name: &str) -> String {
        format!(
            "model '{}', {} '{name}': the model file does not say how many dimensions it has; declare its dims in \
             config.pbtxt, or export it with shapes",
            self.config.name,
            self.side.word()
        )
    }

    fn batches(&self) -> bool {
        self.config.max_batch_size > 0
    }

    fn full_shape(&self, dims: &[i64]) -> Vec<i64> {
        let batch = if self.batches() { &[-1][..] } else { &[] };
        batch.iter().chain(dims).copied().collect()
    }

    fn batch_problem(&self, name: &str, shape: &[i64]) -> Option<String> {
        (self.batches() && shape.first() != Some(&-1)).then(|| {
            format!(
                "model '{}', tensor '{name}': for the model to support batching the shape should have at least 1 dimension \
                 and the first dimension must be -1; but shape expected by the model is {}",
                self.config.name,
                display_shape(shape)
            )
        })
    }

    fn type_problem(&self, declared: &TensorConfig, provided: DataType) -> Option<String> {
        (declared.data_type != provided).then(|| {
            format!(
                "unable to load model '{}', configuration expects datatype {} for {} '{}', model provides {}",
                self.config.name,
                declared.data_type.config_name(),
                self.side.word(),
                declared.name,
                provided.config_name()
            )
        })
    }

    /// `shape` is the file's. Where the model batches, a first dimension that is wrong has been told already.
    fn shape_problem(&self, declared: &TensorConfig, shape: &[i64]) -> Option<String> {
        let (model, name) = (&self.config.name, &declared.name);
        if shape.is_empty() {
            let one_element = declared.dims.iter().all(|&dim| dim == 1);
            return (!self.batches() && !one_element).then(|| {
                format!(
                    "model '{model}', scalar tensor '{name}', should only provide 1 in the model configuration when the \
                     model doesn't support batching. Model configuration provided: {}",
                    display_shape(&declared.dims)
                )
            });
        }
        let model_dims = declared.model_dims();
        let full = self.full_shape(model_dims);
        let skipped = usize::from(self.batches());
        let fits = |(&expected, &given): (&i64, &i64)| expected == -1 || expected == given;
        if full.len() == shape.len() && shape.iter().zip(&full).skip(skipped).all(fits) {
            return None;
        }
        let (rank, shape) = (shape.len(), display_shape(shape));
        let (declared_rank, dims, full) = (model_dims.len(), display_shape(model_dims), display_shape(&full));
        let specified = if self.batches() {
            format!(
                "{} dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor \
                 shape, making complete shape {full})",
                declared_rank + 1
            )
        } else {
            format!("{declared_rank} dimensions (shape {dims})")
        };
        Some(format!(
            "model '{model}', tensor '{name}': the model expects {rank} dimensions (shape {shape}) but the model \
             configuration specifies {specified}"
        ))
    }
}

#[cfg(test)]
mod tests;
