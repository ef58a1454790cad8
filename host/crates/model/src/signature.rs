//! What a model version takes and gives, and the check of tensors against it. The host trusts neither clients nor
//! guests: what passes here is what reaches the engine.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::{DataType, Tensor};

/// One input or output: name, type and full shape, with -1 for a free dimension. Where the model batches, the first
/// dimension is the batch and is -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The tensor's name in the model.
    pub name: Arc<str>,
    /// The element type.
    pub data_type: DataType,
    /// The full shape; -1 is a free dimension.
    pub shape: Vec<i64>,
}

/// The inputs and outputs of a model version, in the model's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// What a request brings.
    pub inputs: Vec<TensorSpec>,
    /// How many of the inputs, the last ones, a request may leave out.
    pub optional_inputs: usize,
    /// What an answer can hold.
    pub outputs: Vec<TensorSpec>,
}

/// How tensors differ from a signature. The text follows Triton's wherever Triton has one; `model` is the name shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureMismatch {
    /// Another set of inputs than the model's.
    Count {
        /// Inputs of the model.
        expected: Vec<Arc<str>>,
        /// How many of them, the last ones, may be left out.
        optional: usize,
        /// Names given.
        got: Vec<Arc<str>>,
    },
    /// A name the model does not have.
    UnknownInput(Arc<str>),
    /// An input given twice.
    DuplicateInput(Arc<str>),
    /// A requested output the model does not have.
    UnknownOutput(Arc<str>),
    /// Another element type.
    Type {
        /// The input.
        name: Arc<str>,
        /// The model's type.
        expected: DataType,
        /// The type given.
        got: DataType,
    },
    /// Another shape.
    Shape {
        /// The input.
        name: Arc<str>,
        /// The model's shape.
        expected: Vec<i64>,
        /// The shape given.
        got: Vec<u64>,
    },
    /// Inputs of one request that do not agree on their batch dimension.
    BatchDisagrees {
        /// The first input and its rows.
        first: (Arc<str>, u64),
        /// The input that differs and its rows.
        other: (Arc<str>, u64),
    },
    /// Inputs of one request that share a length and do not agree on it.
    LengthsDiffer {
        /// The first input and its length.
        first: (Arc<str>, u64),
        /// The input that differs and its length.
        other: (Arc<str>, u64),
    },
    /// A scalar where the first dimension counts rows.
    NoBatchDimension(Arc<str>),
    /// A length that the model does not take.
    Length {
        /// The input.
        name: Arc<str>,
        /// Its length.
        got: u64,
        /// The shortest.
        min: u64,
        /// The longest.
        max: u64,
    },
    /// More rows than one batch may hold, or none.
    BatchSize {
        /// Rows given.
        got: u64,
        /// Most rows of a batch.
        max: u32,
    },
}

impl SignatureMismatch {
    /// The text for people, naming `model`.
    #[must_use]
    pub fn text(&self, model: &str) -> String {
        match self {
            Self::Count { expected, optional, got } => count_text(model, (expected, *optional), got),
            Self::UnknownInput(name) => format!("unexpected inference input '{name}' for model '{model}'"),
            Self::DuplicateInput(name) => format!("input '{name}' already exists in request for model '{model}'"),
            Self::UnknownOutput(name) => format!("unexpected inference output '{name}' for model '{model}'"),
            Self::Type { name, expected, got } => {
                format!("inference input '{name}' data-type is '{got}', but model '{model}' expects '{expected}'")
            }
            Self::Shape { name, expected, got } => format!(
                "unexpected shape for input '{name}' for model '{model}'. Expected {}, got {}",
                display_shape(expected),
                display_shape(got)
            ),
            Self::BatchDisagrees { first, other } => format!(
                "input '{}' batch size does not match other inputs for '{model}': '{}' has {} rows, '{}' has {}",
                other.0, first.0, first.1, other.0, other.1
            ),
            Self::NoBatchDimension(name) => {
                format!("input '{name}' has no shape but model requires batch dimension for '{model}'")
            }
            Self::LengthsDiffer { first, other } => format!(
                "inputs '{}' and '{}' for model '{model}' must have the same length, got {} and {}",
                first.0, other.0, first.1, other.1
            ),
            Self::Length { name, got, min, max: u64::MAX } => {
                format!("input '{name}' for model '{model}' must have a length of at least {min}, got {got}")
            }
            Self::Length { name, got, min, max } => {
                format!("input '{name}' for model '{model}' must have a length from {min} to {max}, got {got}")
            }
            Self::BatchSize { got: 0, .. } => format!("inference request for model '{model}' must have at least 1 row"),
            Self::BatchSize { got, max } => {
                format!("inference request batch-size must be <= {max} for '{model}', got {got}")
            }
        }
    }
}

fn count_text(model: &str, (expected, optional): (&[Arc<str>], usize), got: &[Arc<str>]) -> String {
    let required = &expected[..expected.len().saturating_sub(optional)];
    let quoted = |names: &[&Arc<str>]| names.iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(",");
    let missing: Vec<_> = required.iter().filter(|n| !got.contains(n)).collect();
    let wanted = if optional == 0 {
        format!("expected {} inputs", expected.len())
    } else {
        format!("expected number of inputs between {} and {}", required.len(), expected.len())
    };
    let mut text = format!("{wanted} but got {} inputs for model '{model}'.", got.len());
    let _ = write!(text, " Got input(s) [{}]", quoted(&got.iter().collect::<Vec<_>>()));
    if !missing.is_empty() {
        let _ = write!(text, ", but missing required input(s) [{}]", quoted(&missing));
    }
    text + ". Please provide all required input(s)."
}

impl Signature {
    /// Puts `tensors` into the model's input order and checks names, types and shapes; byte lengths are already right,
    /// since a [`Tensor`] cannot exist otherwise. `max_batch_size` 0 means that the model does not batch. Inputs that are
    /// left out leave no gap.
    ///
    /// Returns the ordered inputs and the number of rows (1 where the model does not batch).
    ///
    /// # Errors
    /// The first [`SignatureMismatch`].
    pub fn check_inputs(
        &self,
        mut tensors: Vec<Tensor>,
        max_batch_size: u32,
    ) -> Result<(Vec<Tensor>, u64), SignatureMismatch> {
        self.check_names(&tensors)?;
        let position = |t: &Tensor| self.inputs.iter().position(|spec| spec.name == *t.name());
        if !tensors.iter().zip(&self.inputs).all(|(t, spec)| spec.name == *t.name()) {
            tensors.sort_by_key(position);
        }
        if max_batch_size > 0
            && let Some(scalar) = tensors.iter().find(|tensor| tensor.shape().is_empty())
        {
            return Err(SignatureMismatch::NoBatchDimension(Arc::clone(scalar.name())));
        }
        let mut specs = self.inputs.iter();
        for tensor in &tensors {
            specs.find(|spec| spec.name == *tensor.name()).map_or(Ok(()), |spec| check_tensor(tensor, spec))?;
        }
        let rows = if max_batch_size == 0 { 1 } else { check_batch(&tensors, max_batch_size)? };
        Ok((tensors, rows))
    }

    /// The positions of `names` among the outputs; all of them, in order, when `names` is empty.
    ///
    /// # Errors
    /// [`SignatureMismatch::UnknownOutput`] for a name the model does not have.
    pub fn select_outputs<N: AsRef<str>>(&self, names: &[N]) -> Result<Vec<usize>, SignatureMismatch> {
        if names.is_empty() {
            return Ok((0..self.outputs.len()).collect());
        }
        names
            .iter()
            .map(|name| {
                let name = name.as_ref();
                let position = self.outputs.iter().position(|spec| &*spec.name == name);
                position.ok_or_else(|| SignatureMismatch::UnknownOutput(name.into()))
            })
            .collect()
    }

    fn check_names(&self, tensors: &[Tensor]) -> Result<(), SignatureMismatch> {
        for (i, tensor) in tensors.iter().enumerate() {
            if tensors[..i].iter().any(|earlier| earlier.name() == tensor.name()) {
                return Err(SignatureMismatch::DuplicateInput(Arc::clone(tensor.name())));
            }
        }
        let required = self.inputs.len().saturating_sub(self.optional_inputs);
        if !(required..=self.inputs.len()).contains(&tensors.len()) {
            return Err(self.count_mismatch(tensors));
        }
        let known = |t: &&Tensor| self.inputs.iter().any(|spec| spec.name == *t.name());
        if let Some(stranger) = tensors.iter().find(|t| !known(t)) {
            return Err(SignatureMismatch::UnknownInput(Arc::clone(stranger.name())));
        }
        let is_given = |spec: &TensorSpec| tensors.iter().any(|t| spec.name == *t.name());
        // As many as there are, each known and none twice, are all of them.
        if tensors.len() == self.inputs.len() || self.inputs[..required].iter().all(is_given) {
            return Ok(());
        }
        Err(self.count_mismatch(tensors))
    }

    fn count_mismatch(&self, tensors: &[Tensor]) -> SignatureMismatch {
        SignatureMismatch::Count {
            expected: self.inputs.iter().map(|spec| Arc::clone(&spec.name)).collect(),
            optional: self.optional_inputs,
            got: tensors.iter().map(|t| Arc::clone(t.name())).collect(),
        }
    }
}

fn check_tensor(tensor: &Tensor, spec: &TensorSpec) -> Result<(), SignatureMismatch> {
    if tensor.data_type() != spec.data_type {
        return Err(SignatureMismatch::Type {
            name: Arc::clone(&spec.name),
            expected: spec.data_type,
            got: tensor.data_type(),
        });
    }
    let fits = |(&want, &got): (&i64, &u64)| want == -1 || u64::try_from(want) == Ok(got);
    if tensor.shape().len() != spec.shape.len() || !spec.shape.iter().zip(tensor.shape()).all(fits) {
        return Err(SignatureMismatch::Shape {
            name: Arc::clone(&spec.name),
            expected: spec.shape.clone(),
            got: tensor.shape().to_vec(),
        });
    }
    Ok(())
}

fn check_batch(tensors: &[Tensor], max: u32) -> Result<u64, SignatureMismatch> {
    let rows = |t: &Tensor| t.shape().first().copied().unwrap_or(0);
    let Some(first) = tensors.first() else { return Ok(1) };
    let got = rows(first);
    if let Some(other) = tensors.iter().find(|t| rows(t) != got) {
        return Err(SignatureMismatch::BatchDisagrees {
            first: (Arc::clone(first.name()), got),
            other: (Arc::clone(other.name()), rows(other)),
        });
    }
    if got == 0 || got > u64::from(max) {
        return Err(SignatureMismatch::BatchSize { got, max });
    }
    Ok(got)
}

/// A shape as Triton prints it: `[-1,128]`.
#[must_use]
pub fn display_shape<D: fmt::Display>(shape: &[D]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(","))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn spec(name: &str, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), data_type: DataType::Uint8, shape: shape.to_vec() }
    }

    fn tensor(name: &str, data_type: DataType, shape: &[u64]) -> Tensor {
        let len = shape.iter().product::<u64>() * data_type.element_size().unwrap_or(0) as u64;
        let data = Bytes::from(vec![0; usize::try_from(len).expect("small")]);
        Tensor::new(name.into(), data_type, shape.to_vec(), data).expect("fits")
    }

    fn signature() -> Signature {
        let inputs = vec![spec("a", &[-1, 2]), spec("b", &[-1, -1])];
        Signature { inputs, outputs: vec![spec("y", &[-1])], optional_inputs: 0 }
    }

    #[test]
    fn inputs_are_put_into_the_models_order() {
        let given = vec![tensor("b", DataType::Uint8, &[3, 5]), tensor("a", DataType::Uint8, &[3, 2])];
        let (ordered, rows) = signature().check_inputs(given, 8).expect("fits");
        assert_eq!(rows, 3);
        assert_eq!(ordered.iter().map(|t| &**t.name()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn every_mismatch_is_named() {
        let u8s = |name, shape: &[u64]| tensor(name, DataType::Uint8, shape);
        let cases = [
            (
                vec![u8s("a", &[1, 2])],
                "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['a'], but missing required input(s) ['b']. Please provide all required input(s).",
            ),
            (vec![u8s("a", &[1, 2]), u8s("c", &[1, 2])], "unexpected inference input 'c' for model 'm'"),
            (vec![u8s("a", &[1, 2]), u8s("a", &[1, 2])], "input 'a' already exists in request for model 'm'"),
            (
                vec![u8s("a", &[1, 2]), tensor("b", DataType::Fp32, &[1, 1])],
                "inference input 'b' data-type is 'FP32', but model 'm' expects 'UINT8'",
            ),
            (
                vec![u8s("a", &[1, 3]), u8s("b", &[1, 1])],
                "unexpected shape for input 'a' for model 'm'. Expected [-1,2], got [1,3]",
            ),
            (
                vec![u8s("a", &[2]), u8s("b", &[1, 1])],
                "unexpected shape for input 'a' for model 'm'. Expected [-1,2], got [2]",
            ),
            (
                vec![u8s("a", &[1, 2]), u8s("b", &[])],
                "input 'b' has no shape but model requires batch dimension for 'm'",
            ),
            (
                vec![u8s("a", &[1, 2]), u8s("b", &[2, 1])],
                "input 'b' batch size does not match other inputs for 'm': 'a' has 1 rows, 'b' has 2",
            ),
            (vec![u8s("a", &[9, 2]), u8s("b", &[9, 1])], "inference request batch-size must be <= 8 for 'm', got 9"),
            (vec![u8s("a", &[0, 2]), u8s("b", &[0, 1])], "inference request for model 'm' must have at least 1 row"),
        ];
        for (tensors, text) in cases {
            assert_eq!(signature().check_inputs(tensors, 8).expect_err(text).text("m"), text);
        }
    }

    #[test]
    fn the_last_inputs_may_be_left_out_where_they_are_optional() {
        let tensors = |names: &[&str]| names.iter().map(|name| tensor(name, DataType::Uint8, &[1, 2])).collect();
        let optional = |names: &[&str]| {
            let inputs = ["a", "b", "c"].map(|name| spec(name, &[-1, 2])).to_vec();
            let signature = Signature { inputs, optional_inputs: 2, ..Signature::default() };
            let checked = signature.check_inputs(tensors(names), 0).map_err(|mismatch| mismatch.text("m"));
            checked.map(|(ordered, _)| ordered.iter().map(|t| t.name().to_string()).collect::<Vec<_>>().concat())
        };
        let got = "Please provide all required input(s).";
        let cases = [
            (&["c", "b", "a"][..], Ok("abc")),
            (&["c", "a"], Ok("ac")),
            (&["b", "a"], Ok("ab")),
            (&["a"], Ok("a")),
            (
                &["b", "c"],
                Err(
                    "expected number of inputs between 1 and 3 but got 2 inputs for model 'm'. Got input(s) ['b','c'], but \
                     missing required input(s) ['a']. ",
                ),
            ),
            (
                &[],
                Err(
                    "expected number of inputs between 1 and 3 but got 0 inputs for model 'm'. Got input(s) [], but missing \
                     required input(s) ['a']. ",
                ),
            ),
        ];
        for (names, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(|text: &str| format!("{text}{got}"));
            assert_eq!(optional(names), expected, "{names:?}");
        }
        assert_eq!(optional(&["a", "x"]), Err("unexpected inference input 'x' for model 'm'".to_owned()));
    }

    #[test]
    fn outputs_are_selected_by_name() {
        assert_eq!(signature().select_outputs::<&str>(&[]), Ok(vec![0]));
        assert_eq!(signature().select_outputs(&["y"]), Ok(vec![0]));
        let error = signature().select_outputs(&["z"]).expect_err("unknown");
        assert_eq!(error.text("m"), "unexpected inference output 'z' for model 'm'");
    }
}
