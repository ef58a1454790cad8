//! Requests of different lengths through the whole batcher, over a model that computes per element: each gets what it
//! would get alone, whoever it shared its batch with, whatever failed, in one piece or in many.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use batching::{BatchError, BatchHandle, BatcherSpec, InferenceRequest, Inferred};
use bytes::Bytes;
use common::{Recorder, spawn};
use model::{
    Assembly, BatchLayout, BatchOutput, BatchingConfig, Boundaries, Buckets, Completion, CutOutput, DataType,
    EngineError, Execution, FilledInput, FilledKind, ModelInstance, PadTo, PaddedInput, PaddingConfig, Signature, Slot,
    Tensor, TensorSpec,
};
use proptest::prelude::*;

/// What padding is made of. No request has it.
const PAD: u8 = 255;
/// What makes a batch fail.
const POISON: u8 = 254;
const MAX_BATCH_SIZE: u32 = 8;

/// Inputs `x` [-1,-1], `mask` [-1,-1] and `length` [-1]; outputs `y`, `x` + 1, and `total` [-1], the sum of what is real.
fn signature() -> Signature {
    let spec =
        |name: &str, data_type, shape: &[i64]| TensorSpec { name: name.into(), data_type, shape: shape.to_vec() };
    Signature {
        inputs: vec![
            spec("mask", DataType::Uint8, &[-1, -1]),
            spec("x", DataType::Uint8, &[-1, -1]),
            spec("length", DataType::Uint64, &[-1]),
        ],
        outputs: vec![spec("y", DataType::Uint8, &[-1, -1]), spec("total", DataType::Uint64, &[-1])],
        optional_inputs: 0,
    }
}

fn config(buckets: Buckets) -> PaddingConfig {
    let length = || Arc::<str>::from("length");
    let filled = |kind| FilledInput { length: length(), kind };
    PaddingConfig {
        inputs: [("x".into(), PaddedInput { length: length(), axis: None, value: Some(PAD.to_string()) })].into(),
        filled: [("mask".into(), filled(FilledKind::Mask)), ("length".into(), filled(FilledKind::Lengths))].into(),
        outputs: [("y".into(), CutOutput { length: length(), axis: None })].into(),
        buckets: BTreeMap::from([(length(), buckets)]),
    }
}

type Shapes = Arc<Mutex<Vec<Vec<u64>>>>;

/// The model. It fails where mask, lengths and padding do not say the same, and on poison.
struct Summing {
    shape: Vec<u64>,
    inputs: Inputs,
    ran: Shapes,
}

#[derive(Default)]
struct Inputs([Vec<u8>; 3]);

impl Slot for Inputs {
    fn append(&mut self, input: usize, elements: &[u8]) {
        self.0[input].extend_from_slice(elements);
    }
}

impl Summing {
    fn run(&self) -> Result<BatchOutput, String> {
        let [mask, x, lengths] = &self.inputs.0;
        let width = usize::try_from(self.shape[1]).map_err(|error| error.to_string())?;
        let mut totals = Vec::new();
        for (row, length) in lengths.chunks_exact(8).enumerate() {
            let length = u64::from_le_bytes(length.try_into().map_err(|_| "eight bytes".to_owned())?);
            let mut total = 0;
            for at in 0..width {
                let (is_real, value) = (mask[row * width + at] == 1, x[row * width + at]);
                if is_real != ((at as u64) < length) || is_real == (value == PAD) || value == POISON {
                    return Err(format!("row {row} of length {length} has {value} at {at}"));
                }
                total += if is_real { u64::from(value) } else { 0 };
            }
            totals.extend(total.to_le_bytes());
        }
        let y = x.iter().map(|x| x.wrapping_add(1)).collect::<Vec<_>>();
        let tensor = |name: &str, data_type, shape: &[u64], data: Vec<u8>| {
            Tensor::new(name.into(), data_type, shape.to_vec(), Bytes::from(data)).map_err(|error| error.to_string())
        };
        let y = tensor("y", DataType::Uint8, &self.shape, y)?;
        let total = tensor("total", DataType::Uint64, &self.shape[..1], totals)?;
        Ok(BatchOutput { tensors: vec![y, total] })
    }
}

impl ModelInstance for Summing {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        let [mask, x, length] = &layout.shapes[..] else { panic!("three inputs") };
        assert_eq!((mask, &x[..1]), (x, &length[..]));
        self.shape.clone_from(x);
        self.inputs = Inputs::default();
        Ok(&mut self.inputs)
    }

    fn submit(&mut self, done: Completion) {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(self.shape.clone());
        done(self.run().map_err(EngineError::Run));
    }
}

struct Bench {
    handle: BatchHandle,
    ran: Shapes,
    signature: Signature,
}

impl Bench {
    fn start(buckets: Buckets) -> Self {
        let ran = Shapes::default();
        let (signature, padding) = config(buckets).resolve(&signature(), MAX_BATCH_SIZE).expect("fits");
        let instance = Summing { shape: Vec::new(), inputs: Inputs::default(), ran: Arc::clone(&ran) };
        let handle = BatchHandle::start(BatcherSpec {
            name: "summing/1".to_owned(),
            signature: Arc::new(signature.clone()),
            assembly: Some(Assembly::Padded(Arc::new(padding))),
            max_batch_size: MAX_BATCH_SIZE,
            config: BatchingConfig { split_large_requests: true, ..BatchingConfig::default() },
            execution: Execution::Inline,
            instances: vec![Box::new(instance)],
            rate_limits: None,
            observer: Arc::new(Recorder::default()),
            held_until: 0,
        })
        .expect("starts");
        Self { handle, ran, signature }
    }

    fn ran(&self) -> Vec<Vec<u64>> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Submits all requests at once and returns their answers in order.
    async fn run(&self, requests: &[Values]) -> Vec<Result<Inferred, BatchError>> {
        let tasks: Vec<_> = requests.iter().map(|values| spawn(&self.handle, self.request(values))).collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.expect("no panic"));
        }
        answers
    }

    fn request(&self, Values { rows, length, first }: &Values) -> InferenceRequest {
        let data: Vec<u8> = (0..rows * length).map(|at| value(*first, at)).collect();
        let x = Tensor::new("x".into(), DataType::Uint8, vec![*rows, *length], data.into()).expect("fits");
        let (inputs, rows) = self.signature.check_inputs(vec![x], 100).expect("fits");
        InferenceRequest { inputs, rows, deadline: None, priority: 0, timeout: None }
    }
}

/// A request's rows and length; its values count up from `first`, which may be [`POISON`].
#[derive(Clone, Debug)]
struct Values {
    rows: u64,
    length: u64,
    first: u8,
}

fn value(first: u8, at: u64) -> u8 {
    if first == POISON { POISON } else { u8::try_from((u64::from(first) + at) % 200).expect("below 200") }
}

/// What the model gives for the request alone, which is computed here.
fn assert_answers(inferred: &Inferred, Values { rows, length, first }: &Values) {
    let [y, total] = &inferred.outputs[..] else { panic!("two outputs") };
    let values: Vec<u8> = (0..rows * length).map(|at| value(*first, at)).collect();
    assert_eq!((y.shape(), total.shape()), (&[*rows, *length][..], &[*rows][..]));
    assert_eq!(y.data()[..], values.iter().map(|value| value + 1).collect::<Vec<_>>());
    let sum = |row: u64| (row * length..(row + 1) * length).map(|at| u64::from(value(*first, at))).sum::<u64>();
    assert_eq!(total.data()[..], (0..*rows).flat_map(|row| sum(row).to_le_bytes()).collect::<Vec<_>>());
}

fn values(rows: u64, length: u64, first: u8) -> Values {
    Values { rows, length, first }
}

#[tokio::test(start_paused = true)]
async fn one_bucket_is_one_batch_as_long_as_its_longest_request() {
    let bench = Bench::start(Buckets::default());
    let requests = [values(1, 5, 1), values(2, 7, 2), values(1, 9, 3), values(1, 6, 4)];
    for (answer, values) in bench.run(&requests).await.iter().zip(&requests) {
        assert_answers(answer.as_ref().expect("runs"), values);
    }
    assert_eq!(bench.ran(), [[4, 7], [1, 9]]);
}

#[tokio::test(start_paused = true)]
async fn fixed_shapes_are_the_boundaries() {
    let buckets = Buckets { boundaries: Boundaries::Listed(vec![8, 16]), pad_to: PadTo::Boundary };
    let bench = Bench::start(buckets);
    let requests = [values(1, 3, 1), values(2, 16, 2), values(1, 8, 3)];
    for (answer, values) in bench.run(&requests).await.iter().zip(&requests) {
        assert_answers(answer.as_ref().expect("runs"), values);
    }
    assert_eq!(bench.ran(), [[2, 8], [2, 16]]);
}

#[tokio::test(start_paused = true)]
async fn who_runs_again_after_a_failure_is_padded_anew() {
    let bench = Bench::start(Buckets::default());
    let requests = [values(1, 5, 1), values(1, 6, 2), values(1, 7, 3), values(1, 8, POISON)];
    let answers = bench.run(&requests).await;
    for (answer, values) in answers[..3].iter().zip(&requests) {
        assert_answers(answer.as_ref().expect("runs again without the poison"), values);
    }
    assert!(matches!(answers[3], Err(BatchError::Engine(_))), "{:?}", answers[3]);
    assert_eq!(bench.ran(), [[4, 8], [2, 6], [2, 8], [1, 7], [1, 8]]);
}

#[tokio::test(start_paused = true)]
async fn pieces_of_a_large_request_are_padded_too() {
    let bench = Bench::start(Buckets::default());
    let requests = [values(18, 5, 1), values(3, 8, 2)];
    for (answer, values) in bench.run(&requests).await.iter().zip(&requests) {
        assert_answers(answer.as_ref().expect("runs"), values);
    }
    assert_eq!(bench.ran(), [[8, 5], [8, 5], [5, 8]], "the last piece with the other request");
}

fn buckets() -> impl Strategy<Value = Buckets> {
    let boundaries = prop_oneof![
        Just(Boundaries::PowersOfTwo),
        (1_u64..20).prop_map(|step| Boundaries::Step(std::num::NonZeroU64::new(step).expect("at least 1"))),
        prop::collection::btree_set(1_u64..40, 1..4)
            .prop_map(|listed| Boundaries::Listed(listed.into_iter().collect())),
    ];
    (boundaries, prop_oneof![Just(PadTo::Longest), Just(PadTo::Boundary)])
        .prop_map(|(boundaries, pad_to)| Buckets { boundaries, pad_to })
}

fn request() -> impl Strategy<Value = Values> {
    let first = prop_oneof![15 => 0_u8..200, 1 => Just(POISON)];
    (1_u64..12, 0_u64..40, first).prop_map(|(rows, length, first)| Values { rows, length, first })
}

proptest! {
    #[test]
    fn every_request_gets_what_it_would_get_alone(
        buckets in buckets(),
        mut requests in prop::collection::vec(request(), 1..40),
    ) {
        let (min, max) = buckets.bounds();
        requests.iter_mut().for_each(|values| values.length = values.length.clamp(min, max));
        let bench = Bench::start(buckets.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let answers = runtime.block_on(bench.run(&requests));
        for (answer, values) in answers.iter().zip(&requests) {
            match answer {
                Ok(inferred) => assert_answers(inferred, values),
                Err(_) => prop_assert_eq!((values.first, values.length > 0), (POISON, true)),
            }
        }
        for shape in bench.ran() {
            let is_fixed = buckets.pad_to == PadTo::Boundary;
            prop_assert!(!is_fixed || shape[1] == buckets.boundary(shape[1]), "{:?} is no boundary", shape);
        }
    }
}
