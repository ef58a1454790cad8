//! Tensors along an axis other than the first: the runs of elements that lie side by side, and the cut that keeps the
//! first of each.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{BytesElements, Tensor, element_count};

impl Tensor {
    /// The tensor's blocks along `axis`, in order: each holds all elements that differ in this and later positions only.
    ///
    /// # Panics
    /// When the tensor has no such axis.
    pub fn blocks(&self, axis: usize) -> impl Iterator<Item = &[u8]> {
        let (outer, block) = self.shape.split_at(axis);
        assert!(!block.is_empty(), "the axis is one of the tensor's");
        let blocks = if self.data.is_empty() { 0 } else { element_count(outer).unwrap_or(0) };
        let mut runs = Runs::new(self);
        let elements = element_count(block).unwrap_or(0);
        (0..blocks).map(move |_| runs.take(elements))
    }

    /// The first `length` positions along `axis`: a view of the same memory where they lie side by side, as they do in a
    /// tensor of one row cut along the axis after it, else one copy.
    ///
    /// # Panics
    /// When the tensor has no such axis, or is shorter.
    #[must_use]
    pub fn cut(&self, axis: usize, length: u64) -> Self {
        assert!(length <= self.shape[axis], "a cut keeps no more than there is");
        if length == self.shape[axis] {
            return self.clone();
        }
        let mut shape = self.shape.clone();
        shape[axis] = length;
        let kept = element_count(&shape[axis..]).unwrap_or(0);
        let data = match element_count(&shape[..axis]) {
            Some(1) => self.data.slice(..Runs::new(self).take(kept).len()),
            _ => self.copy_of_first(axis, kept),
        };
        Self { name: Arc::clone(&self.name), data_type: self.data_type, shape, data }
    }

    /// The first `kept` elements of each block.
    fn copy_of_first(&self, axis: usize, kept: u64) -> Bytes {
        let mut data = BytesMut::new();
        if let Some(size) = self.data_type.element_size() {
            let blocks = element_count(&self.shape[..axis]).unwrap_or(0);
            data.reserve(usize::try_from(blocks * kept).unwrap_or(0) * size);
        }
        for block in self.blocks(axis) {
            data.extend_from_slice(Runs { data: block, ..Runs::new(self) }.take(kept));
        }
        data.freeze()
    }
}

/// Walks data in runs of whole elements.
struct Runs<'a> {
    data: &'a [u8],
    /// `None` where each element has a length of its own.
    element_size: Option<usize>,
}

impl<'a> Runs<'a> {
    fn new(tensor: &'a Tensor) -> Self {
        Self { data: &tensor.data, element_size: tensor.data_type.element_size() }
    }

    /// The next `count` elements, or what is left of them.
    fn take(&mut self, count: u64) -> &'a [u8] {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let len = match self.element_size {
            Some(size) => count.saturating_mul(size),
            None => BytesElements::new(self.data).skip_elements(count as u64),
        };
        let (run, rest) = self.data.split_at(len.min(self.data.len()));
        self.data = rest;
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;

    fn tensor(data_type: DataType, shape: &[u64], data: &'static [u8]) -> Tensor {
        Tensor::new("x".into(), data_type, shape.to_vec(), Bytes::from_static(data)).expect("fits")
    }

    const WORDS: &[u8] = b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc\x01\0\0\0d";

    #[test]
    fn blocks_are_what_lies_side_by_side() {
        let numbers = tensor(DataType::Uint16, &[2, 2, 1], &[0, 0, 1, 0, 2, 0, 3, 0]);
        assert_eq!(numbers.blocks(1).collect::<Vec<_>>(), [&[0, 0, 1, 0], &[2, 0, 3, 0]]);
        assert_eq!(numbers.blocks(2).count(), 4);
        let words = tensor(DataType::Bytes, &[2, 2], WORDS);
        assert_eq!(words.blocks(1).collect::<Vec<_>>(), [&WORDS[..9], &WORDS[9..]]);
        let empty = tensor(DataType::Uint16, &[1 << 40, 0], &[]);
        assert_eq!(empty.blocks(1).count(), 0, "what holds nothing costs nothing");
    }

    #[test]
    fn a_cut_keeps_the_first_positions_of_an_axis() {
        let numbers = tensor(DataType::Uint8, &[2, 3, 2], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let cut = numbers.cut(1, 2);
        assert_eq!((cut.shape(), &cut.data()[..]), (&[2, 2, 2][..], &[0, 1, 2, 3, 6, 7, 8, 9][..]));
        let cut = numbers.cut(2, 1);
        assert_eq!((cut.shape(), &cut.data()[..]), (&[2, 3, 1][..], &[0, 2, 4, 6, 8, 10][..]));
        let none = numbers.cut(1, 0);
        assert_eq!((none.shape(), none.data().len()), (&[2, 0, 2][..], 0));
        let words = tensor(DataType::Bytes, &[2, 2], WORDS).cut(1, 1);
        assert_eq!(&words.data()[..], b"\x01\0\0\0a\x02\0\0\0bc");
        assert_eq!(Tensor::new("x".into(), DataType::Bytes, vec![2, 1], words.data().clone()), Ok(words), "valid");
    }

    #[test]
    fn a_cut_of_one_row_or_of_nothing_is_a_view() {
        let row = tensor(DataType::Uint8, &[1, 3, 2], &[0, 1, 2, 3, 4, 5]);
        let cut = row.cut(1, 2);
        assert_eq!((cut.shape(), &cut.data()[..]), (&[1, 2, 2][..], &[0, 1, 2, 3][..]));
        assert_eq!(cut.data().as_ptr(), row.data().as_ptr());
        let whole = tensor(DataType::Uint8, &[2, 2], &[0, 1, 2, 3]);
        assert_eq!(whole.cut(1, 2).data().as_ptr(), whole.data().as_ptr());
        let word = tensor(DataType::Bytes, &[1, 2], &WORDS[..9]).cut(1, 1);
        assert_eq!(&word.data()[..], b"\x01\0\0\0a");
    }
}
