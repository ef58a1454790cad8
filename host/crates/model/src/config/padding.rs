//! Padding of variable-length inputs, as a configuration asks for it (the parameters `airlock.padding.…`): which inputs
//! grow to the batch's length and with what, which inputs tell the model what is real, which outputs are cut back, and
//! which lengths share a batch. What it means for one model is a [`Padding`](crate::Padding).

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

/// What a configuration asks for. Empty where nothing is padded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaddingConfig {
    /// The inputs to pad, by name.
    pub inputs: BTreeMap<Arc<str>, PaddedInput>,
    /// The inputs that the server fills in and no client sends, by name.
    pub filled: BTreeMap<Arc<str>, FilledInput>,
    /// The outputs to cut back to each request's own length, by name.
    pub outputs: BTreeMap<Arc<str>, CutOutput>,
    /// Buckets by the name of a length; a length without any has the default ones.
    pub buckets: BTreeMap<Arc<str>, Buckets>,
}

impl PaddingConfig {
    /// The name of the length where a parameter names none.
    pub const DEFAULT_LENGTH: &str = "length";

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An input that is padded (`airlock.padding.input.<input>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaddedInput {
    /// The length it shares with other inputs.
    pub length: Arc<str>,
    /// The axis to pad, the batch's being 0; `None` for the only free one.
    pub axis: Option<usize>,
    /// The element to pad with, as text; `None` for zero, `false` or the empty string.
    pub value: Option<String>,
}

/// An input that the server fills in (`airlock.padding.mask.<input>` and `airlock.padding.lengths.<input>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledInput {
    /// The length it tells of.
    pub length: Arc<str>,
    /// How it tells it.
    pub kind: FilledKind,
}

/// How the model is told what is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilledKind {
    /// 1 where an element is real, 0 where it is padding.
    Mask,
    /// Each row's own length.
    Lengths,
}

/// An output that is cut back (`airlock.padding.output.<output>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOutput {
    /// The length it has.
    pub length: Arc<str>,
    /// The axis to cut, the batch's being 0; `None` for the only free one.
    pub axis: Option<usize>,
}

/// Which lengths share a batch, and how long its inputs are (`airlock.padding.buckets`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// Where one bucket ends and the next begins.
    pub boundaries: Boundaries,
    /// How long a batch's inputs are.
    pub pad_to: PadTo,
}

/// The longest length of each bucket. An empty request is never padded: length 0 is a bucket of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Boundaries {
    /// 1, 2, 4, 8 …: no request grows to more than twice its length.
    #[default]
    PowersOfTwo,
    /// Multiples of this length.
    Step(NonZeroU64),
    /// These, ascending and at least 1. A longer request shares a batch with requests of its very length.
    Listed(Vec<u64>),
}

/// How long a batch's inputs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PadTo {
    /// As the batch's longest request.
    #[default]
    Longest,
    /// As its bucket's boundary, so that the model sees few shapes. Listed boundaries also bound what a request may
    /// bring, and empty requests are refused.
    Boundary,
}

impl Buckets {
    /// The boundary of the bucket that `length` belongs to; the length itself past the last listed one.
    #[must_use]
    pub fn boundary(&self, length: u64) -> u64 {
        match &self.boundaries {
            _ if length == 0 => 0,
            Boundaries::PowersOfTwo => length.checked_next_power_of_two().unwrap_or(length),
            Boundaries::Step(step) => length.div_ceil(step.get()).saturating_mul(step.get()),
            Boundaries::Listed(listed) => {
                let own = listed.partition_point(|&boundary| boundary < length);
                listed.get(own).copied().unwrap_or(length)
            }
        }
    }

    /// How long the inputs of a batch are whose longest request has this length.
    #[must_use]
    pub fn padded(&self, longest: u64) -> u64 {
        match self.pad_to {
            PadTo::Longest => longest,
            PadTo::Boundary => self.boundary(longest),
        }
    }

    /// The shortest and the longest length that a request may have.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        match (self.pad_to, &self.boundaries) {
            (PadTo::Longest, _) => (0, u64::MAX),
            (PadTo::Boundary, Boundaries::Listed(listed)) => (1, listed.last().copied().unwrap_or(u64::MAX)),
            (PadTo::Boundary, _) => (1, u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(boundaries: Boundaries, pad_to: PadTo) -> Buckets {
        Buckets { boundaries, pad_to }
    }

    fn step(step: u64) -> Boundaries {
        Boundaries::Step(NonZeroU64::new(step).expect("a step"))
    }

    #[test]
    fn a_length_belongs_to_the_first_boundary_that_holds_it() {
        let cases = [
            (Boundaries::PowersOfTwo, 0, 0),
            (Boundaries::PowersOfTwo, 1, 1),
            (Boundaries::PowersOfTwo, 3, 4),
            (Boundaries::PowersOfTwo, 64, 64),
            (Boundaries::PowersOfTwo, 65, 128),
            (Boundaries::PowersOfTwo, u64::MAX, u64::MAX),
            (step(50), 0, 0),
            (step(50), 1, 50),
            (step(50), 50, 50),
            (step(50), 51, 100),
            (step(u64::MAX), 1, u64::MAX),
            (Boundaries::Listed(vec![16, 64]), 0, 0),
            (Boundaries::Listed(vec![16, 64]), 1, 16),
            (Boundaries::Listed(vec![16, 64]), 16, 16),
            (Boundaries::Listed(vec![16, 64]), 17, 64),
            (Boundaries::Listed(vec![16, 64]), 65, 65),
        ];
        for (boundaries, length, boundary) in cases {
            let shown = format!("{boundaries:?} {length}");
            assert_eq!(buckets(boundaries, PadTo::Longest).boundary(length), boundary, "{shown}");
        }
    }

    #[test]
    fn a_batch_is_as_long_as_its_longest_request_or_its_boundary() {
        for (pad_to, padded) in [(PadTo::Longest, 17), (PadTo::Boundary, 64)] {
            assert_eq!(buckets(Boundaries::Listed(vec![16, 64]), pad_to).padded(17), padded);
        }
    }

    #[test]
    fn fixed_shapes_bound_what_a_request_may_bring() {
        let listed = || Boundaries::Listed(vec![16, 64]);
        let cases = [
            (listed(), PadTo::Longest, (0, u64::MAX)),
            (listed(), PadTo::Boundary, (1, 64)),
            (step(8), PadTo::Boundary, (1, u64::MAX)),
            (Boundaries::PowersOfTwo, PadTo::Longest, (0, u64::MAX)),
        ];
        for (boundaries, pad_to, bounds) in cases {
            assert_eq!(buckets(boundaries, pad_to).bounds(), bounds);
        }
    }
}
