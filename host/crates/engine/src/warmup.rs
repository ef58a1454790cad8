//! The requests a configuration asks to run on every instance before it serves (Triton's `model_warmup`). They take the
//! way of any other batch: checked against the signature that is served, put together as a batch of one request, run, and
//! their outputs checked.

use std::sync::mpsc::channel;

use bytes::{Bytes, BytesMut};
use model::{
    AssembledBatch, Assembly, BatchLayout, DataType, EngineError, LoadError, ModelConfig, ModelInstance, Request,
    Signature, Slot, Tensor, WarmupData, WarmupInput, WarmupSample, element_count,
};

/// A warm-up request, checked and with its elements made.
pub(crate) struct Warmup<'a> {
    sample: &'a WarmupSample,
    inputs: Vec<Tensor>,
    /// `None` where the inputs are the batch.
    assembled: Option<AssembledBatch>,
    rows: u64,
    batches: bool,
}

/// Makes the elements of every sample of `config`.
///
/// # Errors
/// [`LoadError::Warmup`] naming the sample that does not fit the signature.
pub(crate) fn prepare<'a>(
    config: &'a ModelConfig,
    signature: &Signature,
    assembly: Option<&Assembly>,
) -> Result<Vec<Warmup<'a>>, LoadError> {
    let checked = config.warmup.iter().map(|sample| {
        let (inputs, rows) = inputs_of(sample, config, signature, assembly)
            .map_err(|message| LoadError::Warmup { sample: sample.name.clone(), message })?;
        let assembled = assembly.map(|assembly| assembly.batch(std::iter::once((&inputs[..], rows))));
        Ok(Warmup { sample, inputs, assembled, rows, batches: config.max_batch_size > 0 })
    });
    checked.collect()
}

impl Warmup<'_> {
    /// Runs the sample on `instance` as often as it says.
    ///
    /// # Errors
    /// [`LoadError::Warmup`] when a run fails.
    pub(crate) fn run(&self, instance: &mut dyn ModelInstance) -> Result<(), LoadError> {
        let layout = self.layout();
        for _ in 0..self.sample.count {
            let filled = instance.prepare(&layout).map(|slot| self.fill(slot));
            filled
                .and_then(|()| completed(instance))
                .map_err(|error| LoadError::Warmup { sample: self.sample.name.clone(), message: error.to_string() })?;
        }
        Ok(())
    }

    fn layout(&self) -> BatchLayout {
        let mut layout = BatchLayout::default();
        match &self.assembled {
            Some(assembled) => assembled.write_layout(&mut layout, &self.request(), self.rows),
            None => {
                layout.shapes.extend(self.inputs.iter().map(|tensor| tensor.shape().to_vec()));
                layout.rows = self.batches.then_some(self.rows);
            }
        }
        layout
    }

    fn fill(&self, slot: &mut dyn Slot) {
        match &self.assembled {
            Some(assembled) => assembled.write(slot, &self.request()),
            None => self.inputs.iter().enumerate().for_each(|(i, tensor)| slot.append(i, tensor.data())),
        }
    }

    fn request(&self) -> impl Iterator<Item = Request<'_>> + Clone {
        std::iter::once((&self.inputs[..], self.rows))
    }
}

/// Runs the batch that was written, and waits for its end.
fn completed(instance: &mut dyn ModelInstance) -> Result<(), EngineError> {
    let (sender, receiver) = channel();
    // Nobody else holds the receiver, so nobody has left when this is sent.
    instance.submit(Box::new(move |outcome| drop(sender.send(outcome.map(drop)))));
    receiver.recv().unwrap_or_else(|_| Err(EngineError::Run("the run ended without an outcome".to_owned())))
}

/// The inputs in the signature's order, and their rows.
fn inputs_of(
    sample: &WarmupSample,
    config: &ModelConfig,
    signature: &Signature,
    assembly: Option<&Assembly>,
) -> Result<(Vec<Tensor>, u64), String> {
    let rows = (config.max_batch_size > 0).then_some(sample.batch_size);
    let tensors = sample.inputs.iter().map(|input| tensor_of(input, rows)).collect::<Result<Vec<_>, _>>()?;
    let checked = signature.check_inputs(tensors, config.max_batch_size).and_then(|(ordered, rows)| {
        assembly.map_or(Ok(()), |assembly| assembly.check(&ordered))?;
        Ok((ordered, rows))
    });
    checked.map_err(|mismatch| mismatch.text(config.name.as_str()))
}

/// Most bytes of one input of a warm-up request.
const INPUT_BYTES_MAX: usize = 256 << 20;

/// `rows` is `None` where the model does not batch.
fn tensor_of(input: &WarmupInput, rows: Option<u32>) -> Result<Tensor, String> {
    let shape: Vec<u64> = rows.map(u64::from).into_iter().chain(input.dims.iter().copied()).collect();
    let row_len = |size: usize| {
        let count = element_count(&input.dims).and_then(|count| usize::try_from(count).ok());
        let len = count.and_then(|count| count.checked_mul(size));
        let whole = len.and_then(|len| len.checked_mul(rows.unwrap_or(1) as usize));
        len.filter(|_| whole.is_some_and(|whole| whole <= INPUT_BYTES_MAX)).ok_or_else(|| too_large(input))
    };
    // An empty string is four zero bytes: its length.
    let row = match &input.data {
        WarmupData::Zero => Bytes::from(vec![0; row_len(input.data_type.element_size().unwrap_or(4))?]),
        WarmupData::Random => match input.data_type.element_size() {
            Some(size) => random_elements(input.data_type, row_len(size)? / size),
            None => Bytes::from(vec![0; row_len(4)?]),
        },
        WarmupData::Given(row) => row.clone(),
    };
    let data = repeated(&row, rows.unwrap_or(1) as usize).ok_or_else(|| too_large(input))?;
    Tensor::new(input.name.clone(), input.data_type, shape, data).map_err(|error| error.to_string())
}

fn too_large(input: &WarmupInput) -> String {
    format!("input '{}' has more than {INPUT_BYTES_MAX} bytes; lower batch_size or its dims", input.name)
}

fn repeated(row: &Bytes, rows: usize) -> Option<Bytes> {
    if rows == 1 {
        return Some(row.clone());
    }
    let len = row.len().checked_mul(rows).filter(|len| *len <= INPUT_BYTES_MAX)?;
    let mut data = BytesMut::with_capacity(len);
    (0..rows).for_each(|_| data.extend_from_slice(row));
    Some(data.freeze())
}

/// Pseudo-random elements, the same on every load: any bits for integers, 0 or 1 for BOOL, and from 0.5 to 1 for floats,
/// whose other bits may mean infinities.
fn random_elements(data_type: DataType, count: usize) -> Bytes {
    let size = data_type.element_size().unwrap_or(0);
    let mut state = 0_u64;
    let mut data = BytesMut::with_capacity(count * size);
    for _ in 0..count {
        let bits = next_random(&mut state);
        let element = match data_type {
            DataType::Bool => bits & 1,
            DataType::Fp16 => 0x3800 | (bits & 0x3ff),
            DataType::Bf16 => 0x3f00 | (bits & 0x7f),
            DataType::Fp32 => 0x3f00_0000 | (bits & 0x7f_ffff),
            DataType::Fp64 => 0x3fe0_0000_0000_0000 | (bits & 0xf_ffff_ffff_ffff),
            _ => bits,
        };
        data.extend_from_slice(&element.to_le_bytes()[..size]);
    }
    data.freeze()
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_floats_are_finite_and_bools_are_bools() {
        let floats = random_elements(DataType::Fp32, 1000);
        for bytes in floats.chunks_exact(4) {
            let value = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
            assert!((0.5..1.0).contains(&value), "{value}");
        }
        let doubles = random_elements(DataType::Fp64, 1000);
        for bytes in doubles.chunks_exact(8) {
            let value = f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            assert!((0.5..1.0).contains(&value), "{value}");
        }
        assert!(random_elements(DataType::Bool, 1000).iter().all(|&byte| byte <= 1));
        assert_eq!(random_elements(DataType::Int16, 3).len(), 6);
    }

    #[test]
    fn every_kind_of_data_makes_a_tensor() {
        for data_type in DataType::ALL {
            for data in [WarmupData::Zero, WarmupData::Random] {
                let input = WarmupInput { name: "x".into(), data_type, dims: vec![2, 3], data };
                assert_eq!(tensor_of(&input, Some(4)).expect("fits").shape(), [4, 2, 3]);
                assert_eq!(tensor_of(&input, None).expect("fits").shape(), [2, 3]);
            }
        }
        let given = |bytes: &'static [u8]| WarmupInput {
            name: "x".into(),
            data_type: DataType::Uint8,
            dims: vec![2],
            data: WarmupData::Given(Bytes::from_static(bytes)),
        };
        assert_eq!(&tensor_of(&given(&[1, 2]), Some(2)).expect("fits").data()[..], [1, 2, 1, 2]);
        assert!(tensor_of(&given(&[1, 2, 3]), Some(2)).expect_err("too long").contains("'x'"));
        let huge = WarmupInput {
            name: "x".into(),
            data_type: DataType::Fp32,
            dims: vec![1 << 40, 1 << 40],
            data: WarmupData::Zero,
        };
        assert!(tensor_of(&huge, None).expect_err("too large").contains("has more than 268435456 bytes"));
    }
}
