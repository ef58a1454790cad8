use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use crate::{
    Assembly, BatchLayout, DataType, GeneratedInput, GeneratedKind, ModelConfig, ModelName, RaggedConfig, Request,
    Signature, Slot, Tensor, TensorConfig, TensorSpec,
};

fn spec(name: &str, data_type: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.into(), data_type, shape: shape.to_vec() }
}

fn declared(name: &str, data_type: DataType, dims: &[i64]) -> TensorConfig {
    TensorConfig { name: name.into(), data_type, dims: dims.to_vec(), reshape: None }
}

const KINDS: [(&str, GeneratedKind, DataType); 6] = [
    ("counts", GeneratedKind::ElementCount, DataType::Fp32),
    ("accumulated", GeneratedKind::AccumulatedElementCount, DataType::Int32),
    ("ends", GeneratedKind::AccumulatedElementCountWithZero, DataType::Int32),
    ("longest", GeneratedKind::MaxElementCountAsShape, DataType::Int32),
    ("shapes", GeneratedKind::ItemShape, DataType::Int32),
    ("flat", GeneratedKind::ItemShapeFlatten, DataType::Int32),
];

/// Pairs in any number of columns, end to end, and a flag a row; `y` is scattered, `z` has a row for each.
fn config(max_batch_size: u32) -> ModelConfig {
    let generated = |&(name, kind, data_type): &(&str, GeneratedKind, DataType)| {
        (Arc::<str>::from(name), GeneratedInput { kind, data_type, source: "pairs".into() })
    };
    ModelConfig {
        max_batch_size,
        inputs: vec![
            declared("flag", DataType::Uint8, &[1]),
            declared("width", DataType::Uint8, &[-1]),
            declared("pairs", DataType::Uint8, &[2, -1]),
        ],
        outputs: vec![declared("z", DataType::Uint8, &[1]), declared("y", DataType::Uint8, &[1, -1])],
        ragged: RaggedConfig {
            inputs: ["pairs".into()].into(),
            generated: KINDS.iter().map(generated).collect(),
            scattered: [("y".into(), "pairs".into())].into(),
        },
        ..ModelConfig::named(ModelName::new("m").expect("a name"))
    }
}

fn model() -> Signature {
    let rank_of = |kind: GeneratedKind| vec![-1; kind.rank()];
    let generated = KINDS.iter().map(|&(name, kind, data_type)| spec(name, data_type, &rank_of(kind)));
    let sent = [
        spec("pairs", DataType::Uint8, &[-1]),
        spec("flag", DataType::Uint8, &[-1, 1]),
        spec("width", DataType::Uint8, &[-1, -1]),
    ];
    Signature {
        inputs: generated.chain(sent).collect(),
        outputs: vec![spec("y", DataType::Uint8, &[-1, -1, -1]), spec("z", DataType::Uint8, &[-1, 1])],
        optional_inputs: 0,
    }
}

fn assembly(max_batch_size: u32) -> (Signature, Assembly) {
    let config = config(max_batch_size);
    let (served, ragged) = config.ragged.resolve(&config, &model()).expect("fits");
    (served, Assembly::Ragged(Arc::new(ragged)))
}

fn tensor(name: &str, shape: &[u64], value: u8) -> Tensor {
    let len = usize::try_from(shape.iter().product::<u64>()).expect("small");
    Tensor::new(name.into(), DataType::Uint8, shape.to_vec(), Bytes::from(vec![value; len])).expect("fits")
}

/// In the order that is served.
fn request(rows: u64, columns: u64, value: u8) -> (Vec<Tensor>, u64) {
    let pairs = tensor("pairs", &[rows, 2, columns], value);
    (vec![pairs, tensor("flag", &[rows, 1], value), tensor("width", &[rows, 3], value)], rows)
}

#[derive(Default)]
struct Written(Vec<Vec<u8>>);

impl Slot for Written {
    fn append(&mut self, input: usize, elements: &[u8]) {
        self.0[input].extend_from_slice(elements);
    }
}

fn written(assembly: &Assembly, requests: &[(Vec<Tensor>, u64)]) -> (BatchLayout, Vec<Vec<u8>>) {
    let list = requests.iter().map(|(inputs, rows)| -> Request<'_> { (&inputs[..], *rows) });
    let batch = assembly.batch(list.clone());
    let mut layout = BatchLayout { shapes: vec![vec![7; 7]; 20], rows: Some(99), absent: vec![3] };
    batch.write_layout(&mut layout, &list, requests.iter().map(|(_, rows)| rows).sum());
    let mut slot = Written(vec![Vec::new(); layout.shapes.len()]);
    batch.write(&mut slot, &list);
    (layout, slot.0)
}

fn i32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn every_kind_tells_of_the_batch_as_triton_defines_it() {
    let (_, assembly) = assembly(8);
    let (layout, data) = written(&assembly, &[request(2, 1, 4), request(1, 3, 5), request(1, 0, 6)]);
    assert_eq!((layout.rows, &layout.absent[..]), (Some(4), &[][..]));
    let shapes: [&[u64]; 9] = [&[3], &[3], &[4], &[6], &[4, 2], &[8], &[10], &[4, 1], &[4, 3]];
    assert_eq!(layout.shapes, shapes);
    assert_eq!(data[0], [4.0_f32, 6.0, 0.0].iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<_>>());
    assert_eq!(data[1], i32s(&[4, 10, 10]));
    assert_eq!(data[2], i32s(&[0, 4, 10, 10]));
    assert_eq!(data[3], i32s(&[0; 6]));
    assert_eq!(data[4], i32s(&[2, 1, 2, 1, 2, 3, 2, 0]));
    assert_eq!(data[5], data[4], "the same in one dimension");
    assert_eq!(
        data[6..],
        [
            vec![4, 4, 4, 4, 5, 5, 5, 5, 5, 5],
            vec![4, 4, 5, 6],
            [4; 6].into_iter().chain([5; 3]).chain([6; 3]).collect()
        ]
    );
}

#[test]
fn clients_see_what_they_send_and_get() {
    let (served, _) = assembly(8);
    let shown = |specs: &[TensorSpec]| -> Vec<_> {
        specs.iter().map(|spec| (spec.name.to_string(), spec.shape.clone())).collect()
    };
    let named = |name: &str, shape: &[i64]| (name.to_owned(), shape.to_vec());
    assert_eq!(
        shown(&served.inputs),
        [named("pairs", &[-1, 2, -1]), named("flag", &[-1, 1]), named("width", &[-1, -1])]
    );
    assert_eq!(shown(&served.outputs), [named("y", &[-1, 1, -1]), named("z", &[-1, 1])]);
}

#[test]
fn requests_of_any_ragged_shape_go_together_and_others_only_with_their_like() {
    let (_, assembly) = assembly(8);
    assert_eq!(assembly.key(&request(1, 3, 0).0), assembly.key(&request(2, 9, 0).0));
    let mut wider = request(1, 3, 0).0;
    wider[2] = tensor("width", &[1, 4], 0);
    assert_ne!(assembly.key(&wider), assembly.key(&request(1, 3, 0).0));
}

#[test]
fn an_output_with_another_number_of_elements_fails_the_batch() {
    let (_, assembly) = assembly(8);
    let (inputs, rows) = request(2, 3, 1);
    let batch = assembly.batch(std::iter::once((&inputs[..], rows)));
    assert_eq!((batch.has_rows(0), batch.has_rows(1)), (false, true));
    let outputs = |elements| [tensor("y", &[elements], 0), tensor("z", &[2, 1], 0)];
    assert_eq!(batch.check(&outputs(6)), Ok(()));
    assert_eq!(
        batch.check(&outputs(7)).expect_err("seven for six").to_string(),
        "output 'y' of the model is [7], but its signature says 6 elements in this batch, as its source input makes them"
    );
}

#[test]
fn without_batches_a_request_is_laid_out_alone() {
    let config = ModelConfig {
        inputs: vec![declared("pairs", DataType::Uint8, &[2, -1])],
        outputs: vec![declared("y", DataType::Uint8, &[1, -1])],
        ..config(0)
    };
    let mut model = model();
    model.inputs.truncate(7);
    model.outputs.truncate(1);
    let (served, ragged) = config.ragged.resolve(&config, &model).expect("fits");
    assert_eq!(served.inputs[0].shape, [2, -1]);
    let assembly = Assembly::Ragged(Arc::new(ragged));
    let request = (vec![tensor("pairs", &[2, 3], 8)], 1);
    let (layout, data) = written(&assembly, std::slice::from_ref(&request));
    let shapes: [&[u64]; 7] = [&[1], &[1], &[2], &[6], &[2, 1], &[2], &[6]];
    assert_eq!((layout.rows, &layout.shapes[..]), (None, &shapes.map(<[u64]>::to_vec)[..]));
    assert_eq!((&data[4], &data[6]), (&i32s(&[3, 3]), &vec![8; 6]), "the first dimension counts rows, as in Triton");
    let batch = assembly.batch(std::iter::once((&request.0[..], 1)));
    let answers = batch.split(vec![tensor("y", &[3], 9)], &[1]);
    assert_eq!(answers[0][0].shape(), [1, 3]);
}

#[test]
fn what_does_not_fit_the_model_is_told() {
    let told = |config: &ModelConfig, model: &Signature| -> Vec<String> {
        let errors = config.ragged.resolve(config, model).expect_err("does not fit");
        errors.iter().map(ToString::to_string).collect()
    };
    let mut other = model();
    other.inputs[0].data_type = DataType::Int64;
    other.inputs[1].shape = vec![-1, 1];
    other.inputs[4].shape = vec![-1, 3];
    assert_eq!(
        told(&config(8), &other),
        [
            "batch input 'counts' is TYPE_FP32, but model provides TYPE_INT64; write data_type: TYPE_INT64",
            "batch input 'accumulated' has shape [-1], but the model expects [-1,1]; choose another kind",
            "batch input 'shapes' has shape [-1,2], but the model expects [-1,3]; choose another kind",
        ]
    );
    let undeclared = ModelConfig { inputs: Vec::new(), outputs: Vec::new(), ..config(8) };
    let undeclared = told(&undeclared, &model());
    assert_eq!(
        undeclared[..2],
        [
            "ragged input 'pairs' is not declared; declare its dims as requests bring it",
            "unknown target output name 'y'; declare it as an output, with the dims that a request gets",
        ]
    );
    let mut unknown = config(8);
    unknown.ragged.scattered = [("y".into(), "longest".into())].into();
    assert_eq!(
        told(&unknown, &model()),
        ["unknown source input name 'longest' of 'y'; name an input that requests bring"]
    );
    let mut narrow = config(8);
    narrow.ragged.scattered = [("y".into(), "flag".into())].into();
    assert_eq!(
        told(&narrow, &model()),
        [
            "output 'y' of shape [-1,1,-1] is scattered by input 'flag' of shape [-1,1], which has no dimension 2; write \
             fewer dims, or another source_input"
        ]
    );
}

proptest! {
    /// A model that hands each request's elements through: whoever shares the batch, each gets its own back.
    #[test]
    fn what_is_laid_end_to_end_comes_back_to_whom_it_belongs(
        requests in prop::collection::vec((1_u64..4, 0_u64..6, any::<u8>()), 1..12),
    ) {
        let (_, assembly) = assembly(64);
        let requests: Vec<_> = requests.into_iter().map(|(rows, columns, value)| request(rows, columns, value)).collect();
        let rows: Vec<u64> = requests.iter().map(|(_, rows)| *rows).collect();
        let (layout, data) = written(&assembly, &requests);
        for (shape, (input, name)) in layout.shapes[6..].iter().zip(data[6..].iter().zip(["pairs", "flag", "width"])) {
            prop_assert_eq!(shape.iter().product::<u64>(), input.len() as u64, "{}", name);
        }
        for (shape, input) in layout.shapes[..6].iter().zip(&data[..6]) {
            prop_assert_eq!(4 * shape.iter().product::<u64>(), input.len() as u64);
        }
        let half: Vec<u8> = data[6].iter().copied().step_by(2).collect();
        let y = Tensor::new("y".into(), DataType::Uint8, vec![half.len() as u64], Bytes::from(half)).expect("fits");
        let z = Tensor::new("z".into(), DataType::Uint8, vec![rows.iter().sum(), 1], data[7].clone().into()).expect("fits");
        let batch = assembly.batch(requests.iter().map(|(inputs, rows)| (&inputs[..], *rows)));
        let outputs = vec![y, z];
        prop_assert_eq!(batch.check(&outputs), Ok(()));
        for (answer, (inputs, rows)) in batch.split(outputs, &rows).iter().zip(&requests) {
            let columns = inputs[0].shape()[2];
            prop_assert_eq!(answer[0].shape(), &[*rows, 1, columns][..]);
            prop_assert!(answer[0].data().iter().all(|value| *value == inputs[1].data()[0]));
            prop_assert_eq!(answer[1].data(), inputs[1].data());
        }
    }
}
