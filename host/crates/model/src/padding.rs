//! How requests of different lengths run in one batch of a model: what of each batch input comes from the requests and
//! what the server fills in, where inputs grow and outputs are cut back. Made from a [`PaddingConfig`] and the model's
//! signature by [`PaddingConfig::resolve`]; whoever holds one knows that the two fit.
//!
//! A *length* is shared by one or more inputs of a request and told of by masks and outputs; most models have one.

mod error;
mod fill;
mod resolve;

use std::sync::Arc;

pub use error::{PaddingError, PaddingFault};
pub use fill::{CountType, Fill};

use crate::config::Buckets;
use crate::{SignatureMismatch, Tensor};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padding {
    lengths: Vec<Length>,
    inputs: Vec<BatchInput>,
    /// By output; `None` for those that are handed out whole.
    outputs: Vec<Option<PaddedAxis>>,
    /// Free dimensions of inputs that are not padded: position in the request, and axis.
    free: Vec<(usize, usize)>,
}

/// One length of a model's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Length {
    buckets: Buckets,
    /// The inputs that have it: position in the request, and axis. Never empty.
    inputs: Vec<(usize, usize)>,
}

impl Length {
    fn of(&self, inputs: &[Tensor]) -> u64 {
        let (input, axis) = self.inputs[0];
        inputs[input].shape()[axis]
    }
}

/// An input of the model, in the model's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchInput {
    /// The request's input at this position, as it is.
    Sent(usize),
    /// The request's input at this position, padded.
    Padded {
        /// The position.
        input: usize,
        /// Where it grows.
        axis: PaddedAxis,
        /// With what.
        fill: Fill,
    },
    /// Ones for what is real and zeros for padding, row by row.
    Mask {
        /// Where it grows; every dimension but this and the first is 1.
        axis: PaddedAxis,
        /// Its number of dimensions.
        rank: usize,
        /// Ones.
        real: Fill,
        /// Zeros.
        padding: Fill,
    },
    /// Each row's own length.
    Lengths {
        /// Which one.
        length: usize,
        /// Its number of dimensions; every one but the first is 1.
        rank: usize,
        /// Its type.
        counts: CountType,
    },
}

/// The axis along which a tensor has one of the lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedAxis {
    /// The length's position among [`Padding::lengths`].
    pub length: usize,
    /// The axis, the batch's being 0.
    pub axis: usize,
}

impl Padding {
    /// The model's inputs, in its order.
    #[must_use]
    pub fn inputs(&self) -> &[BatchInput] {
        &self.inputs
    }

    /// By output: where it is cut back.
    #[must_use]
    pub fn outputs(&self) -> &[Option<PaddedAxis>] {
        &self.outputs
    }

    /// The lengths of a request that passed [`check`](Self::check).
    pub fn lengths<'a>(&'a self, inputs: &'a [Tensor]) -> impl Iterator<Item = u64> + 'a {
        self.lengths.iter().map(|length| length.of(inputs))
    }

    /// How long the inputs of a batch are whose longest requests have these lengths.
    pub fn padded(&self, longest: &mut [u64]) {
        for (longest, length) in longest.iter_mut().zip(&self.lengths) {
            *longest = length.buckets.padded(*longest);
        }
    }

    /// What a request that passed [`check`](Self::check) must share with others to run with them: its buckets, and the
    /// free dimensions that are not padded.
    #[must_use]
    pub fn key(&self, inputs: &[Tensor]) -> Vec<u64> {
        let boundaries = self.lengths.iter().map(|length| length.buckets.boundary(length.of(inputs)));
        let free = self.free.iter().map(|&(input, axis)| inputs[input].shape()[axis]);
        boundaries.chain(free).collect()
    }

    /// Checks what the signature cannot: inputs that share a length agree on it, and it is one the model takes. `inputs`
    /// have passed the signature's check.
    ///
    /// # Errors
    /// The first [`SignatureMismatch`].
    pub fn check(&self, inputs: &[Tensor]) -> Result<(), SignatureMismatch> {
        self.lengths.iter().try_for_each(|length| length.check(inputs))
    }
}

impl Length {
    fn check(&self, inputs: &[Tensor]) -> Result<(), SignatureMismatch> {
        let own = self.of(inputs);
        let (first, name) = (&inputs[self.inputs[0].0], |tensor: &Tensor| Arc::clone(tensor.name()));
        let others = self.inputs.iter().map(|&(input, axis)| (&inputs[input], inputs[input].shape()[axis]));
        if let Some((other, got)) = others.into_iter().find(|&(_, got)| got != own) {
            return Err(SignatureMismatch::LengthsDiffer { first: (name(first), own), other: (name(other), got) });
        }
        let (min, max) = self.buckets.bounds();
        if (min..=max).contains(&own) {
            return Ok(());
        }
        Err(SignatureMismatch::Length { name: name(first), got: own, min, max })
    }
}

#[cfg(test)]
mod tests;
