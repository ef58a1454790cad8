use bytes::Bytes;

use super::*;
use crate::{
    Boundaries, Buckets, CutOutput, DataType, FilledInput, FilledKind, PadTo, PaddedInput, PaddingConfig, Signature,
    TensorSpec,
};

/// Keeps what is appended: per input the bytes, and every place they came from.
struct RecordingSlot {
    inputs: Vec<Vec<u8>>,
    sources: Vec<*const u8>,
}

impl Slot for RecordingSlot {
    fn append(&mut self, input: usize, elements: &[u8]) {
        self.inputs[input].extend_from_slice(elements);
        self.sources.push(elements.as_ptr());
    }
}

fn spec(name: &str, data_type: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.into(), data_type, shape: shape.to_vec() }
}

/// Pairs of bytes, words, their mask and length, and a flag; outputs as long as the input, and one per row.
fn padding(buckets: Buckets) -> Arc<Padding> {
    let model = Signature {
        inputs: vec![
            spec("mask", DataType::Bool, &[-1, 1, -1]),
            spec("pairs", DataType::Uint8, &[-1, -1, 2]),
            spec("length", DataType::Int32, &[-1]),
            spec("flag", DataType::Uint8, &[-1, 1]),
            spec("words", DataType::Bytes, &[-1, -1]),
        ],
        outputs: vec![spec("pooled", DataType::Uint8, &[-1]), spec("each", DataType::Uint8, &[-1, 1, -1])],
        optional_inputs: 0,
    };
    let length = || Arc::<str>::from("length");
    let input = |value: &str| PaddedInput { length: length(), axis: None, value: Some(value.to_owned()) };
    let filled = |kind| FilledInput { length: length(), kind };
    let config = PaddingConfig {
        inputs: [("pairs".into(), input("9")), ("words".into(), input("-"))].into(),
        filled: [("mask".into(), filled(FilledKind::Mask)), ("length".into(), filled(FilledKind::Lengths))].into(),
        outputs: [("each".into(), CutOutput { length: length(), axis: None })].into(),
        buckets: [(length(), buckets)].into(),
    };
    Arc::new(config.resolve(&model, 8).expect("fits").1)
}

fn tensor(data_type: DataType, shape: &[u64], data: Vec<u8>) -> Tensor {
    Tensor::new("t".into(), data_type, shape.to_vec(), Bytes::from(data)).expect("fits")
}

/// `rows` rows of this length: pairs of `value`, words of one letter.
fn request(rows: u64, length: u64, value: u8) -> Vec<Tensor> {
    let count = usize::try_from(rows * length).expect("small");
    vec![
        tensor(DataType::Uint8, &[rows, length, 2], vec![value; 2 * count]),
        tensor(DataType::Uint8, &[rows, 1], vec![value; usize::try_from(rows).expect("small")]),
        tensor(DataType::Bytes, &[rows, length], b"\x01\0\0\0w".repeat(count)),
    ]
}

struct Written {
    shapes: Vec<Vec<u64>>,
    slot: RecordingSlot,
}

fn write(padding: &Arc<Padding>, requests: &[(Vec<Tensor>, u64)]) -> (PaddedBatch, Written) {
    let list = || requests.iter().map(|(inputs, rows)| (&inputs[..], *rows));
    let batch = PaddedBatch::new(padding, list());
    let mut layout = BatchLayout { shapes: vec![vec![7; 7]; 7], ..BatchLayout::default() };
    batch.write_layout(&mut layout, &requests[0].0, requests.iter().map(|(_, rows)| rows).sum());
    let mut slot = RecordingSlot { inputs: vec![Vec::new(); layout.shapes.len()], sources: Vec::new() };
    batch.write(&mut slot, &list());
    (batch, Written { shapes: layout.shapes, slot })
}

#[test]
fn a_batch_is_padded_to_its_longest_request_and_tells_what_is_real() {
    let requests = [(request(2, 1, 4), 2), (request(1, 3, 5), 1)];
    let (_, Written { shapes, slot }) = write(&padding(Buckets::default()), &requests);
    assert_eq!(shapes, [vec![3, 1, 3], vec![3, 3, 2], vec![3], vec![3, 1], vec![3, 3]]);
    let [mask, pairs, length, flag, words] = &slot.inputs[..] else { panic!("five inputs") };
    assert_eq!(mask[..], [1, 0, 0, 1, 0, 0, 1, 1, 1]);
    assert_eq!(pairs[..], [4, 4, 9, 9, 9, 9, 4, 4, 9, 9, 9, 9, 5, 5, 5, 5, 5, 5]);
    assert_eq!(length[..], [1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(flag[..], [4, 4, 5]);
    let (word, pad) = (b"\x01\0\0\0w", b"\x01\0\0\0-");
    assert_eq!(words[..], [&word[..], pad, pad, word, pad, pad, word, word, word].concat());
}

#[test]
fn a_batch_is_padded_to_its_boundary_where_shapes_are_to_be_fixed() {
    let buckets = Buckets { boundaries: Boundaries::Listed(vec![4]), pad_to: PadTo::Boundary };
    let (_, Written { shapes, slot }) = write(&padding(buckets), &[(request(1, 3, 5), 1)]);
    assert_eq!(shapes[1], [1, 4, 2]);
    assert_eq!((&slot.inputs[0][..], &slot.inputs[1][..]), (&[1, 1, 1, 0][..], &[5, 5, 5, 5, 5, 5, 9, 9][..]));
}

#[test]
fn a_request_as_long_as_its_batch_is_written_in_one_go_and_handed_out_as_it_is() {
    let requests = [(request(2, 3, 5), 2)];
    let (batch, Written { slot, .. }) = write(&padding(Buckets::default()), &requests);
    for tensor in &requests[0].0 {
        let own = slot.sources.iter().filter(|source| **source == tensor.data().as_ptr()).count();
        assert_eq!(own, 1, "one append, from the request's own memory");
    }
    let whole = vec![tensor(DataType::Uint8, &[2], vec![0; 2]), tensor(DataType::Uint8, &[2, 1, 3], vec![0; 6])];
    let mut cut = whole.clone();
    batch.cut(0, &mut cut);
    assert_eq!((&cut, cut[1].data().as_ptr()), (&whole, whole[1].data().as_ptr()));
}

#[test]
fn outputs_are_cut_back_to_each_requests_length() {
    let (batch, _) = write(&padding(Buckets::default()), &[(request(2, 1, 4), 2), (request(1, 3, 5), 1)]);
    let outputs =
        || vec![tensor(DataType::Uint8, &[2], vec![8, 9]), tensor(DataType::Uint8, &[2, 1, 3], vec![0, 1, 2, 3, 4, 5])];
    let mut short = outputs();
    batch.cut(0, &mut short);
    assert_eq!((short[0].shape(), short[1].shape(), &short[1].data()[..]), (&[2][..], &[2, 1, 1][..], &[0, 3][..]));
    let mut long = outputs();
    batch.cut(1, &mut long);
    assert_eq!(long, outputs());
}

#[test]
fn an_output_of_another_length_fails_the_batch() {
    let (batch, _) = write(&padding(Buckets::default()), &[(request(1, 3, 5), 1)]);
    let outputs = |length: u64| {
        let data = vec![0; usize::try_from(length).expect("small")];
        [tensor(DataType::Uint8, &[1], vec![0]), tensor(DataType::Uint8, &[1, 1, length], data)]
    };
    assert_eq!(batch.check(&outputs(3)), Ok(()));
    assert_eq!(
        batch.check(&outputs(2)).expect_err("two for three").to_string(),
        "output 't' of the model is [1,1,2], but its signature says 3 along axis 2 in this batch, as its padded inputs are"
    );
}
