//! The reconciler: the one thread that knows what the files say, and the only writer of the registry. It looks at the
//! repositories (sooner where there is a hint), waits until a unit has come to rest, has the load threads assemble a
//! model's next state, and publishes it in one store. One job per model at a time, so a slow or failing model delays
//! nobody else. If this thread ended, everything would go on serving as it is and no change would be picked up; the
//! host stops then.

mod discover;
mod observe;
mod publish;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use model::{ModelName, Moment};
use tokio::time::Instant;

use super::assemble::{Job, JobResult, assemble};
use super::control::ModelControlQueue;
use super::history_writer::HistoryWriter;
use super::job_queue::JobQueue;
use super::model_state::ModelState;
use super::settle::{SettlePolicy, Settling};
use super::watcher::{FileWatcher, Hints};
use super::workshop::Workshop;
use crate::registry::ModelRegistry;
use crate::settings::{ModelControl, Rescan, StartupModels};

/// The part of a model that a problem of its whole folder is recorded under.
pub(super) const FOLDER: &str = "folder";

/// What wakes the reconciler.
pub enum Wake {
    /// File events have left hints, or requests wait.
    Hint,
    /// A load thread is done with a model.
    Done(Box<JobDone>),
    /// End.
    Stop,
}

/// A finished job and what came of it.
pub struct JobDone {
    job: Job,
    result: JobResult,
}

/// The running reconciler and its load threads.
pub struct Reconciler {
    wake: SyncSender<Wake>,
    thread: JoinHandle<()>,
    loaders: Vec<JoinHandle<()>>,
}

/// What the reconciler works with.
pub struct ReconcilerParts {
    /// Model repositories.
    pub roots: Vec<PathBuf>,
    /// When to look.
    pub rescan: Rescan,
    /// Who decides what is loaded.
    pub control: ModelControl,
    /// Where load and unload requests come from.
    pub requests: ModelControlQueue,
    /// Load threads.
    pub load_threads: usize,
    /// Where to publish.
    pub registry: Arc<ModelRegistry>,
    /// Where candidates are built.
    pub workshop: Arc<Workshop>,
}

impl Reconciler {
    /// Starts the threads. The first pass begins at once.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(parts: ReconcilerParts) -> std::io::Result<Self> {
        // Every waiting wake-up is either one hint or one finished job, of which there is one per load thread at most.
        let (wake, waker) = sync_channel(parts.load_threads + 2);
        let jobs = Arc::new(JobQueue::default());
        let mut loaders = Vec::new();
        for index in 0..parts.load_threads {
            let (queue, wake) = (Arc::clone(&jobs), wake.clone());
            let workshop = Arc::clone(&parts.workshop);
            let run = move || load_loop(&queue, &wake, &workshop);
            loaders.push(std::thread::Builder::new().name(format!("load-{index}")).spawn(run)?);
        }
        let own_wake = wake.clone();
        let history = HistoryWriter::start(parts.workshop.history.clone())?;
        let run = move || Loop::new(parts, LoopParts { jobs, waker, own_wake, history }).run();
        let thread = std::thread::Builder::new().name("reconciler".to_owned()).spawn(run)?;
        Ok(Self { wake, thread, loaders })
    }

    /// Whether the thread and all load threads still run.
    #[must_use]
    pub fn is_running(&self) -> bool {
        std::iter::once(&self.thread).chain(&self.loaders).all(|thread| !thread.is_finished())
    }

    /// Lets jobs in hand finish, publishes nothing further, and ends.
    pub fn stop(self) {
        let _ = self.wake.send(Wake::Stop);
        for thread in std::iter::once(self.thread).chain(self.loaders) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a thread panicked");
            }
        }
    }
}

fn load_loop(queue: &JobQueue, wake: &SyncSender<Wake>, workshop: &Workshop) {
    while let Some(job) = queue.take() {
        let result = assemble(&job, workshop);
        if wake.send(Wake::Done(Box::new(JobDone { job, result }))).is_err() {
            return;
        }
    }
}

/// What joins the reconciler to its threads.
struct LoopParts {
    jobs: Arc<JobQueue>,
    waker: Receiver<Wake>,
    own_wake: SyncSender<Wake>,
    history: HistoryWriter,
}

struct Loop {
    parts: ReconcilerParts,
    jobs: Arc<JobQueue>,
    waker: Receiver<Wake>,
    own_wake: SyncSender<Wake>,
    history: HistoryWriter,
    hints: Hints,
    watcher: Option<FileWatcher>,
    origin: Instant,
    models: BTreeMap<ModelName, ModelState>,
    /// Models that have been known so far, those that are gone included.
    incarnations: u64,
    /// Models that were asked for by name.
    wanted: BTreeSet<ModelName>,
    waiting: BTreeMap<ModelName, Moment>,
    /// Models with load requests that wait for others.
    queued: BTreeSet<ModelName>,
    unlistable: BTreeSet<PathBuf>,
    skipped: BTreeMap<PathBuf, String>,
    next_scan: Moment,
    next_rehash: Moment,
    first_pass: bool,
}

impl Loop {
    fn new(parts: ReconcilerParts, LoopParts { jobs, waker, own_wake, history }: LoopParts) -> Self {
        let next_rehash = Moment::ORIGIN.after(parts.rescan.rehash);
        let wanted = match &parts.control {
            ModelControl::Requests(StartupModels::Named(names)) => names.clone(),
            _ => BTreeSet::new(),
        };
        Self {
            parts,
            jobs,
            waker,
            own_wake,
            history,
            hints: Hints::default(),
            watcher: None,
            origin: Instant::now(),
            models: BTreeMap::new(),
            incarnations: 0,
            wanted,
            waiting: BTreeMap::new(),
            queued: BTreeSet::new(),
            unlistable: BTreeSet::new(),
            skipped: BTreeMap::new(),
            next_scan: Moment::ORIGIN,
            next_rehash,
            first_pass: true,
        }
    }

    fn run(mut self) {
        // Watching starts before the first scan, so that no change falls between the two.
        match FileWatcher::start(&self.parts.roots, self.hints.clone(), self.own_wake.clone()) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => tracing::warn!(
                %error, rescan_ms = self.parts.rescan.interval.as_millis(),
                "no file events here; changes are found by the periodic scan alone"
            ),
        }
        self.parts.requests.attach(self.own_wake.clone());
        loop {
            self.take_requests();
            self.look();
            match self.waker.recv_timeout(self.sleep_time()) {
                Ok(Wake::Hint) => self.take_hints(),
                Ok(Wake::Done(done)) => self.take_result(*done),
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.parts.requests.detach();
        self.jobs.close();
        self.history.stop();
    }

    fn now(&self) -> Moment {
        Moment::from_origin(self.origin.elapsed())
    }

    fn policy(&self) -> SettlePolicy {
        SettlePolicy { settle: self.parts.rescan.settle, cap: self.parts.rescan.settle_cap }
    }

    fn sleep_time(&self) -> Duration {
        if self.queued.iter().any(|name| self.models.get(name).is_none_or(ModelState::is_free)) {
            return Duration::ZERO;
        }
        let next = self.waiting.values().copied().chain([self.next_scan]).min();
        next.map_or(self.parts.rescan.interval, |at| at.since(self.now()))
    }

    fn look(&mut self) {
        let now = self.now();
        if now >= self.next_rehash {
            self.models.values_mut().flat_map(|model| model.units.values_mut()).for_each(Settling::reread);
            self.next_rehash = now.after(self.parts.rescan.rehash);
        }
        if now >= self.next_scan {
            self.scan_all(now);
            self.next_scan = now.after(self.parts.rescan.interval);
        }
        let due: Vec<ModelName> =
            self.waiting.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.waiting.remove(&name);
            self.scan_one(&name, now);
        }
        self.report_first_pass();
    }

    fn take_hints(&mut self) {
        match self.hints.take() {
            None => self.next_scan = self.now(),
            Some(models) => {
                let now = self.now();
                for name in models {
                    self.waiting.entry(name).or_insert(now);
                }
            }
        }
    }
}
