//! What the driver's tests share: a batcher over fake instances, and an observer that counts.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate of its own and uses its part")]

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use batching::{
    BatchError, BatchHandle, BatchObserver, BatchReport, BatcherSpec, DropReason, InferenceRequest, Inferred,
};
use model::testing::{FakeControl, FakeInstance, FakeMode, fake_input, fake_signature};
use model::{
    BatchLayout, BatchOutput, BatchingConfig, Completion, EngineError, Execution, ModelInstance, Priorities,
    QueuePolicy, Slot, Tensor, TimeoutAction,
};
use tokio::time::Instant;

/// Keeps what a batcher reports.
#[derive(Default)]
pub struct Recorder {
    batches: Mutex<Vec<BatchReport>>,
    dropped: Mutex<Vec<DropReason>>,
}

impl Recorder {
    pub fn batches(&self) -> Vec<BatchReport> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn dropped(&self) -> Vec<DropReason> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl BatchObserver for Recorder {
    fn batch_finished(&self, report: &BatchReport) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(*report);
    }

    fn request_dropped(&self, reason: DropReason) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
    }
}

/// A batcher under test.
pub struct Bench {
    pub handle: BatchHandle,
    pub control: FakeControl,
    pub recorder: Arc<Recorder>,
}

/// How a [`Bench`] is set up.
pub struct Setup {
    pub mode: FakeMode,
    pub instances: usize,
    pub execution: Execution,
    pub max_batch_size: u32,
    pub delay: Duration,
    pub preferred: Vec<u32>,
    pub max_queue_size: usize,
    pub default_timeout: Option<Duration>,
    pub timeout_action: TimeoutAction,
    pub allow_timeout_override: bool,
    pub preserve_ordering: bool,
    pub priorities: Option<Priorities>,
    pub split_large_requests: bool,
    pub held_until: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mode: FakeMode::Inline,
            instances: 1,
            execution: Execution::Inline,
            max_batch_size: 8,
            delay: Duration::ZERO,
            preferred: Vec::new(),
            max_queue_size: 64,
            default_timeout: None,
            timeout_action: TimeoutAction::Reject,
            allow_timeout_override: false,
            preserve_ordering: false,
            priorities: None,
            split_large_requests: false,
            held_until: 0,
        }
    }
}

impl Setup {
    pub fn start(self) -> Bench {
        let control = FakeControl::default();
        let instance = |_| Box::new(FakeInstance::new(self.mode, control.clone())) as Box<dyn ModelInstance>;
        let instances = (0..self.instances).map(instance).collect();
        self.start_with(instances, control.clone())
    }

    pub fn config(&self) -> BatchingConfig {
        BatchingConfig {
            is_dynamic: true,
            preferred_batch_sizes: self.preferred.clone(),
            max_queue_delay: self.delay,
            queue: QueuePolicy {
                max_queue_size: NonZeroUsize::new(self.max_queue_size).expect("a bound"),
                default_timeout: self.default_timeout,
                timeout_action: self.timeout_action,
                allow_timeout_override: self.allow_timeout_override,
            },
            preserve_ordering: self.preserve_ordering,
            priorities: self.priorities.clone(),
            split_large_requests: self.split_large_requests,
        }
    }

    pub fn start_with(&self, instances: Vec<Box<dyn ModelInstance>>, control: FakeControl) -> Bench {
        let recorder = Arc::new(Recorder::default());
        let handle = BatchHandle::start(BatcherSpec {
            name: "fake/1".to_owned(),
            signature: Arc::new(fake_signature()),
            assembly: None,
            max_batch_size: self.max_batch_size,
            config: self.config(),
            execution: self.execution,
            instances,
            rate_limits: None,
            observer: Arc::clone(&recorder) as Arc<dyn BatchObserver>,
            held_until: self.held_until,
        })
        .expect("starts");
        Bench { handle, control, recorder }
    }
}

/// A fake that fails every batch with the value 9 in it.
pub struct Picky {
    fake: FakeInstance,
}

impl Picky {
    pub fn new(mode: FakeMode, control: FakeControl) -> Self {
        Self { fake: FakeInstance::new(mode, control) }
    }
}

impl ModelInstance for Picky {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.fake.prepare(layout)
    }

    fn submit(&mut self, done: Completion) {
        let has_nine = |output: &BatchOutput| output.tensors[0].data().contains(&10);
        self.fake.submit(Box::new(move |outcome| match outcome {
            Ok(output) if has_nine(&output) => done(Err(EngineError::Run("a nine".to_owned()))),
            outcome => done(outcome),
        }));
    }

    fn capacity(&self) -> NonZeroUsize {
        self.fake.capacity()
    }

    fn completes_inline(&self) -> bool {
        self.fake.completes_inline()
    }
}

/// A request of `rows` rows of `width` bytes `value`.
pub fn request(rows: u64, width: u64, value: u8) -> InferenceRequest {
    InferenceRequest { inputs: vec![fake_input(rows, width, value)], rows, deadline: None, priority: 0, timeout: None }
}

/// A request whose row `i` is `width` bytes `i`.
pub fn numbered(rows: u8, width: u64) -> InferenceRequest {
    let one = request(1, width, 0);
    let data: Vec<u8> = (0..rows).flat_map(|row| (0..width).map(move |_| row)).collect();
    let (name, data_type, _, _) = one.inputs[0].clone().into_parts();
    let input = Tensor::new(name, data_type, vec![rows.into(), width], data.into()).expect("fits");
    InferenceRequest { inputs: vec![input], rows: rows.into(), ..one }
}

/// Levels without policies of their own; requests that name none are of the last.
pub fn levels(levels: u32) -> Option<Priorities> {
    let count = NonZeroU32::new(levels).expect("a level");
    Some(Priorities { levels: count, default_level: levels, policies: BTreeMap::new() })
}

/// The same, with a deadline from now.
pub fn expiring(request: InferenceRequest, after: Duration) -> InferenceRequest {
    InferenceRequest { deadline: Some(Instant::now() + after), ..request }
}

/// The same at a level.
pub fn urgent(request: InferenceRequest, priority: u64) -> InferenceRequest {
    InferenceRequest { priority, ..request }
}

/// The same, asking for a timeout.
pub fn patient(request: InferenceRequest, timeout: Duration) -> InferenceRequest {
    InferenceRequest { timeout: Some(timeout), ..request }
}

/// Submits on a task of its own.
pub fn spawn(handle: &BatchHandle, request: InferenceRequest) -> tokio::task::JoinHandle<Result<Inferred, BatchError>> {
    let handle = handle.clone();
    tokio::spawn(async move { handle.submit(request).await })
}

/// Asserts that an answer is the fake's for [`request`] with these arguments.
pub fn assert_answers(inferred: &Inferred, rows: u64, width: u64, value: u8) {
    let [output] = &inferred.outputs[..] else { panic!("one output, got {}", inferred.outputs.len()) };
    assert_eq!(output.shape(), [rows, width]);
    assert!(output.data().iter().all(|&byte| byte == value.wrapping_add(1)), "own rows, plus one");
}

/// Asserts that an answer is the fake's for [`numbered`] with these arguments.
pub fn assert_answers_numbered(inferred: &Inferred, rows: u8, width: u64) {
    let [output] = &inferred.outputs[..] else { panic!("one output, got {}", inferred.outputs.len()) };
    assert_eq!(output.shape(), [u64::from(rows), width]);
    let expected: Vec<u8> = (0..rows).flat_map(|row| (0..width).map(move |_| row + 1)).collect();
    assert_eq!(output.data()[..], expected, "own rows in order, plus one");
}

/// Yields until `condition` holds. The condition is brought about by other threads, so no bound on turns would hold at
/// every speed; a test that never gets there is stopped by its runner.
pub async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
