//! Prints what a request costs in the driver, from submit to answer, over an engine that does next to nothing: as models
//! take inputs by default, padded, and with a resource to hold. Figures are medians of rounds. Run it with
//! `cargo run --release -p batching --example driver_cost`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use batching::{
    BatchHandle, BatchObserver, BatchReport, BatcherSpec, DropReason, InferenceRequest, RateLimiter, RateLimits,
};
use bytes::Bytes;
use model::{
    Assembly, BatchLayout, BatchOutput, BatchingConfig, Completion, CutOutput, DataType, EngineError, Execution,
    FilledInput, FilledKind, ModelInstance, PaddedInput, PaddingConfig, RateLimit, RateResource, RateScope, Signature,
    Slot, Tensor, TensorSpec,
};
use tokio::time::Instant;

const ROUNDS: usize = 41;
const REQUESTS: usize = 64 * 200;
const WIDTH: u64 = 64;

/// How requests come, and to what model.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Submitted together.
    together: usize,
    /// Subtracted, in turn, from the requests' length.
    shorter_by: &'static [u64],
    is_padded: bool,
    is_limited: bool,
}

fn main() {
    let lone = Case { name: "alone", together: 1, shorter_by: &[0], is_padded: false, is_limited: false };
    let batch = Case { name: "8 together", together: 8, ..lone };
    let cases = [
        lone,
        batch,
        Case { name: "alone, padded model", is_padded: true, ..lone },
        Case { name: "8 together, padded model, one length", is_padded: true, ..batch },
        Case { name: "8 together, padded", is_padded: true, shorter_by: &[0, 9, 5, 30], ..batch },
        Case { name: "alone, limited", is_limited: true, ..lone },
        Case { name: "8 together, limited", is_limited: true, ..batch },
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut figures: Vec<Vec<Duration>> = cases.iter().map(|_| Vec::with_capacity(ROUNDS)).collect();
    for _ in 0..ROUNDS {
        for (case, figures) in cases.iter().zip(&mut figures) {
            figures.push(runtime.block_on(round(*case)));
        }
    }
    for (case, mut figures) in cases.iter().zip(figures) {
        figures.sort_unstable();
        println!("{:>38}: {} ns a request", case.name, figures[ROUNDS / 2].as_nanos());
    }
}

/// Time of a request in one round.
async fn round(case: Case) -> Duration {
    let handle = start(case);
    let lengths = case.shorter_by.iter().map(|shorter| WIDTH - shorter).cycle();
    let requests: Vec<_> = lengths.take(case.together).map(request).collect();
    let start = Instant::now();
    for _ in 0..REQUESTS / case.together {
        let submit = |request: &InferenceRequest| {
            let (handle, request) = (handle.clone(), request.clone());
            tokio::spawn(async move { handle.submit(request).await })
        };
        let tasks: Vec<_> = requests.iter().map(submit).collect();
        for task in tasks {
            task.await.expect("no panic").expect("runs");
        }
    }
    start.elapsed() / u32::try_from(REQUESTS).unwrap_or(u32::MAX)
}

fn request(length: u64) -> InferenceRequest {
    let data = Bytes::from(vec![1; usize::try_from(length).unwrap_or(0)]);
    let x = Tensor::new("x".into(), DataType::Uint8, vec![1, length], data).expect("fits");
    InferenceRequest { inputs: vec![x], rows: 1, deadline: None, priority: 0, timeout: None }
}

fn start(case: Case) -> BatchHandle {
    let spec = |name: &str| TensorSpec { name: name.into(), data_type: DataType::Uint8, shape: vec![-1, -1] };
    let mut signature = Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], ..Signature::default() };
    let mut assembly = None;
    if case.is_padded {
        signature.inputs.push(spec("mask"));
        let (served, resolved) = padded().resolve(&signature, 8).expect("fits");
        (signature, assembly) = (served, Some(Assembly::Padded(Arc::new(resolved))));
    }
    BatchHandle::start(BatcherSpec {
        name: "copy/1".to_owned(),
        signature: Arc::new(signature),
        assembly,
        max_batch_size: 8,
        config: BatchingConfig::default(),
        execution: Execution::Inline,
        instances: vec![Box::new(Copy { slot: Inputs::default(), shape: Vec::new() })],
        rate_limits: case.is_limited.then(limits),
        observer: Arc::new(Deaf),
        held_until: 0,
    })
    .expect("starts")
}

fn padded() -> PaddingConfig {
    let length = || Arc::<str>::from("length");
    PaddingConfig {
        inputs: [("x".into(), PaddedInput { length: length(), axis: None, value: None })].into(),
        filled: [("mask".into(), FilledInput { length: length(), kind: FilledKind::Mask })].into(),
        outputs: [("y".into(), CutOutput { length: length(), axis: None })].into(),
        ..PaddingConfig::default()
    }
}

fn limits() -> RateLimits {
    let resource = RateResource { name: "r".into(), scope: RateScope::Device, count: NonZeroU32::MIN };
    let limit = RateLimit { resources: vec![resource], priority: NonZeroU32::MIN };
    RateLimits { limiter: RateLimiter::default(), limits: vec![limit] }
}

/// Answers its first input.
struct Copy {
    slot: Inputs,
    shape: Vec<u64>,
}

#[derive(Default)]
struct Inputs(Vec<u8>);

impl Slot for Inputs {
    fn append(&mut self, input: usize, elements: &[u8]) {
        if input == 0 {
            self.0.extend_from_slice(elements);
        }
    }
}

impl ModelInstance for Copy {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.shape.clone_from(&layout.shapes[0]);
        self.slot.0.clear();
        Ok(&mut self.slot)
    }

    fn submit(&mut self, done: Completion) {
        let data = Bytes::copy_from_slice(&self.slot.0);
        let y = Tensor::new("y".into(), DataType::Uint8, self.shape.clone(), data);
        done(y.map(|y| BatchOutput { tensors: vec![y] }).map_err(|error| EngineError::Run(error.to_string())));
    }
}

struct Deaf;

impl BatchObserver for Deaf {
    fn batch_finished(&self, _: &BatchReport) {}

    fn request_dropped(&self, _: DropReason) {}
}
