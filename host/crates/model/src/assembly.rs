//! How a batch is put together from its requests and taken apart again, for models where that is more than rows one
//! behind the other: inputs of different lengths are [padded](Padding), inputs of different shapes are laid
//! [end to end](Ragged), or inputs are [left out](OptionalInputs). What of a batch comes from requests and what is filled
//! in is decided here and nowhere else; a batch of live requests and a warm-up take the same way. Nothing of a request
//! is changed; one that runs again runs as it came.

mod optional;
mod padded;
mod ragged;

use std::sync::Arc;

pub use optional::OptionalInputs;
use padded::PaddedBatch;
use ragged::RaggedBatch;
pub use ragged::{Ragged, RaggedError};

use crate::{BatchLayout, EngineError, Padding, SignatureMismatch, Slot, Tensor};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assembly {
    /// Requests of different lengths share a batch.
    Padded(Arc<Padding>),
    /// Requests of different shapes share a batch.
    Ragged(Arc<Ragged>),
    /// Requests may leave inputs out. They run alone.
    Optional(Arc<OptionalInputs>),
}

/// A request's inputs, in the order of the signature that is served, and its rows.
pub type Request<'a> = (&'a [Tensor], u64);

impl Assembly {
    /// What a request must share with others to run with them. It has passed [`check`](Self::check).
    #[must_use]
    pub fn key(&self, inputs: &[Tensor]) -> Vec<u64> {
        match self {
            Self::Padded(padding) => padding.key(inputs),
            Self::Ragged(ragged) => ragged.key(inputs),
            Self::Optional(_) => Vec::new(),
        }
    }

    /// Checks of a request what the signature cannot, whose check it has passed.
    ///
    /// # Errors
    /// The first [`SignatureMismatch`].
    pub fn check(&self, inputs: &[Tensor]) -> Result<(), SignatureMismatch> {
        match self {
            Self::Padded(padding) => padding.check(inputs),
            Self::Ragged(_) | Self::Optional(_) => Ok(()),
        }
    }

    /// The batch of these requests.
    #[must_use]
    pub fn batch<'a>(&self, requests: impl Iterator<Item = Request<'a>>) -> AssembledBatch {
        AssembledBatch(match self {
            Self::Padded(padding) => Kind::Padded(PaddedBatch::new(padding, requests)),
            Self::Ragged(ragged) => Kind::Ragged(RaggedBatch::new(ragged, requests)),
            Self::Optional(optional) => Kind::Optional(Arc::clone(optional)),
        })
    }
}

/// A batch on its way through an instance. It remembers of its requests what is needed to take the outputs apart.
#[derive(Debug)]
pub struct AssembledBatch(Kind);

#[derive(Debug)]
enum Kind {
    Padded(PaddedBatch),
    Ragged(RaggedBatch),
    Optional(Arc<OptionalInputs>),
}

impl AssembledBatch {
    /// Writes the shapes of the batch of `requests`, `rows` in all. What `layout` held before is reused.
    pub fn write_layout<'a>(
        &self,
        layout: &mut BatchLayout,
        requests: &(impl Iterator<Item = Request<'a>> + Clone),
        rows: u64,
    ) {
        layout.absent.clear();
        let first = requests.clone().next().map_or(&[][..], |(inputs, _)| inputs);
        match &self.0 {
            Kind::Padded(padded) => padded.write_layout(layout, first, rows),
            Kind::Ragged(ragged) => ragged.write_layout(layout, requests, rows),
            Kind::Optional(optional) => optional.write_layout(layout, first),
        }
    }

    /// Writes every input of the batch.
    pub fn write<'a>(&self, slot: &mut dyn Slot, requests: &(impl Iterator<Item = Request<'a>> + Clone)) {
        match &self.0 {
            Kind::Padded(padded) => padded.write(slot, requests),
            Kind::Ragged(ragged) => ragged.write(slot, requests),
            Kind::Optional(optional) => requests.clone().for_each(|(inputs, _)| optional.write(slot, inputs)),
        }
    }

    /// Whether output `output` has a row for each row of the batch.
    #[must_use]
    pub fn has_rows(&self, output: usize) -> bool {
        match &self.0 {
            Kind::Padded(_) | Kind::Optional(_) => true,
            Kind::Ragged(ragged) => !ragged.scatters(output),
        }
    }

    /// Checks that the outputs, whose rows are right, can be taken apart.
    ///
    /// # Errors
    /// [`EngineError::Output`] for the first that cannot.
    pub fn check(&self, outputs: &[Tensor]) -> Result<(), EngineError> {
        match &self.0 {
            Kind::Padded(padded) => padded.check(outputs),
            Kind::Ragged(ragged) => ragged.check(outputs),
            Kind::Optional(_) => Ok(()),
        }
    }

    /// Each request's outputs, as it would have them alone. They have passed [`check`](Self::check); `rows` are the row
    /// counts of the requests.
    #[must_use]
    pub fn split(&self, outputs: Vec<Tensor>, rows: &[u64]) -> Vec<Vec<Tensor>> {
        match &self.0 {
            Kind::Padded(padded) => padded.split(outputs, rows),
            Kind::Ragged(ragged) => ragged.split(outputs, rows),
            Kind::Optional(_) => split_outputs(outputs, rows),
        }
    }
}

/// Cuts tensors of the same rows into pieces of `rows[i]` rows each, which must add up; views of the same memory.
pub fn split_tensors(tensors: &[Tensor], rows: &[u64]) -> impl Iterator<Item = Vec<Tensor>> {
    let mut pieces: Vec<_> = tensors.iter().map(|tensor| tensor.split_rows(rows).into_iter()).collect();
    rows.iter().map(move |_| pieces.iter_mut().filter_map(Iterator::next).collect())
}

/// Each request's outputs, in the order of `rows`. One request alone gets the outputs as they are.
#[must_use]
pub fn split_outputs(tensors: Vec<Tensor>, rows: &[u64]) -> Vec<Vec<Tensor>> {
    if rows.len() == 1 { vec![tensors] } else { split_tensors(&tensors, rows).collect() }
}
