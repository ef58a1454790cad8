//! Requests of different shapes through the whole batcher, over a model that takes them end to end: each gets what it
//! would get alone, whoever it shared its batch with, whatever failed, in one piece or in many.

mod common;

use std::sync::{Arc, Mutex, PoisonError};

use batching::{BatchError, BatchHandle, BatcherSpec, InferenceRequest, Inferred};
use bytes::Bytes;
use common::{Recorder, spawn};
use model::{
    Assembly, BatchLayout, BatchOutput, BatchingConfig, Completion, DataType, EngineError, Execution, GeneratedInput,
    GeneratedKind, ModelConfig, ModelInstance, ModelName, RaggedConfig, Signature, Slot, Tensor, TensorConfig,
    TensorSpec,
};
use proptest::prelude::*;

/// What makes a batch fail.
const POISON: u8 = 254;
const MAX_BATCH_SIZE: u32 = 8;

/// Input `x` [2,-1], end to end, with the shape of each row; outputs `y`, `x` + 1 and scattered, and `sum`, a row's sum.
fn config() -> ModelConfig {
    let tensor = |name: &str, data_type, dims: &[i64]| TensorConfig {
        name: name.into(),
        data_type,
        dims: dims.to_vec(),
        reshape: None,
    };
    let shapes = GeneratedInput { kind: GeneratedKind::ItemShape, data_type: DataType::Int32, source: "x".into() };
    ModelConfig {
        max_batch_size: MAX_BATCH_SIZE,
        inputs: vec![tensor("x", DataType::Uint8, &[2, -1])],
        outputs: vec![tensor("y", DataType::Uint8, &[2, -1]), tensor("sum", DataType::Uint64, &[1])],
        ragged: RaggedConfig {
            inputs: ["x".into()].into(),
            generated: [("shapes".into(), shapes)].into(),
            scattered: [("y".into(), "x".into())].into(),
        },
        ..ModelConfig::named(ModelName::new("m").expect("a name"))
    }
}

fn signature() -> Signature {
    let spec =
        |name: &str, data_type, shape: &[i64]| TensorSpec { name: name.into(), data_type, shape: shape.to_vec() };
    Signature {
        inputs: vec![spec("shapes", DataType::Int32, &[-1, 2]), spec("x", DataType::Uint8, &[-1])],
        outputs: vec![spec("y", DataType::Uint8, &[-1]), spec("sum", DataType::Uint64, &[-1, 1])],
        ..Signature::default()
    }
}

type Rows = Arc<Mutex<Vec<u64>>>;

/// The model. It fails where shapes and elements do not say the same, and on poison.
struct Summing {
    layout: BatchLayout,
    inputs: Inputs,
    ran: Rows,
}

#[derive(Default)]
struct Inputs([Vec<u8>; 2]);

impl Slot for Inputs {
    fn append(&mut self, input: usize, elements: &[u8]) {
        self.0[input].extend_from_slice(elements);
    }
}

impl Summing {
    fn run(&self) -> Result<BatchOutput, String> {
        let [shapes, x] = &self.inputs.0;
        let rows = self.layout.rows.ok_or("it batches")?;
        if self.layout.shapes != [vec![rows, 2], vec![x.len() as u64]] || x.contains(&POISON) {
            return Err(format!("{:?} of {} bytes", self.layout, x.len()));
        }
        let (mut rest, mut sums) = (&x[..], Vec::new());
        for shape in shapes.chunks_exact(8) {
            let dimension = |at: usize| usize::from(shape[at]);
            let (row, later) = rest.split_at_checked(dimension(0) * dimension(4)).ok_or("too few elements")?;
            sums.extend(row.iter().map(|value| u64::from(*value)).sum::<u64>().to_le_bytes());
            rest = later;
        }
        let tensor = |name: &str, data_type, shape: Vec<u64>, data: Vec<u8>| {
            Tensor::new(name.into(), data_type, shape, Bytes::from(data)).map_err(|error| error.to_string())
        };
        let y = x.iter().map(|x| x.wrapping_add(1)).collect::<Vec<_>>();
        let y = tensor("y", DataType::Uint8, vec![y.len() as u64], y)?;
        Ok(BatchOutput { tensors: vec![y, tensor("sum", DataType::Uint64, vec![rows, 1], sums)?] })
    }
}

impl ModelInstance for Summing {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.layout.clone_from(layout);
        self.inputs = Inputs::default();
        Ok(&mut self.inputs)
    }

    fn submit(&mut self, done: Completion) {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).extend(self.layout.rows);
        done(self.run().map_err(EngineError::Run));
    }
}

struct Bench {
    handle: BatchHandle,
    ran: Rows,
    signature: Signature,
}

impl Bench {
    fn start() -> Self {
        let (ran, config) = (Rows::default(), config());
        let (signature, ragged) = config.ragged.resolve(&config, &signature()).expect("fits");
        let instance = Summing { layout: BatchLayout::default(), inputs: Inputs::default(), ran: Arc::clone(&ran) };
        let handle = BatchHandle::start(BatcherSpec {
            name: "summing/1".to_owned(),
            signature: Arc::new(signature.clone()),
            assembly: Some(Assembly::Ragged(Arc::new(ragged))),
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

    fn ran(&self) -> Vec<u64> {
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

    fn request(&self, Values { rows, columns, value }: &Values) -> InferenceRequest {
        let shape = vec![*rows, 2, *columns];
        let data = vec![*value; usize::try_from(rows * 2 * columns).expect("small")];
        let x = Tensor::new("x".into(), DataType::Uint8, shape, data.into()).expect("fits");
        let (inputs, rows) = self.signature.check_inputs(vec![x], 100).expect("fits");
        InferenceRequest { inputs, rows, deadline: None, priority: 0, timeout: None }
    }
}

#[derive(Clone, Debug)]
struct Values {
    rows: u64,
    columns: u64,
    value: u8,
}

/// What the model gives for the request alone, which is computed here.
fn assert_answers(inferred: &Inferred, Values { rows, columns, value }: &Values) {
    let [y, sum] = &inferred.outputs[..] else { panic!("two outputs") };
    assert_eq!((y.shape(), sum.shape()), (&[*rows, 2, *columns][..], &[*rows, 1][..]));
    assert!(y.data().iter().all(|got| *got == value + 1));
    let sums = (0..*rows).flat_map(|_| (u64::from(*value) * 2 * columns).to_le_bytes());
    assert_eq!(sum.data()[..], sums.collect::<Vec<_>>());
}

fn values(rows: u64, columns: u64, value: u8) -> Values {
    Values { rows, columns, value }
}

#[tokio::test(start_paused = true)]
async fn requests_of_all_shapes_share_a_batch() {
    let bench = Bench::start();
    let requests = [values(1, 5, 1), values(2, 0, 2), values(1, 90, 3), values(4, 1, 4), values(1, 2, 5)];
    for (answer, values) in bench.run(&requests).await.iter().zip(&requests) {
        assert_answers(answer.as_ref().expect("runs"), values);
    }
    assert_eq!(bench.ran(), [8, 1], "by rows alone");
}

#[tokio::test(start_paused = true)]
async fn who_runs_again_after_a_failure_is_laid_out_anew() {
    let bench = Bench::start();
    let requests = [values(1, 5, 1), values(1, 6, 2), values(1, 7, 3), values(1, 8, POISON)];
    let answers = bench.run(&requests).await;
    for (answer, values) in answers[..3].iter().zip(&requests) {
        assert_answers(answer.as_ref().expect("runs again without the poison"), values);
    }
    assert!(matches!(answers[3], Err(BatchError::Engine(_))), "{:?}", answers[3]);
    assert_eq!(bench.ran(), [4, 2, 2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn pieces_of_a_large_request_are_laid_out_too() {
    let bench = Bench::start();
    let requests = [values(18, 5, 1), values(3, 8, 2)];
    for (answer, values) in bench.run(&requests).await.iter().zip(&requests) {
        assert_answers(answer.as_ref().expect("runs"), values);
    }
    assert_eq!(bench.ran(), [8, 8, 5], "the last piece with the other request");
}

fn request() -> impl Strategy<Value = Values> {
    let value = prop_oneof![15 => 0_u8..200, 1 => Just(POISON)];
    (1_u64..12, 0_u64..40, value).prop_map(|(rows, columns, value)| Values { rows, columns, value })
}

proptest! {
    #[test]
    fn every_request_gets_what_it_would_get_alone(requests in prop::collection::vec(request(), 1..40)) {
        let bench = Bench::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let answers = runtime.block_on(bench.run(&requests));
        for (answer, values) in answers.iter().zip(&requests) {
            match answer {
                Ok(inferred) => assert_answers(inferred, values),
                Err(_) => prop_assert_eq!((values.value, values.columns > 0), (POISON, true)),
            }
        }
    }
}
