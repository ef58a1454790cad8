//! A tensor's raw bytes as clients send them, behind the JSON of an HTTP body or in gRPC's `raw_input_contents`: little
//! endian, row-major, BYTES with a length before each element. They become a tensor without a copy, or a refusal in
//! Triton's words.

use std::sync::Arc;

use bytes::Bytes;
use model::{DataType, Tensor, TensorError, display_shape};

use crate::failure::clipped;

/// Bytes, and the tensor that they claim to be.
#[derive(Clone, Debug)]
pub struct RawInput<'a> {
    /// The model's name, for texts.
    pub model: &'a str,
    /// The input's name.
    pub name: Arc<str>,
    /// Its type.
    pub data_type: DataType,
    /// Its full shape.
    pub shape: Vec<u64>,
    /// Its elements.
    pub data: Bytes,
}

/// Why bytes are not the tensor that they claim to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawInputError {
    /// The shape has more elements than can be counted.
    #[error(
        "invalid shape for input '{name}': shape {shape} causes total element count to exceed maximum size of {}",
        i64::MAX
    )]
    #[expect(missing_docs, reason = "what the text says")]
    TooManyElements { name: String, shape: String },
    /// More or fewer bytes than type and shape ask for.
    #[error("input byte size mismatch for input '{name}' for model '{model}'. Expected {expected}, got {got}")]
    #[expect(missing_docs, reason = "what the text says")]
    ByteSize { model: String, name: String, expected: u64, got: u64 },
    /// BYTES data that does not hold one whole element per position.
    #[error("{0}")]
    Strings(String),
}

impl RawInputError {
    /// Whether Triton begins the text with the request's id.
    #[must_use]
    pub fn names_request(&self) -> bool {
        !matches!(self, Self::TooManyElements { .. })
    }
}

impl RawInput<'_> {
    /// The tensor; its data is a view of the bytes that came, but for BOOL elements other than 0 and 1, which become 1.
    ///
    /// # Errors
    /// A [`RawInputError`] where length and shape do not agree.
    pub fn into_tensor(self) -> Result<Tensor, RawInputError> {
        let Self { model, name, data_type, shape, data } = self;
        let data = if data_type == DataType::Bool { booleans(data) } else { data };
        Tensor::new(name, data_type, shape, data.clone()).map_err(|error| refusal(error, model, &data))
    }
}

/// Triton's words for an `error` of the input of `model` that `data` was to be.
fn refusal(error: TensorError, model: &str, data: &[u8]) -> RawInputError {
    match error {
        TensorError::TooManyElements { name, shape } => {
            RawInputError::TooManyElements { name: clipped(&name).into_owned(), shape: display_shape(&shape) }
        }
        TensorError::Length { name, expected, got, .. } => {
            RawInputError::ByteSize { model: model.to_owned(), name: clipped(&name).into_owned(), expected, got }
        }
        TensorError::Elements { name, expected, .. } => {
            let input = format!("'{}' for model '{model}'", clipped(&name));
            RawInputError::Strings(strings_text(data, expected, &input))
        }
        TensorError::Rows { .. } => unreachable!("a tensor made of bytes is put together from no others"),
    }
}

/// What the engine takes for a truth value is 0 or 1; clients that generate bytes at random send others.
fn booleans(data: Bytes) -> Bytes {
    if data.iter().all(|&byte| byte <= 1) {
        return data;
    }
    data.iter().map(|&byte| u8::from(byte != 0)).collect()
}

/// Triton's words for BYTES data that is not `expected` whole elements of `input`.
fn strings_text(data: &[u8], expected: u64, input: &str) -> String {
    let mut rest = data;
    let mut got = 0;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        if got == expected {
            let surplus = got + 1;
            return format!(
                "unexpected number of string elements {surplus} for inference input {input}, expecting {expected}"
            );
        }
        let length = u32::from_le_bytes(*length) as usize;
        let Some(next) = after.get(length..) else {
            return format!(
                "incomplete string data for inference input {input}, expecting string of length {length} but only {} \
                 bytes available. Please make sure the string is in one buffer.",
                after.len()
            );
        };
        rest = next;
        got += 1;
    }
    if rest.is_empty() {
        return format!("expected {expected} string elements for inference input {input}, got {got}");
    }
    format!(
        "incomplete string length indicator for inference input {input}, expecting 4 bytes but only {} bytes available. \
         Please make sure the string length indicator is in one buffer.",
        rest.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(data_type: DataType, shape: &[u64], data: &'static [u8]) -> Result<Tensor, RawInputError> {
        let data = Bytes::from_static(data);
        RawInput { model: "m", name: "x".into(), data_type, shape: shape.to_vec(), data }.into_tensor()
    }

    #[test]
    fn whole_bytes_become_a_view() {
        static DATA: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
        for (data_type, shape) in [(DataType::Fp32, &[1, 2][..]), (DataType::Uint8, &[8]), (DataType::Fp64, &[])] {
            let tensor = raw(data_type, shape, &DATA).expect("fits");
            assert_eq!(tensor.data().as_ptr(), DATA.as_ptr(), "{data_type}");
        }
        assert!(raw(DataType::Int64, &[3, 0], b"").is_ok());
        assert!(raw(DataType::Bytes, &[2], b"\x02\0\0\0\0\xff\0\0\0\0").is_ok(), "any bytes are a string");
    }

    #[test]
    fn booleans_are_0_or_1() {
        assert_eq!(&raw(DataType::Bool, &[4], &[0, 1, 2, 255]).expect("fits").data()[..], [0, 1, 1, 1]);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_tritons_words() {
        let cases = [
            (
                DataType::Fp32,
                &[1, 2][..],
                &[0; 7][..],
                "input byte size mismatch for input 'x' for model 'm'. Expected 8, got 7",
            ),
            (
                DataType::Uint8,
                &[u64::MAX, 2],
                b"",
                "invalid shape for input 'x': shape [18446744073709551615,2] causes total element count to exceed maximum size of 9223372036854775807",
            ),
            (
                DataType::Bytes,
                &[1],
                b"\x01\0\0\0a\x01\0\0\0b",
                "unexpected number of string elements 2 for inference input 'x' for model 'm', expecting 1",
            ),
            (
                DataType::Bytes,
                &[3],
                b"\x01\0\0\0a",
                "expected 3 string elements for inference input 'x' for model 'm', got 1",
            ),
            (
                DataType::Bytes,
                &[1],
                b"\x05\0\0\0ab",
                "incomplete string data for inference input 'x' for model 'm', expecting string of length 5 but only 2 bytes available. Please make sure the string is in one buffer.",
            ),
            (
                DataType::Bytes,
                &[1],
                b"\x01\0\0\0ab",
                "incomplete string length indicator for inference input 'x' for model 'm', expecting 4 bytes but only 1 bytes available. Please make sure the string length indicator is in one buffer.",
            ),
        ];
        for (data_type, shape, data, text) in cases {
            let error = raw(data_type, shape, data).expect_err(text);
            assert_eq!(error.to_string(), text);
            assert_eq!(error.names_request(), data_type != DataType::Uint8);
        }
    }
}
