//! Tensors that clients see with other dimensions than the model has (`reshape`, and scalars, which are served as one
//! element). Only shapes change: elements stay where they are.

/// How one tensor is seen from both sides. Patterns have no batch dimension; -1 is a free dimension, and both have the
/// same number of them, in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reshape {
    pub(crate) served: Vec<i64>,
    pub(crate) model: Vec<i64>,
    /// Whether a batch dimension comes first on both sides.
    pub(crate) batches: bool,
}

impl Reshape {
    /// The model's shape for a tensor that is served as `served`; `None` where that does not fit.
    pub(crate) fn to_model(&self, served: &[u64]) -> Option<Vec<u64>> {
        self.convert(served, &self.served, &self.model)
    }

    /// The shape to serve a tensor with that the model has as `model`; `None` where that does not fit.
    pub(crate) fn to_served(&self, model: &[u64]) -> Option<Vec<u64>> {
        self.convert(model, &self.model, &self.served)
    }

    fn convert(&self, shape: &[u64], from: &[i64], to: &[i64]) -> Option<Vec<u64>> {
        let (batch, dims) = shape.split_at_checked(usize::from(self.batches))?;
        if dims.len() != from.len() {
            return None;
        }
        let mut free = Vec::new();
        for (&pattern, &dim) in from.iter().zip(dims) {
            match u64::try_from(pattern) {
                Err(_) => free.push(dim),
                Ok(fixed) if fixed == dim => {}
                Ok(_) => return None,
            }
        }
        let mut free = free.into_iter();
        let dims = to.iter().map(|&pattern| u64::try_from(pattern).ok().or_else(|| free.next()));
        batch.iter().copied().map(Some).chain(dims).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_dimensions_keep_their_values_in_order() {
        type Case = (&'static [i64], &'static [i64], bool, &'static [u64], Option<&'static [u64]>);
        let cases: [Case; 8] = [
            (&[4], &[2, 2], true, &[7, 4], Some(&[7, 2, 2])),
            (&[1], &[], true, &[7, 1], Some(&[7])),
            (&[1], &[], false, &[1], Some(&[])),
            (&[-1, 4], &[2, -1, 2], false, &[5, 4], Some(&[2, 5, 2])),
            (&[-1, 3, -1], &[-1, -1, 3], true, &[2, 8, 3, 9], Some(&[2, 8, 9, 3])),
            (&[4], &[2, 2], true, &[7, 5], None),
            (&[4], &[2, 2], true, &[4], None),
            (&[4], &[2, 2], true, &[], None),
        ];
        for (served, model, batches, shape, expected) in cases {
            let reshape = Reshape { served: served.to_vec(), model: model.to_vec(), batches };
            let got = reshape.to_model(shape);
            assert_eq!(got.as_deref(), expected, "{served:?} {model:?} {shape:?}");
            if let Some(got) = got {
                assert_eq!(reshape.to_served(&got).as_deref(), Some(shape), "and back");
            }
        }
    }
}
