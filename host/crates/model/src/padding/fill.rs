//! Elements that the server writes itself: padding, the ones and zeros of a mask, and lengths.

use half::{bf16, f16};

use crate::DataType;

/// Bytes of a chunk, unless one element is larger.
const CHUNK_BYTES: usize = 1024;

/// One element, over and over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    chunk: Vec<u8>,
    element_len: usize,
}

impl Fill {
    /// Of this element.
    fn new(element: &[u8]) -> Self {
        let element_len = element.len();
        Self { chunk: element.repeat((CHUNK_BYTES / element_len).max(1)), element_len }
    }

    /// Of the element that `text` is in `data_type`: an integer or a decimal number, `nan`, `inf`, `-inf`, `true` or
    /// `false`, or for BYTES the string itself; `None` where the type has no such element.
    pub(super) fn parse(data_type: DataType, text: &str) -> Option<Self> {
        element(data_type, text).map(|element| Self::new(&element))
    }

    /// Of the element that pads where nothing is said: zero, `false` or the empty string.
    pub(crate) fn zero(data_type: DataType) -> Self {
        Self::new(&[0; 8][..data_type.element_size().unwrap_or(4)])
    }

    /// Hands out `count` elements, some at a time.
    pub fn write(&self, count: u64, mut append: impl FnMut(&[u8])) {
        let per_chunk = (self.chunk.len() / self.element_len) as u64;
        for _ in 0..count / per_chunk {
            append(&self.chunk);
        }
        let rest = usize::try_from(count % per_chunk).unwrap_or(0);
        if rest > 0 {
            append(&self.chunk[..rest * self.element_len]);
        }
    }
}

/// A data type that can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountType(DataType);

impl CountType {
    /// The type, if it can hold every length there is memory for.
    pub(crate) fn new(data_type: DataType) -> Option<Self> {
        let counts = matches!(
            data_type,
            DataType::Int32 | DataType::Int64 | DataType::Uint32 | DataType::Uint64 | DataType::Fp32 | DataType::Fp64
        );
        counts.then_some(Self(data_type))
    }

    /// Hands out the element that is `count`; what a 32-bit type cannot hold becomes its largest value.
    pub fn write(self, count: u64, append: impl FnOnce(&[u8])) {
        match self.0 {
            DataType::Int32 => append(&i32::try_from(count).unwrap_or(i32::MAX).to_le_bytes()),
            DataType::Uint32 => append(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes()),
            DataType::Fp32 => append(&(count as f32).to_le_bytes()),
            DataType::Fp64 => append(&(count as f64).to_le_bytes()),
            _ => append(&count.to_le_bytes()),
        }
    }
}

fn element(data_type: DataType, text: &str) -> Option<Vec<u8>> {
    macro_rules! integer {
        ($type:ty) => {
            text.parse::<$type>().ok()?.to_le_bytes().to_vec()
        };
    }
    Some(match data_type {
        DataType::Bool => vec![u8::from(text.parse::<bool>().ok()?)],
        DataType::Uint8 => integer!(u8),
        DataType::Uint16 => integer!(u16),
        DataType::Uint32 => integer!(u32),
        DataType::Uint64 => integer!(u64),
        DataType::Int8 => integer!(i8),
        DataType::Int16 => integer!(i16),
        DataType::Int32 => integer!(i32),
        DataType::Int64 => integer!(i64),
        DataType::Fp16 => float(text, f16::from_f64, f16::is_infinite)?.to_le_bytes().to_vec(),
        DataType::Bf16 => float(text, bf16::from_f64, bf16::is_infinite)?.to_le_bytes().to_vec(),
        DataType::Fp32 => float(text, |value| value as f32, f32::is_infinite)?.to_le_bytes().to_vec(),
        DataType::Fp64 => float(text, |value| value, f64::is_infinite)?.to_le_bytes().to_vec(),
        DataType::Bytes => [&u32::try_from(text.len()).ok()?.to_le_bytes(), text.as_bytes()].concat(),
    })
}

/// A number in a narrower type; `None` where it would become infinite that is not written so.
fn float<T: Copy>(text: &str, narrow: impl Fn(f64) -> T, is_infinite: impl Fn(T) -> bool) -> Option<T> {
    let value = text.parse::<f64>().ok()?;
    let narrowed = narrow(value);
    let is_written = text.contains(['i', 'I']);
    (is_written || !is_infinite(narrowed)).then_some(narrowed)
}

/// What a padding value of the type looks like.
pub(super) fn values_of(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Bool => "true or false",
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => "a number the type can hold, nan or -inf",
        DataType::Bytes => "a string of less than 4 GiB",
        _ => "a whole number the type can hold",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(count: u64, fill: &Fill) -> Vec<u8> {
        let mut bytes = Vec::new();
        fill.write(count, |some| bytes.extend_from_slice(some));
        bytes
    }

    #[test]
    fn a_value_is_an_element_of_its_type_or_none() {
        let cases: [(DataType, &str, Option<&[u8]>); 24] = [
            (DataType::Bool, "true", Some(&[1])),
            (DataType::Bool, "1", None),
            (DataType::Uint8, "255", Some(&[255])),
            (DataType::Uint8, "256", None),
            (DataType::Uint8, "-1", None),
            (DataType::Uint16, "258", Some(&[2, 1])),
            (DataType::Int8, "-1", Some(&[255])),
            (DataType::Int16, "-2", Some(&[254, 255])),
            (DataType::Int32, "-1", Some(&[255; 4])),
            (DataType::Int32, "1.0", None),
            (DataType::Int64, "-100", Some(&[156, 255, 255, 255, 255, 255, 255, 255])),
            (DataType::Uint32, "1", Some(&[1, 0, 0, 0])),
            (DataType::Uint64, "18446744073709551615", Some(&[255; 8])),
            (DataType::Fp16, "1", Some(&[0, 0x3c])),
            (DataType::Fp16, "70000", None),
            (DataType::Bf16, "-2", Some(&[0, 0xc0])),
            (DataType::Fp32, "0.5", Some(&[0, 0, 0, 0x3f])),
            (DataType::Fp32, "-inf", Some(&[0, 0, 0x80, 0xff])),
            (DataType::Fp32, "1e39", None),
            (DataType::Fp64, "1", Some(&[0, 0, 0, 0, 0, 0, 0xf0, 0x3f])),
            (DataType::Fp64, "1e309", None),
            (DataType::Fp32, "zero", None),
            (DataType::Bytes, "", Some(&[0, 0, 0, 0])),
            (DataType::Bytes, "[PAD]", Some(b"\x05\0\0\0[PAD]")),
        ];
        for (data_type, text, expected) in cases {
            let fill = Fill::parse(data_type, text);
            let got = fill.as_ref().map(|fill| written(1, fill));
            assert_eq!(got.as_deref(), expected, "{data_type} {text}");
        }
        assert!(Fill::parse(DataType::Fp16, "nan").is_some_and(|fill| written(1, &fill)[1] & 0x7c == 0x7c));
    }

    #[test]
    fn any_number_of_elements_is_written() {
        let fill = Fill::parse(DataType::Uint16, "258").expect("fits");
        for count in [0, 1, 2, 511, 512, 513, 5000] {
            assert_eq!(written(count, &fill), [2, 1].repeat(usize::try_from(count).expect("small")), "{count}");
        }
        let long = "x".repeat(3 * CHUNK_BYTES);
        let fill = Fill::parse(DataType::Bytes, &long).expect("fits");
        assert_eq!(written(2, &fill).len(), 2 * (4 + long.len()));
        assert_eq!(written(1, &Fill::zero(DataType::Bytes)), [0; 4]);
        assert_eq!(written(3, &Fill::zero(DataType::Int64)), [0; 24]);
    }

    #[test]
    fn lengths_are_written_in_the_models_type() {
        let cases: [(DataType, u64, &[u8]); 6] = [
            (DataType::Int32, 258, &[2, 1, 0, 0]),
            (DataType::Int32, u64::MAX, &[255, 255, 255, 127]),
            (DataType::Uint32, 1, &[1, 0, 0, 0]),
            (DataType::Int64, 3, &[3, 0, 0, 0, 0, 0, 0, 0]),
            (DataType::Fp32, 2, &[0, 0, 0, 0x40]),
            (DataType::Fp64, 1, &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
        ];
        for (data_type, count, expected) in cases {
            let mut bytes = Vec::new();
            CountType::new(data_type).expect("counts").write(count, |some| bytes.extend_from_slice(some));
            assert_eq!(bytes, expected, "{data_type} {count}");
        }
        for data_type in [DataType::Bool, DataType::Int8, DataType::Fp16, DataType::Bytes] {
            assert_eq!(CountType::new(data_type), None, "{data_type}");
        }
    }
}
