//! A batch whose requests have different lengths: its layout, its rows with what the server fills in, and the way back.
//! Nothing of a request is changed; one that runs again runs as it came.

use std::sync::Arc;

use super::{Request, split_outputs};
use crate::{BatchInput, BatchLayout, EngineError, PaddedAxis, Padding, Slot, Tensor, display_shape};

/// See the module. Requests are told apart by their position in the batch.
#[derive(Debug)]
pub(super) struct PaddedBatch {
    padding: Arc<Padding>,
    /// Each request's own lengths, one request behind the other.
    own: Vec<u64>,
    /// The lengths of the batch.
    padded: Vec<u64>,
}

impl PaddedBatch {
    pub(super) fn new<'a>(padding: &Arc<Padding>, requests: impl Iterator<Item = Request<'a>>) -> Self {
        let (mut own, mut padded) = (Vec::new(), Vec::new());
        for (inputs, _) in requests {
            let start = own.len();
            own.extend(padding.lengths(inputs));
            padded.resize(own.len() - start, 0);
            padded.iter_mut().zip(&own[start..]).for_each(|(longest, &own)| *longest = own.max(*longest));
        }
        padding.padded(&mut padded);
        Self { padding: Arc::clone(padding), own, padded }
    }

    /// Writes the full shapes of the batch, whose first request brings `inputs`. What `layout` held before is reused.
    pub(super) fn write_layout(&self, layout: &mut BatchLayout, inputs: &[Tensor], rows: u64) {
        layout.rows = Some(rows);
        layout.shapes.resize_with(self.padding.inputs().len(), Vec::new);
        for (shape, input) in layout.shapes.iter_mut().zip(self.padding.inputs()) {
            shape.clear();
            match input {
                BatchInput::Sent(input) | BatchInput::Padded { input, .. } => {
                    shape.extend_from_slice(inputs[*input].shape());
                }
                BatchInput::Mask { rank, .. } | BatchInput::Lengths { rank, .. } => shape.resize(*rank, 1),
            }
            if let BatchInput::Padded { axis, .. } | BatchInput::Mask { axis, .. } = input {
                shape[axis.axis] = self.padded[axis.length];
            }
            shape[0] = rows;
        }
    }

    /// Writes every input of the batch.
    pub(super) fn write<'a>(&self, slot: &mut dyn Slot, requests: &(impl Iterator<Item = Request<'a>> + Clone)) {
        for (position, input) in self.padding.inputs().iter().enumerate() {
            let mut append = |elements: &[u8]| slot.append(position, elements);
            for (own, request) in self.own_lengths().zip(requests.clone()) {
                self.write_request(input, own, request, &mut append);
            }
        }
    }

    /// Writes one request's part of one input.
    fn write_request(
        &self,
        input: &BatchInput,
        own: &[u64],
        (inputs, rows): Request<'_>,
        append: &mut impl FnMut(&[u8]),
    ) {
        let missing = |length: usize| self.padded[length] - own[length];
        match input {
            BatchInput::Sent(input) => append(inputs[*input].data()),
            BatchInput::Padded { input, axis, .. } if missing(axis.length) == 0 => append(inputs[*input].data()),
            BatchInput::Padded { input, axis, fill } => {
                let inner: u64 = inputs[*input].shape()[axis.axis + 1..].iter().product();
                let missing = missing(axis.length) * inner;
                for block in inputs[*input].blocks(axis.axis) {
                    append(block);
                    fill.write(missing, &mut *append);
                }
            }
            BatchInput::Mask { axis, real, padding, .. } => {
                for _ in 0..rows {
                    real.write(own[axis.length], &mut *append);
                    padding.write(missing(axis.length), &mut *append);
                }
            }
            BatchInput::Lengths { length, counts, .. } => {
                (0..rows).for_each(|_| counts.write(own[*length], &mut *append));
            }
        }
    }

    /// Checks that every output that is to be cut has the batch's length.
    pub(super) fn check(&self, outputs: &[Tensor]) -> Result<(), EngineError> {
        let wrong =
            self.cuts(outputs).find(|(tensor, cut)| tensor.shape().get(cut.axis) != Some(&self.padded[cut.length]));
        let Some((tensor, PaddedAxis { length, axis })) = wrong else { return Ok(()) };
        Err(EngineError::Output {
            output: tensor.name().to_string(),
            expected: format!("{} along axis {axis} in this batch, as its padded inputs are", self.padded[length]),
            got: display_shape(tensor.shape()),
        })
    }

    /// Each request's outputs, as long as it is; `rows` are the row counts of the requests.
    pub(super) fn split(&self, outputs: Vec<Tensor>, rows: &[u64]) -> Vec<Vec<Tensor>> {
        let mut answers = split_outputs(outputs, rows);
        answers.iter_mut().enumerate().for_each(|(request, outputs)| self.cut(request, outputs));
        answers
    }

    /// Cuts a request's rows of the outputs back to its own lengths.
    fn cut(&self, request: usize, outputs: &mut [Tensor]) {
        let own = self.own_lengths().nth(request).unwrap_or_default();
        if own == self.padded {
            return;
        }
        for (output, cut) in outputs.iter_mut().zip(self.padding.outputs()) {
            if let Some(PaddedAxis { length, axis }) = *cut {
                *output = output.cut(axis, own[length]);
            }
        }
    }

    fn cuts<'a>(&'a self, outputs: &'a [Tensor]) -> impl Iterator<Item = (&'a Tensor, PaddedAxis)> {
        outputs.iter().zip(self.padding.outputs()).filter_map(|(tensor, cut)| Some((tensor, (*cut)?)))
    }

    fn own_lengths(&self) -> impl Iterator<Item = &[u64]> {
        self.own.chunks_exact(self.padded.len().max(1))
    }
}

#[cfg(test)]
mod tests;
