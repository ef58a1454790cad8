//! Inputs that a request may leave out: the model then uses the values in its file. A request that leaves some out runs
//! alone, and brings the others in the model's order.

use std::sync::Arc;

use crate::{BatchLayout, Signature, Slot, Tensor};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalInputs {
    /// Every input of the model, in its order.
    names: Vec<Arc<str>>,
}

impl OptionalInputs {
    /// Of a model with this signature; `None` where it needs all of its inputs.
    #[must_use]
    pub fn of(model: &Signature) -> Option<Self> {
        let names = || model.inputs.iter().map(|spec| Arc::clone(&spec.name)).collect();
        (model.optional_inputs > 0).then(|| Self { names: names() })
    }

    pub(super) fn write_layout(&self, layout: &mut BatchLayout, inputs: &[Tensor]) {
        layout.rows = None;
        layout.shapes.resize_with(self.names.len(), Vec::new);
        for (position, (shape, input)) in layout.shapes.iter_mut().zip(self.given(inputs)).enumerate() {
            shape.clear();
            match input {
                Some(input) => shape.extend_from_slice(input.shape()),
                None => layout.absent.push(position),
            }
        }
    }

    pub(super) fn write(&self, slot: &mut dyn Slot, inputs: &[Tensor]) {
        for (position, input) in self.given(inputs).enumerate() {
            if let Some(input) = input {
                slot.append(position, input.data());
            }
        }
    }

    /// By input of the model: what the request brings for it.
    fn given<'a>(&'a self, inputs: &'a [Tensor]) -> impl Iterator<Item = Option<&'a Tensor>> {
        let mut inputs = inputs.iter().peekable();
        self.names.iter().map(move |name| inputs.next_if(|input| input.name() == name))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Assembly, DataType, TensorSpec};

    #[derive(Default)]
    struct Appended(Vec<(usize, Vec<u8>)>);

    impl Slot for Appended {
        fn append(&mut self, input: usize, elements: &[u8]) {
            self.0.push((input, elements.to_vec()));
        }
    }

    fn signature(optional_inputs: usize) -> Signature {
        let spec = |name: &str| TensorSpec { name: name.into(), data_type: DataType::Uint8, shape: vec![-1] };
        Signature { inputs: vec![spec("x"), spec("a"), spec("b")], optional_inputs, ..Signature::default() }
    }

    fn tensor(name: &str, data: &'static [u8]) -> Tensor {
        Tensor::new(name.into(), DataType::Uint8, vec![data.len() as u64], Bytes::from_static(data)).expect("fits")
    }

    #[test]
    fn what_is_left_out_is_absent_and_the_rest_keeps_its_place() {
        type Case = (Vec<Tensor>, Vec<usize>, Vec<Vec<u64>>);
        let (x, a, b) = (|| tensor("x", b"xx"), || tensor("a", b"a"), || tensor("b", b"bbb"));
        let cases: [Case; 4] = [
            (vec![x(), a(), b()], vec![], vec![vec![2], vec![1], vec![3]]),
            (vec![x(), b()], vec![1], vec![vec![2], vec![], vec![3]]),
            (vec![x(), a()], vec![2], vec![vec![2], vec![1], vec![]]),
            (vec![x()], vec![1, 2], vec![vec![2], vec![], vec![]]),
        ];
        let assembly = Assembly::Optional(Arc::new(OptionalInputs::of(&signature(2)).expect("two of them")));
        let mut layout = BatchLayout { shapes: vec![vec![9; 9]; 9], rows: Some(7), absent: vec![5] };
        for (inputs, absent, shapes) in cases {
            let requests = std::iter::once((&inputs[..], 1));
            let batch = assembly.batch(requests.clone());
            batch.write_layout(&mut layout, &requests, 1);
            assert_eq!((&layout.absent, &layout.shapes, layout.rows), (&absent, &shapes, None));
            let mut slot = Appended::default();
            batch.write(&mut slot, &requests);
            let expected: Vec<_> = (0..3).filter(|at| !absent.contains(at)).collect();
            assert_eq!(slot.0.iter().map(|(at, _)| *at).collect::<Vec<_>>(), expected);
            assert!(slot.0.iter().zip(&inputs).all(|((_, data), input)| data[..] == input.data()[..]));
        }
    }

    #[test]
    fn a_model_that_needs_everything_has_none() {
        assert_eq!(OptionalInputs::of(&signature(0)), None);
    }
}
