//! What the driver's tests share: a batcher over fake instances, and an observer that counts.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate of its own and uses its part")]

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use batching::{
    BatchError, BatchHandle, BatchObserver, BatchReport, BatcherSpec, DropReason, InferenceRequest, Inferred,
};
use model::testing::{FakeControl, FakeInstance, FakeMode, fake_input, fake_signature};
use model::{BatchingConfig, Execution, ModelInstance, QueuePolicy};
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
    pub max_queue_size: usize,
    pub default_timeout: Option<Duration>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mode: FakeMode::Inline,
            instances: 1,
            execution: Execution::Inline,
            max_batch_size: 8,
            delay: Duration::ZERO,
            max_queue_size: 64,
            default_timeout: None,
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

    pub fn start_with(&self, instances: Vec<Box<dyn ModelInstance>>, control: FakeControl) -> Bench {
        let recorder = Arc::new(Recorder::default());
        let queue = QueuePolicy {
            max_queue_size: NonZeroUsize::new(self.max_queue_size).expect("a bound"),
            default_timeout: self.default_timeout,
        };
        let handle = BatchHandle::start(BatcherSpec {
            name: "fake/1".to_owned(),
            signature: Arc::new(fake_signature()),
            max_batch_size: self.max_batch_size,
            config: BatchingConfig { max_queue_delay: self.delay, queue, ..BatchingConfig::default() },
            execution: self.execution,
            instances,
            observer: Arc::clone(&recorder) as Arc<dyn BatchObserver>,
        })
        .expect("starts");
        Bench { handle, control, recorder }
    }
}

/// A request of `rows` rows of `width` bytes `value`.
pub fn request(rows: u64, width: u64, value: u8) -> InferenceRequest {
    InferenceRequest { inputs: vec![fake_input(rows, width, value)], rows, deadline: None }
}

/// The same, with a deadline from now.
pub fn expiring(request: InferenceRequest, after: Duration) -> InferenceRequest {
    InferenceRequest { deadline: Some(Instant::now() + after), ..request }
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

/// Yields until `condition` holds. The condition is brought about by other threads, so no bound on turns would hold at
/// every speed; a test that never gets there is stopped by its runner.
pub async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
