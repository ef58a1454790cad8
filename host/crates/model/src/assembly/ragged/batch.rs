//! A ragged batch: its layout, its inputs with what the server generates, and the way back.

use std::sync::Arc;

use super::{Ragged, RaggedInput};
use crate::assembly::Request;
use crate::config::GeneratedKind;
use crate::padding::CountType;
use crate::{BatchLayout, EngineError, Slot, Tensor, display_shape, element_count};

/// See the module.
#[derive(Debug)]
pub(crate) struct RaggedBatch {
    ragged: Arc<Ragged>,
    /// By scattered output, in order: the shape of each request's answer. Empty for the others.
    answers: Vec<Vec<Vec<u64>>>,
}

impl RaggedBatch {
    pub(crate) fn new<'a>(ragged: &Arc<Ragged>, requests: impl Iterator<Item = Request<'a>>) -> Self {
        let mut answers = vec![Vec::new(); ragged.outputs.len()];
        for (inputs, _) in requests {
            for (shapes, scatter) in answers.iter_mut().zip(&ragged.outputs) {
                shapes.extend(scatter.as_ref().map(|scatter| scatter.shape_for(inputs)));
            }
        }
        Self { ragged: Arc::clone(ragged), answers }
    }

    /// Writes the full shapes of the batch, of `rows` rows. What `layout` held before is reused.
    pub(crate) fn write_layout<'a>(
        &self,
        layout: &mut BatchLayout,
        requests: &(impl Iterator<Item = Request<'a>> + Clone),
        rows: u64,
    ) {
        layout.rows = self.ragged.batches.then_some(rows);
        layout.shapes.resize_with(self.ragged.inputs.len(), Vec::new);
        for (shape, input) in layout.shapes.iter_mut().zip(&self.ragged.inputs) {
            shape.clear();
            match *input {
                RaggedInput::Rows(input) => {
                    let first = requests.clone().next();
                    shape.extend_from_slice(first.map_or(&[], |(inputs, _)| inputs[input].shape()));
                    if let (Some(rows), Some(first)) = (layout.rows, shape.first_mut()) {
                        *first = rows;
                    }
                }
                RaggedInput::EndToEnd(input) => shape.push(counts(requests, input).sum()),
                RaggedInput::Generated { kind, source, .. } => shape_of(kind, source, requests, shape),
            }
        }
    }

    /// Writes every input of the batch.
    pub(crate) fn write<'a>(&self, slot: &mut dyn Slot, requests: &(impl Iterator<Item = Request<'a>> + Clone)) {
        for (position, input) in self.ragged.inputs.iter().enumerate() {
            let mut append = |elements: &[u8]| slot.append(position, elements);
            match input {
                RaggedInput::Rows(input) | RaggedInput::EndToEnd(input) => {
                    requests.clone().for_each(|(inputs, _)| append(inputs[*input].data()));
                }
                RaggedInput::Generated { kind: GeneratedKind::MaxElementCountAsShape, source, zero, .. } => {
                    zero.write(counts(requests, *source).max().unwrap_or(0), append);
                }
                RaggedInput::Generated { kind, source, counts, .. } => {
                    generate(*kind, *counts, (requests, *source), &mut append);
                }
            }
        }
    }

    /// Whether output `output` is scattered.
    pub(crate) fn scatters(&self, output: usize) -> bool {
        self.ragged.outputs[output].is_some()
    }

    /// Checks that every scattered output has as many elements as the answers.
    pub(crate) fn check(&self, outputs: &[Tensor]) -> Result<(), EngineError> {
        for (output, shapes) in self.scattered(outputs) {
            let wanted = shapes.iter().try_fold(0_u64, |sum, shape| sum.checked_add(element_count(shape)?));
            if wanted.is_none() || element_count(output.shape()) != wanted {
                let wanted = wanted.map_or_else(|| "too many".to_owned(), |count| count.to_string());
                return Err(EngineError::Output {
                    output: output.name().to_string(),
                    expected: format!("{wanted} elements in this batch, as its source input makes them"),
                    got: display_shape(output.shape()),
                });
            }
        }
        Ok(())
    }

    /// Each request's outputs; `rows` are the row counts of the requests.
    pub(crate) fn split(&self, outputs: Vec<Tensor>, rows: &[u64]) -> Vec<Vec<Tensor>> {
        let mut answers: Vec<Vec<Tensor>> = rows.iter().map(|_| Vec::with_capacity(outputs.len())).collect();
        for (output, (scatter, shapes)) in outputs.into_iter().zip(self.ragged.outputs.iter().zip(&self.answers)) {
            let pieces = match scatter {
                Some(_) => output.scatter(shapes),
                None if rows.len() == 1 => vec![output],
                None => output.split_rows(rows),
            };
            answers.iter_mut().zip(pieces).for_each(|(answer, piece)| answer.push(piece));
        }
        answers
    }

    fn scattered<'a>(&'a self, outputs: &'a [Tensor]) -> impl Iterator<Item = (&'a Tensor, &'a [Vec<u64>])> {
        let scatters = self.ragged.outputs.iter().zip(&self.answers);
        outputs.iter().zip(scatters).filter_map(|(output, (scatter, shapes))| {
            scatter.as_ref()?;
            Some((output, &shapes[..]))
        })
    }
}

/// Each request's elements of an input.
fn counts<'a>(
    requests: &(impl Iterator<Item = Request<'a>> + Clone),
    input: usize,
) -> impl Iterator<Item = u64> + Clone {
    requests.clone().map(move |(inputs, _)| element_count(inputs[input].shape()).unwrap_or(0))
}

/// Each request's rows of an input, and the dimensions of a row.
fn items<'a>(
    requests: &(impl Iterator<Item = Request<'a>> + Clone),
    input: usize,
) -> impl Iterator<Item = (u64, &'a [u64])> {
    requests.clone().filter_map(move |(inputs, _)| {
        let (rows, dimensions) = inputs[input].shape().split_first()?;
        Some((*rows, dimensions))
    })
}

/// Writes the shape of a generated input.
fn shape_of<'a>(
    kind: GeneratedKind,
    source: usize,
    requests: &(impl Iterator<Item = Request<'a>> + Clone),
    shape: &mut Vec<u64>,
) {
    let requests_in_batch = || requests.clone().count() as u64;
    let rank = || items(requests, source).next().map_or(0, |(_, dimensions)| dimensions.len() as u64);
    let rows = || items(requests, source).map(|(rows, _)| rows).sum::<u64>();
    match kind {
        GeneratedKind::ElementCount | GeneratedKind::AccumulatedElementCount => shape.push(requests_in_batch()),
        GeneratedKind::AccumulatedElementCountWithZero => shape.push(requests_in_batch() + 1),
        GeneratedKind::MaxElementCountAsShape => shape.push(counts(requests, source).max().unwrap_or(0)),
        GeneratedKind::ItemShape => shape.extend([rows(), rank()]),
        GeneratedKind::ItemShapeFlatten => shape.push(rows() * rank()),
    }
}

/// Writes the elements of a generated input that has some to tell.
fn generate<'a>(
    kind: GeneratedKind,
    write: CountType,
    (requests, source): (&(impl Iterator<Item = Request<'a>> + Clone), usize),
    append: &mut impl FnMut(&[u8]),
) {
    let mut accumulated = 0_u64;
    match kind {
        GeneratedKind::ElementCount => counts(requests, source).for_each(|count| write.write(count, &mut *append)),
        GeneratedKind::AccumulatedElementCount | GeneratedKind::AccumulatedElementCountWithZero => {
            if kind == GeneratedKind::AccumulatedElementCountWithZero {
                write.write(0, &mut *append);
            }
            for count in counts(requests, source) {
                accumulated += count;
                write.write(accumulated, &mut *append);
            }
        }
        GeneratedKind::ItemShape | GeneratedKind::ItemShapeFlatten => {
            for (rows, dimensions) in items(requests, source) {
                (0..rows).flat_map(|_| dimensions).for_each(|&dimension| write.write(dimension, &mut *append));
            }
        }
        GeneratedKind::MaxElementCountAsShape => {}
    }
}
