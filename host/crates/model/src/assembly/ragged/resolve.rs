//! From what a configuration asks for to what it means for a model, or to everything that does not fit.

use std::sync::Arc;

use super::{Ragged, RaggedInput, Scatter};
use crate::config::{GeneratedInput, GeneratedKind, RaggedConfig, TensorConfig};
use crate::padding::CountType;
use crate::{Fill, ModelConfig, Signature, TensorSpec, display_shape};

/// A part of a ragged batch that does not fit the model. The texts are Triton's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RaggedError {
    /// A source that no request brings.
    #[error("unknown source input name '{source_input}' of '{target}'; name an input that requests bring")]
    UnknownSource {
        /// The generated input or scattered output.
        target: Arc<str>,
        /// The source named.
        source_input: Arc<str>,
    },
    /// A ragged input that is not declared, so that nobody knows its shape in a request.
    #[error("ragged input '{input}' is not declared; declare its dims as requests bring it")]
    UnknownInput {
        /// The input.
        input: Arc<str>,
    },
    /// A scattered output that is not declared.
    #[error("unknown target output name '{output}'; declare it as an output, with the dims that a request gets")]
    UnknownOutput {
        /// The output.
        output: Arc<str>,
    },
    /// A generated input of another type than the model's.
    #[error("batch input '{input}' is {expected}, but model provides {got}; write data_type: {got}")]
    Type {
        /// The input.
        input: Arc<str>,
        /// What the configuration says.
        expected: &'static str,
        /// What the model has.
        got: &'static str,
    },
    /// A generated input that the model takes in another shape.
    #[error(
        "batch input '{input}' has shape {}, but the model expects {}; choose another kind",
        display_shape(expected),
        display_shape(got)
    )]
    Shape {
        /// The input.
        input: Arc<str>,
        /// What its kind has.
        expected: Vec<i64>,
        /// What the model has.
        got: Vec<i64>,
    },
    /// An output with a free dimension past its source's last one.
    #[error(
        "output '{output}' of shape {} is scattered by input '{source_input}' of shape {}, which has no dimension {axis}; \
         write fewer dims, or another source_input",
        display_shape(shape),
        display_shape(source_shape)
    )]
    ScatterRank {
        /// The output.
        output: Arc<str>,
        /// The shape of an answer.
        shape: Vec<i64>,
        /// The source.
        source_input: Arc<str>,
        /// Its shape in a request.
        source_shape: Vec<i64>,
        /// The free dimension that it lacks, from 0.
        axis: usize,
    },
}

impl RaggedConfig {
    /// What this means for a model that has the signature `model` and is declared as in `config`; and the signature that
    /// is served: ragged inputs and scattered outputs as they are declared, without the inputs that the server generates.
    ///
    /// # Errors
    /// Everything that does not fit, with what to do about it.
    pub fn resolve(&self, config: &ModelConfig, model: &Signature) -> Result<(Signature, Ragged), Vec<RaggedError>> {
        let batches = config.max_batch_size > 0;
        let mut resolver = Resolver { ragged: self, config, errors: Vec::new() };
        let served = resolver.served(model);
        let inputs: Vec<_> = model.inputs.iter().filter_map(|spec| resolver.input(spec, &served.inputs)).collect();
        let outputs = served.outputs.iter().map(|spec| resolver.output(spec, &served.inputs)).collect();
        if !resolver.errors.is_empty() {
            return Err(resolver.errors);
        }
        let free = free_dimensions(&inputs, &served.inputs);
        Ok((served, Ragged { inputs, outputs, free, batches }))
    }
}

/// Free dimensions, but the batch's, of inputs that go in row by row.
fn free_dimensions(inputs: &[RaggedInput], served: &[TensorSpec]) -> Vec<(usize, usize)> {
    let by_rows = inputs.iter().filter_map(|input| match input {
        RaggedInput::Rows(position) => Some(*position),
        _ => None,
    });
    let axes = |position: usize| served[position].shape.iter().enumerate().skip(1).filter(|(_, dim)| **dim == -1);
    by_rows.flat_map(|position| axes(position).map(move |(axis, _)| (position, axis))).collect()
}

struct Resolver<'a> {
    ragged: &'a RaggedConfig,
    config: &'a ModelConfig,
    errors: Vec<RaggedError>,
}

impl Resolver<'_> {
    /// What requests bring and get.
    fn served(&mut self, model: &Signature) -> Signature {
        let RaggedConfig { inputs, generated, scattered } = self.ragged;
        let mut served = model.clone();
        served.inputs.retain(|spec| !generated.contains_key(&spec.name));
        for spec in served.inputs.iter_mut().filter(|spec| inputs.contains(&spec.name)) {
            let input = Arc::clone(&spec.name);
            self.declare(spec, &self.config.inputs, RaggedError::UnknownInput { input });
        }
        for spec in served.outputs.iter_mut().filter(|spec| scattered.contains_key(&spec.name)) {
            let output = Arc::clone(&spec.name);
            self.declare(spec, &self.config.outputs, RaggedError::UnknownOutput { output });
        }
        served
    }

    /// Gives `spec` its declared shape.
    fn declare(&mut self, spec: &mut TensorSpec, declared: &[TensorConfig], otherwise: RaggedError) {
        let batch = (self.config.max_batch_size > 0).then_some(-1);
        match declared.iter().find(|tensor| tensor.name == spec.name) {
            Some(tensor) => spec.shape = batch.into_iter().chain(tensor.dims.iter().copied()).collect(),
            None => self.errors.push(otherwise),
        }
    }

    /// The position of an input that requests bring.
    fn source(&mut self, target: &Arc<str>, source: &Arc<str>, served: &[TensorSpec]) -> Option<usize> {
        let position = served.iter().position(|spec| spec.name == *source);
        if position.is_none() {
            let (target, source_input) = (Arc::clone(target), Arc::clone(source));
            self.errors.push(RaggedError::UnknownSource { target, source_input });
        }
        position
    }

    /// Where an input of the model comes from.
    fn input(&mut self, spec: &TensorSpec, served: &[TensorSpec]) -> Option<RaggedInput> {
        if let Some(generated) = self.ragged.generated.get(&spec.name) {
            return self.generated(spec, generated, served);
        }
        let position = served.iter().position(|served| served.name == spec.name)?;
        let is_ragged = self.ragged.inputs.contains(&spec.name);
        Some(if is_ragged { RaggedInput::EndToEnd(position) } else { RaggedInput::Rows(position) })
    }

    fn generated(
        &mut self,
        spec: &TensorSpec,
        &GeneratedInput { kind, data_type, ref source }: &GeneratedInput,
        served: &[TensorSpec],
    ) -> Option<RaggedInput> {
        let input = || Arc::clone(&spec.name);
        let source = self.source(&spec.name, source, served)?;
        let counts = CountType::new(data_type).filter(|_| data_type == spec.data_type);
        if counts.is_none() {
            let (expected, got) = (data_type.config_name(), spec.data_type.config_name());
            self.errors.push(RaggedError::Type { input: input(), expected, got });
        }
        let row_rank = i64::try_from(served[source].shape.len()).unwrap_or(i64::MAX) - 1;
        let expected = if kind == GeneratedKind::ItemShape { vec![-1, row_rank] } else { vec![-1] };
        let fits = |(&own, &model): (&i64, &i64)| model == -1 || own == model;
        if spec.shape.len() != expected.len() || !expected.iter().zip(&spec.shape).all(fits) {
            self.errors.push(RaggedError::Shape { input: input(), expected, got: spec.shape.clone() });
        }
        Some(RaggedInput::Generated { kind, source, counts: counts?, zero: Fill::zero(data_type) })
    }

    fn output(&mut self, spec: &TensorSpec, served: &[TensorSpec]) -> Option<Scatter> {
        let name = self.ragged.scattered.get(&spec.name)?;
        let source = self.source(&spec.name, name, served)?;
        let source_shape = &served[source].shape;
        let last_free = spec.shape.iter().rposition(|dim| *dim == -1);
        if let Some(axis) = last_free.filter(|axis| *axis >= source_shape.len()) {
            self.errors.push(RaggedError::ScatterRank {
                output: Arc::clone(&spec.name),
                shape: spec.shape.clone(),
                source_input: Arc::clone(name),
                source_shape: source_shape.clone(),
                axis,
            });
        }
        Some(Scatter { source, shape: spec.shape.clone() })
    }
}
