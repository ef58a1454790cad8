//! A tensor as it travels between clients, plugins and the engine: named, typed, shaped bytes whose length is known to
//! fit. Cloning one copies no data.

mod axis;

use std::sync::Arc;

use bytes::Bytes;

use crate::{DataType, display_shape};

/// A named tensor: little-endian, row-major. `data.len()` always fits `data_type` and `shape`; for
/// [`DataType::Bytes`] the data holds exactly one length-prefixed element per position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    name: Arc<str>,
    data_type: DataType,
    shape: Vec<u64>,
    data: Bytes,
}

/// Why bytes are not a tensor of the stated type and shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The shape's element count does not fit 63 bits.
    #[error("tensor '{name}' of shape {} has more elements than fit 63 bits", display_shape(shape))]
    TooManyElements {
        /// The tensor.
        name: String,
        /// Its stated shape.
        shape: Vec<u64>,
    },
    /// The data has another length than type and shape ask for.
    #[error("tensor '{name}' of type {data_type} and shape {} needs {expected} bytes, got {got}", display_shape(shape))]
    Length {
        /// The tensor.
        name: String,
        /// Its stated type.
        data_type: DataType,
        /// Its stated shape.
        shape: Vec<u64>,
        /// Bytes that type and shape ask for.
        expected: u64,
        /// Bytes present.
        got: u64,
    },
    /// A BYTES tensor whose lengths do not add up.
    #[error(
        "tensor '{name}' of type BYTES and shape {} needs {expected} length-prefixed elements filling its data exactly, \
         got {got} in {len} bytes",
        display_shape(shape)
    )]
    Elements {
        /// The tensor.
        name: String,
        /// Its stated shape.
        shape: Vec<u64>,
        /// Elements the shape asks for.
        expected: u64,
        /// Whole elements found.
        got: u64,
        /// Bytes present.
        len: usize,
    },
    /// Tensors that differ in more than their rows.
    #[error("rows of tensor '{name}' cannot be put together: some are {first}, some {other}")]
    Rows {
        /// The tensor.
        name: String,
        /// Type and shape of the first rows.
        first: String,
        /// Type and shape of rows that do not go with them.
        other: String,
    },
}

/// Elements of a tensor of `shape` (1 for a scalar); `None` when the count does not fit 63 bits.
#[must_use]
pub fn element_count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let count = shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim))?;
    (i64::try_from(count).is_ok()).then_some(count)
}

impl Tensor {
    /// Checks that `data` is a tensor of `data_type` and `shape`.
    ///
    /// # Errors
    /// A [`TensorError`] naming the tensor, what was expected and what was given.
    pub fn new(name: Arc<str>, data_type: DataType, shape: Vec<u64>, data: Bytes) -> Result<Self, TensorError> {
        let Some(count) = element_count(&shape) else {
            return Err(TensorError::TooManyElements { name: name.to_string(), shape });
        };
        match data_type.element_size() {
            Some(size) => {
                let expected = count.saturating_mul(size as u64);
                if expected != data.len() as u64 {
                    let got = data.len() as u64;
                    return Err(TensorError::Length { name: name.to_string(), data_type, shape, expected, got });
                }
            }
            None => check_elements(&name, &shape, count, &data)?,
        }
        Ok(Self { name, data_type, shape, data })
    }

    /// The tensor's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The element type.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The full v2 shape, batch dimension first where the model batches.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The elements, little-endian and row-major.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The parts, for moving a tensor on without a copy.
    #[must_use]
    pub fn into_parts(self) -> (Arc<str>, DataType, Vec<u64>, Bytes) {
        (self.name, self.data_type, self.shape, self.data)
    }

    /// The same tensor in memory of its own, where this one may be a view of something larger.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { data: Bytes::copy_from_slice(&self.data), ..self.clone() }
    }

    /// Cuts the tensor along its first dimension into pieces of `rows[i]` rows each, sharing the data.
    /// `rows` must add up to the first dimension.
    #[must_use]
    pub fn split_rows(&self, rows: &[u64]) -> Vec<Self> {
        debug_assert_eq!(self.shape.first().copied(), Some(rows.iter().sum()), "rows add up to the first dimension");
        let per_row = element_count(self.shape.get(1..).unwrap_or(&[])).unwrap_or(0);
        let mut elements = BytesElements::new(&self.data);
        let mut start = 0;
        rows.iter()
            .map(|&count| {
                let end = match self.data_type.element_size() {
                    Some(size) => start + usize::try_from(count * per_row).unwrap_or(usize::MAX) * size,
                    None => elements.skip_elements(count * per_row),
                };
                let mut shape = self.shape.clone();
                shape[0] = count;
                let piece = Self {
                    name: Arc::clone(&self.name),
                    data_type: self.data_type,
                    shape,
                    data: self.data.slice(start..end),
                };
                start = end;
                piece
            })
            .collect()
    }

    /// Cuts the tensor into pieces of these shapes, one behind the other, sharing the data. Their elements must add up to
    /// the tensor's.
    #[must_use]
    pub fn scatter(self, shapes: &[Vec<u64>]) -> Vec<Self> {
        let counts: Vec<u64> = shapes.iter().map(|shape| element_count(shape).unwrap_or(0)).collect();
        let flat = Self { shape: vec![element_count(&self.shape).unwrap_or(0)], ..self };
        let pieces = flat.split_rows(&counts).into_iter().zip(shapes);
        pieces.map(|(piece, shape)| Self { shape: shape.clone(), ..piece }).collect()
    }

    /// Puts the rows of `later` behind this tensor's, in order: the way back from [`split_rows`](Self::split_rows). The
    /// data is copied once; without `later` it is not copied.
    ///
    /// # Errors
    /// [`TensorError::Rows`] when one differs from this tensor in its type or any dimension but the first, or has none.
    pub fn join_rows(self, later: &[Self]) -> Result<Self, TensorError> {
        if later.is_empty() {
            return Ok(self);
        }
        if let Some(other) = later.iter().find(|other| !self.has_rows_like(other)) {
            let (name, first) = (self.name.to_string(), self.describe());
            return Err(TensorError::Rows { name, first, other: other.describe() });
        }
        let parts = || std::iter::once(&self).chain(later);
        let mut data = Vec::with_capacity(parts().map(|part| part.data.len()).sum());
        parts().for_each(|part| data.extend_from_slice(&part.data));
        let mut shape = self.shape.clone();
        shape[0] = parts().fold(0, |rows, part| part.shape[0].saturating_add(rows));
        Ok(Self { shape, data: Bytes::from(data), ..self })
    }

    /// Whether `other` differs in its number of rows at most.
    fn has_rows_like(&self, other: &Self) -> bool {
        let rows = (self.shape.split_first(), other.shape.split_first());
        self.data_type == other.data_type && matches!(rows, (Some((_, own)), Some((_, others))) if own == others)
    }

    fn describe(&self) -> String {
        format!("{} {}", self.data_type, display_shape(&self.shape))
    }
}

fn check_elements(name: &str, shape: &[u64], expected: u64, data: &Bytes) -> Result<(), TensorError> {
    let mut elements = BytesElements::new(data);
    let got = elements.by_ref().count() as u64;
    if got == expected && elements.is_exhausted() {
        return Ok(());
    }
    Err(TensorError::Elements { name: name.to_owned(), shape: shape.to_vec(), expected, got, len: data.len() })
}

/// Walks the elements of BYTES data: a little-endian `u32` length, then that many bytes, again and again. Ends at the
/// first element that is not whole.
#[derive(Clone, Debug)]
pub struct BytesElements<'a> {
    data: &'a [u8],
    position: usize,
}

impl<'a> BytesElements<'a> {
    /// Starts at the first element of `data`.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0 }
    }

    /// Whether everything was whole elements and has been read.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.position == self.data.len()
    }

    /// Passes over `count` elements and returns the byte offset reached.
    fn skip_elements(&mut self, count: u64) -> usize {
        for _ in 0..count {
            if self.next().is_none() {
                break;
            }
        }
        self.position
    }
}

impl<'a> Iterator for BytesElements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.data.get(self.position..)?.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let element = rest.get(..length)?;
        self.position += 4 + length;
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(data_type: DataType, shape: &[u64], data: &'static [u8]) -> Result<Tensor, TensorError> {
        Tensor::new("x".into(), data_type, shape.to_vec(), Bytes::from_static(data))
    }

    #[test]
    fn data_must_fit_type_and_shape() {
        assert!(tensor(DataType::Fp32, &[1, 2], &[0; 8]).is_ok());
        assert!(tensor(DataType::Fp32, &[], &[0; 4]).is_ok(), "a scalar has one element");
        assert!(tensor(DataType::Fp32, &[3, 0], &[]).is_ok());
        assert_eq!(
            tensor(DataType::Fp32, &[1, 2], &[0; 7]).expect_err("short").to_string(),
            "tensor 'x' of type FP32 and shape [1,2] needs 8 bytes, got 7"
        );
        assert!(matches!(tensor(DataType::Uint8, &[u64::MAX, 2], &[]), Err(TensorError::TooManyElements { .. })));
    }

    #[test]
    fn bytes_elements_must_fill_the_data() {
        assert!(tensor(DataType::Bytes, &[2], b"\x01\0\0\0a\0\0\0\0").is_ok());
        for bad in [&b"\x01\0\0\0a"[..], b"\x02\0\0\0a\0\0\0\0", b"\x01\0\0\0a\0\0\0\0x"] {
            let error = tensor(DataType::Bytes, &[2], bad).expect_err("not two whole elements");
            assert!(matches!(error, TensorError::Elements { .. }), "{error}");
        }
    }

    #[test]
    fn rows_are_views_of_the_same_memory() {
        let whole = tensor(DataType::Uint16, &[3, 2], &[0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]).expect("fits");
        let pieces = whole.split_rows(&[1, 2]);
        assert_eq!(pieces[0].shape(), [1, 2]);
        assert_eq!(&pieces[1].data()[..], [2, 0, 3, 0, 4, 0, 5, 0]);
        assert_eq!(pieces[1].data().as_ptr(), whole.data()[4..].as_ptr());

        let words = tensor(DataType::Bytes, &[3, 1], b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc").expect("fits");
        let pieces = words.split_rows(&[2, 1]);
        assert_eq!(&pieces[0].data()[..], b"\x01\0\0\0a\0\0\0\0");
        assert_eq!(&pieces[1].data()[..], b"\x02\0\0\0bc");
    }

    #[test]
    fn a_scattered_tensor_has_its_elements_in_other_shapes() {
        let numbers = tensor(DataType::Uint16, &[3, 2], &[0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]).expect("fits");
        let start = numbers.data().as_ptr();
        let pieces = numbers.scatter(&[vec![1, 4], vec![0, 9], vec![2, 1, 1]]);
        assert_eq!(pieces.iter().map(Tensor::shape).collect::<Vec<_>>(), [&[1, 4][..], &[0, 9], &[2, 1, 1]]);
        assert_eq!((&pieces[0].data()[..], pieces[0].data().as_ptr()), (&[0, 0, 1, 0, 2, 0, 3, 0][..], start));
        assert_eq!((pieces[1].data().len(), &pieces[2].data()[..]), (0, &[4, 0, 5, 0][..]));

        let words = tensor(DataType::Bytes, &[3], b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc").expect("fits");
        let pieces = words.scatter(&[vec![1, 2], vec![1]]);
        assert_eq!((&pieces[0].data()[..], pieces[1].shape()), (&b"\x01\0\0\0a\0\0\0\0"[..], &[1][..]));
    }

    #[test]
    fn rows_that_were_cut_can_be_put_together() {
        let numbers = tensor(DataType::Uint16, &[3, 2], &[0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]).expect("fits");
        let words = tensor(DataType::Bytes, &[3, 1], b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc").expect("fits");
        for whole in [numbers, words] {
            for cut in [&[3][..], &[1, 2], &[1, 1, 1], &[2, 0, 1]] {
                let mut pieces = whole.split_rows(cut);
                let later = pieces.split_off(1);
                let first = pieces.pop().expect("a piece");
                assert_eq!(first.join_rows(&later).as_ref(), Ok(&whole), "{cut:?}");
            }
        }
    }

    #[test]
    fn a_single_tensor_is_put_together_without_a_copy() {
        let whole = tensor(DataType::Uint8, &[2, 1], &[1, 2]).expect("fits");
        let data = whole.data().as_ptr();
        assert_eq!(whole.join_rows(&[]).expect("alone").data().as_ptr(), data);
    }

    #[test]
    fn rows_that_differ_cannot_be_put_together() {
        let first = tensor(DataType::Uint8, &[1, 2], &[0; 2]).expect("fits");
        let cases = [
            (tensor(DataType::Uint8, &[1, 3], &[0; 3]), "some are UINT8 [1,2], some UINT8 [1,3]"),
            (tensor(DataType::Int8, &[1, 2], &[0; 2]), "some are UINT8 [1,2], some INT8 [1,2]"),
            (tensor(DataType::Uint8, &[], &[0; 1]), "some are UINT8 [1,2], some UINT8 []"),
        ];
        for (other, differ) in cases {
            let error = first.clone().join_rows(&[first.clone(), other.expect("fits")]).expect_err(differ);
            assert_eq!(error.to_string(), format!("rows of tensor 'x' cannot be put together: {differ}"));
        }
        let scalar = tensor(DataType::Uint8, &[], &[0; 1]).expect("fits");
        assert!(scalar.clone().join_rows(&[scalar]).is_err(), "scalars have no rows");
    }
}
