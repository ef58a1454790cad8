//! The classification extension: the highest values of an output, each as text with its position and, where the model has
//! labels, its label. Pure; HTTP and gRPC ask for it alike. Source: Triton's "Classification Extension", with the texts
//! of its front ends.

use std::cmp::Ordering;
use std::io::Write;
use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use model::{DataType, Tensor, TensorError};

/// Values of one row that are ranked, at most. Source: Triton's limit.
const ROW_VALUES_MAX: usize = 1_000_000;

/// How an output is ranked.
#[derive(Clone, Copy, Debug)]
pub struct Classification<'a> {
    /// Classes of each row, at most.
    pub classes: NonZeroU64,
    /// What the positions stand for.
    pub labels: Option<&'a [String]>,
    /// Whether the first dimension counts rows, each ranked on its own.
    pub has_batch_dimension: bool,
}

/// Why an output cannot be ranked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassificationError {
    /// Its values have no rank, or Triton ranks none of their type.
    #[error("class result not available for output due to unsupported type '{0}'")]
    Type(DataType),
    /// It has more values than are ranked.
    #[error("classification output tensor too large")]
    TooLarge,
    /// The texts do not add up to a tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl Classification<'_> {
    /// The ranking of `output`: BYTES of shape `[rows, classes]`, or `[classes]` without a batch dimension, each element
    /// `value:position` or `value:position:label`, from the highest value down. Equal values keep their order, and what is
    /// not a number comes last.
    ///
    /// # Errors
    /// A [`ClassificationError`] for a type or a size that is not ranked.
    pub fn rank(&self, output: &Tensor) -> Result<Tensor, ClassificationError> {
        match output.data_type() {
            DataType::Uint8 => self.rank_as(output, u8::from_le_bytes),
            DataType::Uint16 => self.rank_as(output, u16::from_le_bytes),
            DataType::Uint32 => self.rank_as(output, u32::from_le_bytes),
            DataType::Uint64 => self.rank_as(output, u64::from_le_bytes),
            DataType::Int8 => self.rank_as(output, i8::from_le_bytes),
            DataType::Int16 => self.rank_as(output, i16::from_le_bytes),
            DataType::Int32 => self.rank_as(output, i32::from_le_bytes),
            DataType::Int64 => self.rank_as(output, i64::from_le_bytes),
            DataType::Fp32 => self.rank_as(output, f32::from_le_bytes),
            DataType::Fp64 => self.rank_as(output, f64::from_le_bytes),
            other @ (DataType::Bool | DataType::Fp16 | DataType::Bf16 | DataType::Bytes) => {
                Err(ClassificationError::Type(other))
            }
        }
    }

    fn rank_as<const N: usize, T: Score>(
        &self,
        output: &Tensor,
        decode: fn([u8; N]) -> T,
    ) -> Result<Tensor, ClassificationError> {
        let (values, _) = output.data().as_chunks::<N>();
        let rows = match output.shape().first() {
            Some(&rows) if self.has_batch_dimension => rows,
            _ => 1,
        };
        let row_length = values.len().checked_div(usize::try_from(rows).unwrap_or(usize::MAX)).unwrap_or(0);
        if row_length > ROW_VALUES_MAX {
            return Err(ClassificationError::TooLarge);
        }
        let classes = usize::try_from(self.classes.get()).unwrap_or(usize::MAX).min(row_length);
        let mut data = Vec::new();
        for row in values.chunks_exact(row_length.max(1)) {
            let scores: Vec<T> = row.iter().map(|&bytes| decode(bytes)).collect();
            for position in highest(&scores, classes) {
                write_class(&mut data, scores[position], position, self.label(position));
            }
        }
        let shape = if self.has_batch_dimension { vec![rows, classes as u64] } else { vec![classes as u64] };
        Ok(Tensor::new(Arc::clone(output.name()), DataType::Bytes, shape, Bytes::from(data))?)
    }

    fn label(&self, position: usize) -> Option<&str> {
        let label = self.labels?.get(position)?;
        (!label.is_empty()).then_some(label.as_str())
    }
}

/// The positions of the `count` highest scores, the highest first.
fn highest<T: Score>(scores: &[T], count: usize) -> Vec<usize> {
    let order = |&one: &usize, &other: &usize| scores[one].rank(&scores[other]).then(one.cmp(&other));
    let mut positions: Vec<usize> = (0..scores.len()).collect();
    if count < positions.len() {
        positions.select_nth_unstable_by(count, order);
        positions.truncate(count);
    }
    positions.sort_unstable_by(order);
    positions
}

/// Appends one element: its length, then its text.
fn write_class<T: Score>(out: &mut Vec<u8>, score: T, position: usize, label: Option<&str>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    score.write(out);
    write!(out, ":{position}").expect("a vector takes every byte");
    if let Some(label) = label {
        out.push(b':');
        out.extend_from_slice(label.as_bytes());
    }
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// A value that can be ranked, and written as C's `std::to_string` writes it.
trait Score: Copy {
    /// Which comes first.
    fn rank(&self, other: &Self) -> Ordering;
    /// Appends the text.
    fn write(self, out: &mut Vec<u8>);
}

macro_rules! whole_scores {
    ($($type:ty)*) => {$(
        impl Score for $type {
            fn rank(&self, other: &Self) -> Ordering {
                other.cmp(self)
            }

            fn write(self, out: &mut Vec<u8>) {
                write!(out, "{self}").expect("a vector takes every byte");
            }
        }
    )*};
}
whole_scores!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Score for f64 {
    fn rank(&self, other: &Self) -> Ordering {
        other.partial_cmp(self).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
    }

    fn write(self, out: &mut Vec<u8>) {
        let sign = if self.is_sign_negative() { "-" } else { "" };
        let written = if self.is_nan() { write!(out, "{sign}nan") } else { write!(out, "{self:.6}") };
        written.expect("a vector takes every byte");
    }
}

impl Score for f32 {
    fn rank(&self, other: &Self) -> Ordering {
        f64::from(*self).rank(&f64::from(*other))
    }

    fn write(self, out: &mut Vec<u8>) {
        f64::from(self).write(out);
    }
}

#[cfg(test)]
mod tests {
    use model::BytesElements;

    use super::*;

    /// The shape, then the elements as text.
    fn ranked(classification: Classification<'_>, data_type: DataType, shape: &[u64], data: &[u8]) -> String {
        let output = Tensor::new("y".into(), data_type, shape.to_vec(), Bytes::copy_from_slice(data)).expect("fits");
        match classification.rank(&output) {
            Ok(classes) => {
                let elements = BytesElements::new(classes.data()).map(String::from_utf8_lossy);
                let elements: Vec<_> = elements.collect();
                format!("{} {}", model::display_shape(classes.shape()), elements.join(" "))
            }
            Err(error) => error.to_string(),
        }
    }

    fn classes(count: u64) -> Classification<'static> {
        let classes = NonZeroU64::new(count).expect("more than none");
        Classification { classes, labels: None, has_batch_dimension: true }
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn each_row_is_ranked_on_its_own() {
        let data = floats(&[0.1, 0.7, 0.2, -1.5, -3.0, 1e6]);
        let text = ranked(classes(2), DataType::Fp32, &[2, 3], &data);
        assert_eq!(text, "[2,2] 0.700000:1 0.200000:2 1000000.000000:2 -1.500000:0");
        let whole = Classification { has_batch_dimension: false, ..classes(9) };
        let text = ranked(whole, DataType::Fp32, &[2, 2], &floats(&[1.0, 4.0, 2.0, 3.0]));
        assert_eq!(text, "[4] 4.000000:1 3.000000:3 2.000000:2 1.000000:0", "no more classes than values");
        assert_eq!(ranked(whole, DataType::Fp32, &[], &floats(&[0.5])), "[1] 0.500000:0");
        assert_eq!(ranked(classes(1), DataType::Fp32, &[2, 0], b""), "[2,0] ");
    }

    #[test]
    fn labels_follow_the_position_where_there_are_any() {
        let labels = ["cat".to_owned(), String::new()];
        let classification = Classification { labels: Some(&labels), ..classes(3) };
        let text = ranked(classification, DataType::Int8, &[1, 3], &[5, 255, 7]);
        assert_eq!(text, "[1,3] 7:2 5:0:cat -1:1");
    }

    #[test]
    fn values_read_as_c_writes_them() {
        assert_eq!(ranked(classes(1), DataType::Uint64, &[1, 1], &[255; 8]), "[1,1] 18446744073709551615:0");
        assert_eq!(
            ranked(classes(1), DataType::Fp64, &[1, 1], &1e22_f64.to_le_bytes()),
            "[1,1] 10000000000000000000000.000000:0"
        );
        let odd = floats(&[f32::NAN, f32::NEG_INFINITY, -f32::NAN, f32::INFINITY, -0.0, 0.0]);
        let text = ranked(classes(6), DataType::Fp32, &[1, 6], &odd);
        assert_eq!(text, "[1,6] inf:3 -0.000000:4 0.000000:5 -inf:1 nan:0 -nan:2");
    }

    #[test]
    fn ties_keep_their_order() {
        assert_eq!(ranked(classes(3), DataType::Uint8, &[1, 5], &[1, 2, 2, 2, 2]), "[1,3] 2:1 2:2 2:3");
    }

    #[test]
    fn what_is_not_ranked() {
        let size = |data_type: DataType| data_type.element_size().unwrap_or(4);
        for data_type in [DataType::Bool, DataType::Fp16, DataType::Bf16, DataType::Bytes] {
            let text = ranked(classes(1), data_type, &[1, 1], &[0; 4][..size(data_type)]);
            assert_eq!(text, format!("class result not available for output due to unsupported type '{data_type}'"));
        }
        let limit = ROW_VALUES_MAX as u64;
        let text = ranked(classes(1), DataType::Uint8, &[1, limit + 1], &vec![0; ROW_VALUES_MAX + 1]);
        assert_eq!(text, "classification output tensor too large");
        assert_eq!(ranked(classes(1), DataType::Uint8, &[1, limit], &vec![0; ROW_VALUES_MAX]), "[1,1] 0:0");
    }
}
