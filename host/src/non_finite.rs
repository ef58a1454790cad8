//! Outputs that are no numbers: a NaN or an infinity in a model's answer is a fault of the model, or of what it was sent,
//! that nobody notices downstream. They are counted per output, and refused where the model's configuration says so.

use model::{DataType, Tensor};

/// Whether a tensor of floating-point numbers holds a NaN or an infinity; others hold none. Numbers are little-endian.
#[must_use]
pub fn is_non_finite(tensor: &Tensor) -> bool {
    let data = tensor.data();
    match tensor.data_type() {
        DataType::Fp64 => any_full_exponent(data, |bytes: [u8; 8]| {
            u64::from_le_bytes(bytes) & 0x7ff0_0000_0000_0000 == 0x7ff0_0000_0000_0000
        }),
        DataType::Fp32 => {
            any_full_exponent(data, |bytes: [u8; 4]| u32::from_le_bytes(bytes) & 0x7f80_0000 == 0x7f80_0000)
        }
        DataType::Fp16 => any_full_exponent(data, |bytes: [u8; 2]| u16::from_le_bytes(bytes) & 0x7c00 == 0x7c00),
        DataType::Bf16 => any_full_exponent(data, |bytes: [u8; 2]| u16::from_le_bytes(bytes) & 0x7f80 == 0x7f80),
        _ => false,
    }
}

/// Whether some number has an exponent of all ones: a NaN or an infinity. Without an early end inside a block, so that the
/// compiler looks at many at once.
fn any_full_exponent<const N: usize>(data: &[u8], is_full: impl Fn([u8; N]) -> bool) -> bool {
    const BLOCK: usize = 256;
    let (numbers, _) = data.as_chunks::<N>();
    numbers.chunks(BLOCK).any(|block| block.iter().fold(false, |any, bytes| any | is_full(*bytes)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use half::{bf16, f16};

    use super::*;

    fn tensor(data_type: DataType, data: Vec<u8>, size: usize) -> Tensor {
        let count = (data.len() / size) as u64;
        Tensor::new("y".into(), data_type, vec![count], Bytes::from(data)).expect("fits")
    }

    #[test]
    fn nan_and_infinities_are_found_wherever_they_are() {
        for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for place in [0, 1, 255, 256, 299] {
                let numbers = |special: f64| (0..300).map(move |index| if index == place { special } else { 1.5 });
                let cases = [
                    (DataType::Fp64, 8, numbers(special).flat_map(f64::to_le_bytes).collect::<Vec<u8>>()),
                    #[expect(clippy::cast_possible_truncation, reason = "the numbers stay what they are")]
                    (DataType::Fp32, 4, numbers(special).flat_map(|x| (x as f32).to_le_bytes()).collect()),
                    (DataType::Fp16, 2, numbers(special).flat_map(|x| f16::from_f64(x).to_le_bytes()).collect()),
                    (DataType::Bf16, 2, numbers(special).flat_map(|x| bf16::from_f64(x).to_le_bytes()).collect()),
                ];
                for (data_type, size, data) in cases {
                    assert!(is_non_finite(&tensor(data_type, data, size)), "{data_type:?} {special} at {place}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_finite_up_to_the_largest() {
        let largest = [f32::MAX, f32::MIN, 0.0, -0.0, f32::MIN_POSITIVE, 1e-45];
        let data: Vec<u8> = largest.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert!(!is_non_finite(&tensor(DataType::Fp32, data, 4)));
        assert!(!is_non_finite(&tensor(DataType::Fp16, f16::MAX.to_le_bytes().to_vec(), 2)));
        assert!(!is_non_finite(&tensor(DataType::Fp64, Vec::new(), 8)));
        assert!(!is_non_finite(&tensor(DataType::Int32, vec![0xff; 16], 4)), "integers are what they are");
    }
}
