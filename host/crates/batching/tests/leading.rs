//! Who runs the next batch. An instance that a test holds busy makes requests wait; when it comes back, exactly one of
//! them is asked to lead, and if that one leaves, the next is. Futures are polled by hand, so every order is a test.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use batching::{BatchError, BatchHandle, DropReason, InferenceRequest, Inferred};
use common::{Bench, Setup, assert_answers, expiring, request};
use model::testing::{FakeControl, FakeInstance, FakeMode};
use model::{BatchLayout, Completion, EngineError, ModelInstance, Slot};

/// An inline instance whose first batch stays inside `submit` until the test lets it out.
struct Gated {
    fake: FakeInstance,
    gate: Option<(Sender<()>, Receiver<()>)>,
}

impl ModelInstance for Gated {
    fn prepare(&mut self, layout: &BatchLayout) -> Result<&mut dyn Slot, EngineError> {
        self.fake.prepare(layout)
    }

    fn submit(&mut self, done: Completion) {
        if let Some((inside, open)) = self.gate.take() {
            inside.send(()).expect("the test waits");
            open.recv().expect("the test opens");
        }
        self.fake.submit(done);
    }
}

/// A batcher whose only instance is inside a batch, run by another thread.
struct Busy {
    bench: Bench,
    open: Sender<()>,
    runner: JoinHandle<Result<Inferred, BatchError>>,
}

fn busy(max_batch_size: u32) -> Busy {
    busy_with(&Setup { max_batch_size, ..Setup::default() })
}

fn busy_with(setup: &Setup) -> Busy {
    let control = FakeControl::default();
    let (inside, is_inside) = channel();
    let (open, opened) = channel();
    let fake = FakeInstance::new(FakeMode::Inline, control.clone());
    let gated = Gated { fake, gate: Some((inside, opened)) };
    let bench = setup.start_with(vec![Box::new(gated)], control);
    let handle = bench.handle.clone();
    let runner = std::thread::spawn(move || block_on(async move { handle.submit(request(1, 9, 9)).await }));
    is_inside.recv().expect("the first batch runs");
    Busy { bench, open, runner }
}

impl Busy {
    /// Lets the first batch out and waits until its runner is done.
    fn finish_first(self) -> Bench {
        self.open.send(()).expect("the batch waits");
        let inferred = self.runner.join().expect("no panic").expect("runs");
        assert_answers(&inferred, 1, 9, 9);
        self.bench
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}

type Submitted = Pin<Box<dyn Future<Output = Result<Inferred, BatchError>> + Send>>;

/// A request polled by hand, and how often it was woken.
struct Polled {
    future: Mutex<Option<Submitted>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Polled {
    fn submit(handle: &BatchHandle, request: InferenceRequest) -> Self {
        let handle = handle.clone();
        let future: Submitted = Box::pin(async move { handle.submit(request).await });
        let polled = Self { future: Mutex::new(Some(future)), wakes: Arc::default() };
        assert!(polled.poll().is_pending(), "it waits");
        polled
    }

    fn poll(&self) -> Poll<Result<Inferred, BatchError>> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let mut future = self.future.lock().expect("one thread");
        future.as_mut().expect("not dropped").as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn leave(&self) {
        *self.future.lock().expect("one thread") = None;
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    fn assert_answer(&self, width: u64, value: u8) {
        let Poll::Ready(outcome) = self.poll() else { panic!("answered") };
        assert_answers(&outcome.expect("runs"), 1, width, value);
    }
}

/// What the hand-polled futures need of tokio.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

#[test]
fn the_runner_hands_the_lead_to_the_oldest_instead_of_running_on() {
    let busy = busy(8);
    let [first, second] = [1, 2].map(|value| Polled::submit(&busy.bench.handle, request(1, 2, value)));
    assert_eq!(busy.bench.handle.snapshot().queued_requests, 2);
    assert_eq!((first.wakes(), second.wakes()), (0, 0));
    let bench = busy.finish_first();
    assert_eq!(bench.control.batches(), [[1, 9]], "the runner ran its own batch only");
    assert_eq!((first.wakes(), second.wakes()), (1, 0), "one is asked");
    first.assert_answer(2, 1);
    assert_eq!(second.wakes(), 1, "answered by the first");
    second.assert_answer(2, 2);
    assert_eq!(bench.control.batches(), [[1, 9], [2, 2]]);
}

#[test]
fn a_leader_that_leaves_passes_the_lead_on() {
    let busy = busy(8);
    let [first, second, third] = [1, 2, 3].map(|value| Polled::submit(&busy.bench.handle, request(1, 2, value)));
    let bench = busy.finish_first();
    assert_eq!((first.wakes(), second.wakes(), third.wakes()), (1, 0, 0));
    first.leave();
    assert_eq!((second.wakes(), third.wakes()), (1, 0), "the next one is asked");
    second.leave();
    assert_eq!(third.wakes(), 1, "and the next");
    third.assert_answer(2, 3);
    assert_eq!(bench.control.batches(), [[1, 9], [1, 2]], "who left cost nothing");
    assert_eq!(bench.recorder.dropped(), [DropReason::Abandoned, DropReason::Abandoned]);
    assert_eq!(bench.handle.snapshot().instances_idle, 1);
}

#[test]
fn who_leaves_without_the_lead_changes_nothing() {
    let busy = busy(8);
    let [first, second] = [1, 2].map(|value| Polled::submit(&busy.bench.handle, request(1, 2, value)));
    second.leave();
    let bench = busy.finish_first();
    assert_eq!(first.wakes(), 1);
    first.assert_answer(2, 1);
    assert_eq!(bench.control.batches(), [[1, 9], [1, 2]]);
}

#[test]
fn a_newcomer_that_runs_the_leaders_batch_leaves_no_appointment_behind() {
    let runtime = runtime();
    let _context = runtime.enter();
    let busy = busy(2);
    let [first, second, third] = [1, 2, 3].map(|value| Polled::submit(&busy.bench.handle, request(1, 2, value)));
    let bench = busy.finish_first();
    assert_eq!(first.wakes(), 1, "asked, and slow to look");
    let newcomer = Polled::submit(&bench.handle, request(1, 2, 4));
    assert!(newcomer.poll().is_pending(), "it ran the batch of the first two, and is asked itself or waits");
    assert_eq!(bench.control.batches(), [[1, 9], [2, 2]]);
    assert_eq!(third.wakes(), 1, "the lead went to the oldest that waits");
    first.leave();
    second.assert_answer(2, 2);
    third.assert_answer(2, 3);
    newcomer.assert_answer(2, 4);
    assert_eq!(bench.control.batches(), [[1, 9], [2, 2], [2, 2]]);
}

#[test]
fn a_leader_that_expires_before_it_looks_passes_the_lead_on() {
    let runtime = runtime();
    let _context = runtime.enter();
    let busy = busy_with(&Setup { max_queue_size: 2, ..Setup::default() });
    let leader = Polled::submit(&busy.bench.handle, expiring(request(1, 2, 1), Duration::from_secs(60)));
    let second = Polled::submit(&busy.bench.handle, request(1, 3, 2));
    let bench = busy.finish_first();
    assert_eq!((leader.wakes(), second.wakes()), (1, 0));
    runtime.block_on(tokio::time::advance(Duration::from_secs(61)));

    // The queue is full: the newcomer makes room by expiring the leader, which then never looks.
    let newcomer = Polled::submit(&bench.handle, request(1, 4, 3));
    newcomer.leave();
    assert_eq!(second.wakes(), 1, "asked in the leader's place");
    let Poll::Ready(outcome) = leader.poll() else { panic!("answered") };
    assert_eq!(outcome.expect_err("expired"), BatchError::Expired);
    second.assert_answer(3, 2);
    assert_eq!(bench.control.batches(), [[1, 9], [1, 3]]);
}

#[test]
fn a_deadline_fires_on_time_while_the_instance_is_busy() {
    let runtime = runtime();
    let busy = busy(8);
    let handle = busy.bench.handle.clone();
    runtime.block_on(async {
        let started = tokio::time::Instant::now();
        let late = expiring(request(1, 2, 1), Duration::from_millis(30));
        assert_eq!(handle.submit(late).await.expect_err("expires"), BatchError::Expired);
        assert_eq!(started.elapsed().as_millis(), 30);
    });
    let bench = busy.finish_first();
    assert_eq!(bench.control.batches(), [[1, 9]]);
    assert_eq!(bench.recorder.dropped(), [DropReason::Expired]);
}

#[test]
fn a_batch_is_run_and_handed_out_within_one_poll_of_its_leader() {
    let runtime = runtime();
    let _context = runtime.enter();
    let bench = Setup::default().start();
    let [leader, passenger] = [1, 2].map(|value| Polled::submit(&bench.handle, request(1, 2, value)));
    assert!(leader.poll().is_ready(), "one poll runs the whole batch");
    leader.leave();
    passenger.assert_answer(2, 2);
    assert_eq!(bench.control.batches(), [[2, 2]]);
}
