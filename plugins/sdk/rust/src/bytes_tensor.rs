//! Tensors of byte strings: per element a little-endian `u32` length, then the bytes.

use crate::{DataType, PluginError, Tensor};

/// Bytes of the length in front of each element.
const LENGTH_SIZE: usize = size_of::<u32>();

impl Tensor {
    /// A tensor of byte strings. The host checks that the shape and the number of elements agree.
    ///
    /// # Errors
    /// `internal` where an element is longer than a 32-bit length can say.
    pub fn bytes<V: AsRef<[u8]>>(
        name: impl Into<String>,
        shape: impl Into<Vec<u64>>,
        values: &[V],
    ) -> Result<Self, PluginError> {
        let mut data = Vec::with_capacity(values.iter().map(|v| v.as_ref().len() + LENGTH_SIZE).sum());
        for (index, value) in values.iter().enumerate() {
            let value = value.as_ref();
            let length = u32::try_from(value.len()).map_err(|_| {
                PluginError::internal(format!("element {index} has {} bytes, the most is {}", value.len(), u32::MAX))
            })?;
            data.extend_from_slice(&length.to_le_bytes());
            data.extend_from_slice(value);
        }
        Ok(Self { name: name.into(), data_type: DataType::Bytes, shape: shape.into(), data })
    }

    /// The byte strings of the tensor, in row-major order.
    ///
    /// # Errors
    /// `internal` where the tensor is of another data type, or where its bytes end within an element.
    pub fn as_bytes(&self) -> Result<Vec<&[u8]>, PluginError> {
        self.expect_type(DataType::Bytes)?;
        let mut elements = Vec::new();
        let mut rest = self.data.as_slice();
        while !rest.is_empty() {
            let (element, after) = split_element(rest).ok_or_else(|| {
                PluginError::internal(format!(
                    "tensor `{}` ends within element {}: {} bytes are left",
                    self.name,
                    elements.len(),
                    rest.len()
                ))
            })?;
            elements.push(element);
            rest = after;
        }
        Ok(elements)
    }

    /// The strings of the tensor, in row-major order.
    ///
    /// # Errors
    /// `internal` as for [`Tensor::as_bytes`], and where an element is not UTF-8.
    pub fn as_text(&self) -> Result<Vec<&str>, PluginError> {
        let elements = self.as_bytes()?;
        let texts = elements.into_iter().enumerate().map(|(index, element)| {
            std::str::from_utf8(element).map_err(|error| {
                PluginError::internal(format!("element {index} of tensor `{}` is not UTF-8: {error}", self.name))
            })
        });
        texts.collect()
    }
}

fn split_element(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<LENGTH_SIZE>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_read_back() {
        let tensor = Tensor::bytes("words", [3], &["a", "", "\u{e9}t\u{e9}"]).unwrap();
        assert_eq!(tensor.data, b"\x01\0\0\0a\0\0\0\0\x05\0\0\0\xc3\xa9t\xc3\xa9");
        assert_eq!(tensor.as_text().unwrap(), ["a", "", "\u{e9}t\u{e9}"]);
        assert_eq!(Tensor::bytes::<&[u8]>("none", [0], &[]).unwrap().as_bytes().unwrap(), Vec::<&[u8]>::new());
    }

    #[test]
    fn a_cut_tensor_is_refused() {
        for cut in 1..5 {
            let mut tensor = Tensor::bytes("words", [2], &["a", "b"]).unwrap();
            tensor.data.truncate(tensor.data.len() - cut);
            let error = tensor.as_bytes().unwrap_err();
            let PluginError::Internal(text) = error else { panic!("{error:?}") };
            assert!(text.contains("`words` ends within element 1"), "{text}");
        }
    }

    #[test]
    fn what_is_not_text_is_refused() {
        let tensor = Tensor::bytes("words", [2], &[b"ok".as_slice(), b"\xff"]).unwrap();
        assert_eq!(tensor.as_bytes().unwrap(), [b"ok".as_slice(), b"\xff"]);
        let error = tensor.as_text().unwrap_err();
        let PluginError::Internal(text) = error else { panic!("{error:?}") };
        assert!(text.contains("element 1 of tensor `words` is not UTF-8"), "{text}");
        assert!(Tensor::fp32("x", [1], &[0.0]).as_bytes().is_err());
    }
}
