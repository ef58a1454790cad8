//! A body in its parts: JSON alone, JSON with binary data after it, or the bytes of a single input. Source: Triton's
//! "Binary Tensor Data Extension".

use bytes::Bytes;
use model::ErrorCode;

use super::V2Error;
use super::fault::clipped;
use crate::shared_memory::RegionReader;

/// The header that says how long the JSON is.
pub(super) const HEADER: &str = "Inference-Header-Content-Length";

/// The body of an infer request.
#[derive(Clone, Debug)]
pub enum InferBody {
    /// JSON, and what comes after it.
    Described {
        /// The JSON.
        json: Bytes,
        /// The values of the inputs that say `binary_data_size`, in the order of the inputs.
        binary: Bytes,
    },
    /// The values of the model's single input, and nothing that describes them.
    Raw(Bytes),
}

impl InferBody {
    /// Splits `body` where the value of its `Inference-Header-Content-Length` says that the JSON ends; without one it is
    /// all JSON. 0 says that there is no JSON.
    ///
    /// # Errors
    /// Triton's text for a value that is no number, or not one within the body.
    pub fn split(mut body: Bytes, json_length: Option<&str>) -> Result<Self, V2Error> {
        let Some(text) = json_length else { return Ok(Self::Described { json: body, binary: Bytes::new() }) };
        let malformed = |text| V2Error { code: ErrorCode::MalformedRequest, text };
        let number: i128 =
            text.trim().parse().map_err(|_| malformed(format!("Unable to parse {HEADER}, got: {}", clipped(text))))?;
        match usize::try_from(number).ok().filter(|&length| length <= body.len()) {
            Some(0) => Ok(Self::Raw(body)),
            Some(length) => {
                let binary = body.split_off(length);
                Ok(Self::Described { json: body, binary })
            }
            None => {
                let bound = body.len();
                Err(malformed(format!("inference header size should be in range (0, {bound}), got: {}", clipped(text))))
            }
        }
    }
}

/// Where an input's values come from, other than the JSON.
#[derive(Debug)]
pub(super) struct Sources<'a> {
    /// What comes after the JSON.
    pub(super) binary: BinaryData,
    /// What clients share.
    pub(super) regions: RegionReader<'a>,
}

/// The binary data of a request, given out from its start.
#[derive(Debug)]
pub(super) struct BinaryData(Bytes);

impl BinaryData {
    pub(super) fn new(data: Bytes) -> Self {
        Self(data)
    }

    /// The next `size` bytes, as a view.
    ///
    /// # Errors
    /// How many are missing.
    pub(super) fn take(&mut self, size: u64) -> Result<Bytes, u64> {
        match usize::try_from(size).ok().filter(|&size| size <= self.0.len()) {
            Some(size) => Ok(self.0.split_to(size)),
            None => Err(size - self.0.len() as u64),
        }
    }

    /// Whether all has been given out.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
