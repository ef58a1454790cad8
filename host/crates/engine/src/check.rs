//! The check of a model file against its configuration, which yields the signature to serve. Pure; the texts are
//! Triton's (its ONNX Runtime backend's load-time checks) wherever it has one. Every disagreement is gathered.

use std::sync::Arc;

use model::{DataType, LoadError, ModelConfig, Signature, TensorConfig, TensorSpec, display_shape};

use crate::file::{FileSignature, FileTensor, FileTensorKind};
use crate::raw::Side;
use crate::reshape::Reshape;

/// What a version serves: the signature, and for each of its tensors how the file has it where that differs.
#[derive(Debug, PartialEq)]
pub(crate) struct Served {
    pub(crate) signature: Signature,
    pub(crate) input_reshapes: Vec<Option<Reshape>>,
    pub(crate) output_reshapes: Vec<Option<Reshape>>,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// Checks `file` against `config`. Every input is served, and of the outputs those that the configuration declares, or
/// all where it declares none; both in the file's order. A declared shape is the one served, since it may be stricter.
///
/// # Errors
/// [`LoadError::Mismatch`] with every disagreement, or [`LoadError::Unsupported`] for what v2 cannot carry.
pub(crate) fn check(config: &ModelConfig, file: &FileSignature) -> Result<Served, LoadError> {
    let mut problems = Vec::new();
    count_inputs(config, file, &mut problems);
    let inputs = Declared { config, side: Side::Input, tensors: &config.inputs, file: &file.inputs };
    let outputs = Declared { config, side: Side::Output, tensors: &config.outputs, file: &file.outputs };
    let served_outputs: Vec<&FileTensor> = file.outputs.iter().filter(|tensor| outputs.serves(tensor)).collect();
    let served_inputs: Vec<&FileTensor> = file.inputs.iter().collect();
    refuse_unsupported(config, &served_inputs, &served_outputs)?;

    let input_specs = inputs.specs(&served_inputs, &mut problems);
    let output_specs = outputs.specs(&served_outputs, &mut problems);
    if !problems.is_empty() {
        return Err(LoadError::Mismatch { problems, file: Some(Box::new(file.tensors())) });
    }
    Ok(Served {
        signature: Signature { inputs: input_specs, outputs: output_specs },
        input_reshapes: served_inputs.into_iter().map(|tensor| inputs.reshape(tensor)).collect(),
        output_reshapes: served_outputs.into_iter().map(|tensor| outputs.reshape(tensor)).collect(),
    })
}

fn count_inputs(config: &ModelConfig, file: &FileSignature, problems: &mut Vec<String>) {
    let (expected, provided) = (config.inputs.len(), file.inputs.len());
    if expected != 0 && expected != provided {
        problems.push(format!(
            "unable to load model '{}', configuration expects {expected} inputs, model provides {provided}",
            config.name
        ));
    }
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
    file: &'a [FileTensor],
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
            } else if !self.file.iter().any(|tensor| tensor.name == *name) {
                let allowed: Vec<&str> = self.file.iter().map(|tensor| &*tensor.name).collect();
                problems
                    .push(format!("unexpected inference {word} '{name}', allowed {word}s are: {}", allowed.join(", ")));
            }
        }
    }

    fn spec(&self, tensor: &FileTensor, problems: &mut Vec<String>) -> Option<TensorSpec> {
        let FileTensorKind::Tensor { data_type, shape } = &tensor.kind else { return None };
        let declared = self.declaration(&tensor.name);
        problems.extend(declared.and_then(|declared| self.type_problem(declared, *data_type)));
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
mod tests {
    use model::ModelName;

    use super::*;

    fn file_tensor(name: &str, data_type: DataType, shape: &[i64]) -> FileTensor {
        FileTensor { name: name.into(), kind: FileTensorKind::Tensor { data_type, shape: Some(shape.to_vec()) } }
    }

    fn declared(name: &str, data_type: DataType, dims: &[i64]) -> TensorConfig {
        TensorConfig { name: name.into(), data_type, dims: dims.to_vec(), reshape: None }
    }

    fn config(max_batch_size: u32, inputs: Vec<TensorConfig>, outputs: Vec<TensorConfig>) -> ModelConfig {
        let name = ModelName::new("m").expect("a name");
        ModelConfig { max_batch_size, inputs, outputs, ..ModelConfig::named(name) }
    }

    /// Inputs a [-1,2] FP32 and b [-1,-1] INT64; outputs y [-1,1] FP32 and z [-1] BYTES.
    fn file() -> FileSignature {
        FileSignature {
            inputs: vec![file_tensor("a", DataType::Fp32, &[-1, 2]), file_tensor("b", DataType::Int64, &[-1, -1])],
            outputs: vec![file_tensor("y", DataType::Fp32, &[-1, 1]), file_tensor("z", DataType::Bytes, &[-1])],
        }
    }

    fn problems(config: &ModelConfig, file: &FileSignature) -> Vec<String> {
        match check(config, file) {
            Err(LoadError::Mismatch { problems, .. }) => problems,
            other => panic!("expected a mismatch, got {other:?}"),
        }
    }

    #[test]
    fn what_is_declared_is_served_in_the_files_order() {
        let inputs = vec![declared("b", DataType::Int64, &[3]), declared("a", DataType::Fp32, &[2])];
        let outputs = vec![declared("z", DataType::Bytes, &[])];
        let served = check(&config(8, inputs, outputs), &file()).expect("agrees");
        let shapes: Vec<_> = served.signature.inputs.iter().map(|spec| (&*spec.name, spec.shape.clone())).collect();
        assert_eq!(shapes, [("a", vec![-1, 2]), ("b", vec![-1, 3])], "the declaration may be stricter");
        assert_eq!(served.signature.outputs.len(), 1);
        assert_eq!(&*served.signature.outputs[0].name, "z");
    }

    #[test]
    fn what_is_not_declared_is_served_as_the_file_has_it() {
        let served = check(&config(0, vec![], vec![]), &file()).expect("agrees");
        assert_eq!(served.signature.inputs[1].shape, [-1, -1]);
        assert_eq!(served.signature.outputs.len(), 2);
        assert_eq!(served.output_reshapes, [None, None]);
    }

    #[test]
    fn every_disagreement_is_told_in_tritons_words() {
        let one = |inputs| config(8, inputs, vec![]);
        let cases = [
            (
                one(vec![declared("a", DataType::Fp32, &[2])]),
                "unable to load model 'm', configuration expects 1 inputs, model provides 2",
            ),
            (
                one(vec![declared("a", DataType::Fp32, &[2]), declared("c", DataType::Int64, &[2])]),
                "unexpected inference input 'c', allowed inputs are: a, b",
            ),
            (
                one(vec![declared("a", DataType::Fp32, &[2]), declared("a", DataType::Fp32, &[2])]),
                "model 'm', input 'a' is declared more than once",
            ),
            (
                one(vec![declared("a", DataType::Fp64, &[2]), declared("b", DataType::Int64, &[2])]),
                "unable to load model 'm', configuration expects datatype TYPE_FP64 for input 'a', model provides TYPE_FP32",
            ),
            (
                one(vec![declared("a", DataType::Fp32, &[-1]), declared("b", DataType::Int64, &[2])]),
                "model 'm', tensor 'a': the model expects 2 dimensions (shape [-1,2]) but the model configuration \
                 specifies 2 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit \
                 tensor shape, making complete shape [-1,-1])",
            ),
            (
                config(0, vec![declared("a", DataType::Fp32, &[2]), declared("b", DataType::Int64, &[1, 1])], vec![]),
                "model 'm', tensor 'a': the model expects 2 dimensions (shape [-1,2]) but the model configuration \
                 specifies 1 dimensions (shape [2])",
            ),
            (
                config(8, vec![], vec![declared("y", DataType::Fp32, &[1]), declared("w", DataType::Fp32, &[1])]),
                "unexpected inference output 'w', allowed outputs are: y, z",
            ),
        ];
        for (config, expected) in cases {
            assert_eq!(problems(&config, &file()), [expected]);
        }
    }

    #[test]
    fn all_disagreements_are_gathered() {
        let inputs = vec![declared("a", DataType::Int8, &[9]), declared("x", DataType::Int64, &[2])];
        let outputs = vec![declared("y", DataType::Bool, &[1]), declared("w", DataType::Fp32, &[1])];
        assert_eq!(problems(&config(8, inputs, outputs), &file()).len(), 5);
    }

    #[test]
    fn a_batching_model_needs_a_free_first_dimension_everywhere_it_is_served() {
        let mut file = file();
        file.outputs.push(file_tensor("total", DataType::Fp32, &[]));
        file.outputs.push(file_tensor("fixed", DataType::Fp32, &[1, 2]));
        let told = problems(&config(8, vec![], vec![]), &file);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(
            told[1],
            "model 'm', tensor 'fixed': for the model to support batching the shape should have at least 1 dimension and \
             the first dimension must be -1; but shape expected by the model is [1,2]"
        );
        let narrowed = config(8, vec![], vec![declared("y", DataType::Fp32, &[1])]);
        assert!(check(&narrowed, &file).is_ok(), "what is not served need not batch");
    }

    #[test]
    fn a_scalar_is_served_as_one_element() {
        let file = FileSignature {
            inputs: vec![file_tensor("x", DataType::Fp32, &[])],
            outputs: vec![file_tensor("y", DataType::Fp32, &[])],
        };
        let served = check(&config(0, vec![declared("x", DataType::Fp32, &[1])], vec![]), &file).expect("agrees");
        let one_element = Some(Reshape { served: vec![1], model: vec![], batches: false });
        assert_eq!((&served.signature.inputs[0].shape[..], &served.input_reshapes[0]), (&[1][..], &one_element));
        assert_eq!((&served.signature.outputs[0].shape[..], &served.output_reshapes[0]), (&[1][..], &one_element));

        let told = problems(&config(0, vec![declared("x", DataType::Fp32, &[2])], vec![]), &file);
        assert_eq!(
            told,
            [
                "model 'm', scalar tensor 'x', should only provide 1 in the model configuration when the model doesn't support \
              batching. Model configuration provided: [2]"
            ]
        );
    }

    #[test]
    fn what_is_reshaped_is_compared_with_the_file_and_served_as_declared() {
        let reshaped = |name: &str, data_type, dims: &[i64], reshape: &[i64]| TensorConfig {
            reshape: Some(reshape.to_vec()),
            ..declared(name, data_type, dims)
        };
        let inputs =
            vec![reshaped("a", DataType::Fp32, &[1, 2], &[2]), reshaped("b", DataType::Int64, &[-1, 1], &[-1])];
        let outputs = vec![reshaped("z", DataType::Bytes, &[1], &[]), declared("y", DataType::Fp32, &[1])];
        let served = check(&config(8, inputs, outputs), &file()).expect("agrees");
        let shapes: Vec<_> = served.signature.inputs.iter().map(|spec| spec.shape.clone()).collect();
        assert_eq!(shapes, [vec![-1, 1, 2], vec![-1, -1, 1]]);
        assert_eq!(served.output_reshapes, [None, Some(Reshape { served: vec![1], model: vec![], batches: true })]);

        let inputs = vec![reshaped("a", DataType::Fp32, &[2], &[1, 2]), declared("b", DataType::Int64, &[-1])];
        assert_eq!(
            problems(&config(8, inputs, vec![]), &file()),
            ["model 'm', tensor 'a': the model expects 2 dimensions (shape [-1,2]) but the model configuration \
                 specifies 3 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit \
                 tensor shape, making complete shape [-1,1,2])"]
        );
    }

    #[test]
    fn an_unknown_number_of_dimensions_must_be_declared() {
        let kind = FileTensorKind::Tensor { data_type: DataType::Fp32, shape: None };
        let file = FileSignature {
            inputs: vec![file_tensor("x", DataType::Fp32, &[-1])],
            outputs: vec![FileTensor { name: "y".into(), kind }],
        };
        let told = problems(&config(8, vec![], vec![]), &file);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("output 'y': the model file does not say how many dimensions"), "{told:?}");
        let served = check(&config(8, vec![], vec![declared("y", DataType::Fp32, &[3])]), &file).expect("declared");
        assert_eq!((&served.signature.outputs[0].shape[..], &served.output_reshapes[0]), (&[-1, 3][..], &None));
    }

    #[test]
    fn what_v2_cannot_carry_is_refused_unless_it_is_not_served() {
        let mut file = file();
        let kind = FileTensorKind::Unsupported { what: "a sequence of maps".to_owned(), advice: "use zipmap=False" };
        file.outputs.push(FileTensor { name: "probabilities".into(), kind });
        let error = check(&config(8, vec![], vec![]), &file).expect_err("a map").to_string();
        assert_eq!(
            error,
            "unable to load model 'm', its output 'probabilities' is a sequence of maps, which no request can carry: use \
             zipmap=False, or declare only the other outputs in config.pbtxt"
        );
        assert!(check(&config(8, vec![], vec![declared("y", DataType::Fp32, &[1])]), &file).is_ok());
    }
}
