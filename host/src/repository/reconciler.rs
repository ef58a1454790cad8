//! The reconciler: the one thread that knows what the files say, and the only writer of the registry. It looks at the
//! repositories (sooner where there is a hint), waits until a unit has come to rest, has the load threads assemble a
//! model's next state, and publishes it in one store. One job per model at a time, so a slow or failing model delays
//! nobody else. If this thread ended, everything would go on serving as it is and no change would be picked up; the
//! host stops then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use model::{ModelName, Moment};
use tokio::time::Instant;

use super::assemble::{Assembly, Job, JobResult, SwapRecord, assemble};
use super::content::PluginContent;
use super::history::GenerationRecord;
use super::history_writer::HistoryWriter;
use super::job_queue::JobQueue;
use super::model_state::ModelState;
use super::scan::{ModelFiles, Unit, scan_model, scan_repository};
use super::settle::{Observation, SettlePolicy, Settling};
use super::watcher::{FileWatcher, Hints};
use super::workshop::Workshop;
use crate::metrics::SwapOutcome;
use crate::registry::{ModelRegistry, ServedModel};
use crate::settings::Rescan;

/// The part of a model that a problem of its whole folder is recorded under.
const FOLDER: &str = "folder";

/// What wakes the reconciler.
pub enum Wake {
    /// File events have left hints.
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
    waiting: BTreeMap<ModelName, Moment>,
    unlistable: BTreeSet<PathBuf>,
    skipped: BTreeMap<PathBuf, String>,
    next_scan: Moment,
    next_rehash: Moment,
    first_pass: bool,
}

impl Loop {
    fn new(parts: ReconcilerParts, LoopParts { jobs, waker, own_wake, history }: LoopParts) -> Self {
        let next_rehash = Moment::ORIGIN.after(parts.rescan.rehash);
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
            waiting: BTreeMap::new(),
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
        loop {
            self.look();
            match self.waker.recv_timeout(self.sleep_time()) {
                Ok(Wake::Hint) => self.take_hints(),
                Ok(Wake::Done(done)) => self.take_result(*done),
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
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

    fn scan_all(&mut self, now: Moment) {
        let mut found: HashMap<ModelName, PathBuf> = HashMap::new();
        let mut seen = BTreeSet::new();
        let mut all_listed = true;
        for root in self.parts.roots.clone() {
            match scan_repository(&root) {
                Ok(files) => {
                    self.unlistable.remove(&root);
                    seen.extend(files.skipped.iter().map(|(path, _)| path.clone()));
                    self.report_skipped(&files.skipped);
                    for (name, (dir, reason)) in files.unreadable {
                        found.entry(name.clone()).or_insert_with(|| dir.clone());
                        self.observe_unreadable(&name, &dir, &reason);
                    }
                    for (name, model) in files.models {
                        if let Some(first) = found.get(&name) {
                            let reason = format!("model '{name}' is already in {}", first.display());
                            seen.insert(model.dir.clone());
                            self.report_skipped(&[(model.dir, reason)]);
                            continue;
                        }
                        found.insert(name.clone(), model.dir.clone());
                        self.observe(&name, model, now);
                    }
                }
                Err(error) => {
                    all_listed = false;
                    if self.unlistable.insert(root.clone()) {
                        tracing::error!(
                            repository = %root.display(), %error,
                            "the model repository cannot be listed; its models serve on as they are"
                        );
                    }
                }
            }
        }
        if all_listed {
            self.skipped.retain(|path, _| seen.contains(path));
            let gone: Vec<ModelName> = self.models.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
            for name in gone {
                self.observe_gone(&name, now);
            }
        }
    }

    fn scan_one(&mut self, name: &ModelName, now: Moment) {
        let known = self.models.get(name).map(|state| state.dir.clone());
        let dirs: Vec<PathBuf> = known
            .into_iter()
            .chain(self.parts.roots.iter().map(|root| root.join(name.as_str())))
            .filter(|dir| dir.is_dir())
            .collect();
        match dirs.first().map(|dir| scan_model(dir)) {
            Some(Ok(files)) => self.observe(name, files, now),
            Some(Err(error)) => self.observe_unreadable(name, &dirs[0], &error.to_string()),
            None if self.parts.roots.iter().all(|root| root.is_dir()) => self.observe_gone(name, now),
            None => {}
        }
    }

    fn report_skipped(&mut self, skipped: &[(PathBuf, String)]) {
        for (path, reason) in skipped {
            if self.skipped.get(path) != Some(reason) {
                tracing::warn!(path = %path.display(), reason, "left alone");
                self.skipped.insert(path.clone(), reason.clone());
            }
        }
    }

    /// Takes in what a model's folder looks like and notes when to look again; queues a job for what is at rest.
    fn observe(&mut self, name: &ModelName, files: ModelFiles, now: Moment) {
        let policy = self.policy();
        let first_pass = self.first_pass;
        if files.units.is_empty() && !self.models.contains_key(name) {
            let reason = "it has neither a config.pbtxt, nor a version folder, nor a plugin".to_owned();
            return self.report_skipped(&[(files.dir, reason)]);
        }
        self.observe_readable(name);
        let state = self.models.entry(name.clone()).or_insert_with(|| ModelState::new(files.dir.clone()));
        state.dir.clone_from(&files.dir);
        state.gone_since = None;
        let mut units = files.units;
        for unit in state.units.keys() {
            units.entry(*unit).or_default();
        }
        let (mut at_rest, mut restless) = (BTreeSet::new(), Vec::new());
        let mut look_again: Option<Moment> = None;
        for (unit, files) in units {
            let settling = state.units.entry(unit).or_insert_with(|| {
                let mut settling = Settling::first_seen(files.clone(), now);
                if first_pass && files.values().all(|stat| stat.is_older_than(policy.settle, SystemTime::now())) {
                    settling.was_at_rest();
                }
                settling
            });
            match settling.observe(files, now, policy) {
                Observation::Settled => {}
                Observation::AtRest => drop(at_rest.insert(unit)),
                Observation::Wait(until) => look_again = Some(look_again.map_or(until, |at| at.min(until))),
                Observation::StillChanging => restless.push(unit),
            }
        }
        // A new model is taken whole: no unit of it is published while another is still being copied.
        let hold = !state.tried && look_again.is_some();
        if let Some(until) = look_again {
            self.waiting.insert(name.clone(), until);
        }
        if !state.busy && !hold && !at_rest.is_empty() {
            let job = state.job(name, at_rest);
            self.jobs.add(job);
        }
        for unit in restless {
            self.note_restless(name, unit, "its files keep changing");
        }
    }

    /// Files of a unit have not come to rest, or not become whole, for the cap: the one record of it. A model that has
    /// nothing else to show is known by the reason at once.
    fn note_restless(&mut self, name: &ModelName, unit: Unit, reason: &str) {
        let Some(state) = self.models.get_mut(name) else { return };
        state.tried = true;
        state.restless.insert(unit, reason.to_owned());
        if state.basis.served.is_none() {
            let problems = state.restless.iter().map(|(unit, reason)| (unit.to_string(), reason.clone())).collect();
            self.parts.registry.publish(Arc::new(ServedModel { problems, ..ServedModel::empty(name.clone()) }));
        }
        report_restless(name, unit, &self.parts.workshop, reason);
    }

    /// A model's folder is there and cannot be looked at: what serves, serves on. One record per reason.
    fn observe_unreadable(&mut self, name: &ModelName, dir: &Path, reason: &str) {
        let state = self.models.entry(name.clone()).or_insert_with(|| ModelState::new(dir.to_path_buf()));
        state.gone_since = None;
        state.tried = true;
        if state.unreadable.as_deref() == Some(reason) {
            return;
        }
        state.unreadable = Some(reason.to_owned());
        self.parts.workshop.metrics.swap(name, SwapOutcome::FailedToBuild);
        tracing::error!(
            model = %name, part = FOLDER, outcome = SwapOutcome::FailedToBuild.as_str(), reason,
            "the model's folder cannot be read; what served before serves on"
        );
        self.publish_problem(name, Some(reason));
    }

    fn observe_readable(&mut self, name: &ModelName) {
        if self.models.get_mut(name).and_then(|state| state.unreadable.take()).is_some() {
            self.publish_problem(name, None);
        }
    }

    /// Publishes what serves with or without a problem of its folder.
    fn publish_problem(&mut self, name: &ModelName, reason: Option<&str>) {
        let Some(state) = self.models.get_mut(name) else { return };
        let mut served = state.basis.served.as_deref().cloned().unwrap_or_else(|| ServedModel::empty(name.clone()));
        match reason {
            Some(reason) => drop(served.problems.insert(FOLDER.to_owned(), reason.to_owned())),
            None => drop(served.problems.remove(FOLDER)),
        }
        let served = Arc::new(served);
        if state.basis.served.is_some() {
            state.basis.served = Some(Arc::clone(&served));
        }
        self.parts.registry.publish(served);
    }

    /// A model's folder is gone; when it stays gone, the model is removed.
    fn observe_gone(&mut self, name: &ModelName, now: Moment) {
        let settle = self.parts.rescan.settle;
        let Some(state) = self.models.get_mut(name) else { return };
        let since = *state.gone_since.get_or_insert(now);
        if state.busy || now.since(since) < settle {
            self.waiting.insert(name.clone(), since.after(settle).max(now.after(Duration::from_millis(10))));
            return;
        }
        self.models.remove(name);
        if let Some(old) = self.parts.registry.remove(name) {
            tracing::info!(model = %name, "model removed: its folder is gone");
            self.retire(&old, None);
        }
    }

    fn take_result(&mut self, done: JobDone) {
        let (now, policy) = (self.now(), self.policy());
        let JobDone { job: Job { name, changed, files, .. }, result } = done;
        let Some(state) = self.models.get_mut(&name) else { return };
        state.busy = false;
        match result {
            JobResult::Done(assembly) => {
                for unit in &changed {
                    state.dealt_with(*unit, files.get(unit));
                }
                state.tried = true;
                self.publish(&name, *assembly);
            }
            JobResult::NotWhole(unit, reason) => {
                let observation = state.units.get_mut(&unit).map(|settling| settling.not_whole(now, policy));
                if observation == Some(Observation::StillChanging) {
                    self.note_restless(&name, unit, &reason);
                }
            }
            JobResult::Moved => {}
        }
        // What changed meanwhile, and what waited for this job, is looked at now.
        self.waiting.insert(name, now);
    }

    /// The one place where anything starts to serve.
    fn publish(&mut self, name: &ModelName, assembly: Assembly) {
        let Assembly { basis, records, save } = assembly;
        let Some(served) = basis.served.clone() else { return };
        if let Some(state) = self.models.get_mut(name) {
            state.basis = basis;
        }
        let old = self.parts.registry.publish(Arc::clone(&served));
        for record in &records {
            self.report(name, record);
        }
        let metrics = &self.parts.workshop.metrics;
        for release in served.releases.values() {
            let version = release.version.number;
            match release.generation() {
                Some(generation) => metrics.show_generation(name, version, generation.number),
                None => metrics.forget_generation(name, version),
            }
        }
        if let Some(old) = old {
            self.retire(&old, Some(&served));
        }
        if let Some((generation, content)) = save {
            self.keep_on_disk(name.clone(), generation, content);
        }
    }

    fn report(&self, name: &ModelName, record: &SwapRecord) {
        self.parts.workshop.metrics.swap(name, record.outcome);
        let SwapRecord { part, outcome, generation, reason, correction: _ } = record;
        let outcome = outcome.as_str();
        match reason {
            None if part == "plugin" && generation.is_none() => {
                tracing::warn!(model = %name, part, outcome, "plugin removed; the model serves without one");
            }
            None => tracing::info!(model = %name, part, outcome, generation, "published"),
            Some(reason) => {
                tracing::error!(model = %name, part, outcome, generation, reason, "refused; what served before serves on");
            }
        }
    }

    /// Marks what `new` no longer has as draining.
    fn retire(&self, old: &ServedModel, new: Option<&ServedModel>) {
        let metrics = &self.parts.workshop.metrics;
        for (number, release) in &old.releases {
            let successor = new.and_then(|served| served.releases.get(number));
            if successor.is_none() {
                metrics.forget_version(&old.name, *number);
                tracing::info!(model = %old.name, version = %number, "version no longer served");
            }
            if !successor.is_some_and(|release_now| Arc::ptr_eq(&release_now.version, &release.version)) {
                release.version.start_draining(&metrics.draining);
            }
            if let Some(generation) = release.generation()
                && !new.is_some_and(|served| served.serves(generation))
            {
                generation.start_draining(&metrics.draining);
            }
        }
        if !new.is_some_and(|served| served.releases.values().any(|release| release.generation().is_some())) {
            metrics.forget_plugin(&old.name);
        }
    }

    fn keep_on_disk(&self, model: ModelName, generation: u64, content: PluginContent) {
        let published_unix_seconds =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let record = GenerationRecord { generation, digest: content.digest.to_string(), published_unix_seconds };
        self.history.keep(model, record, content);
    }

    fn report_first_pass(&mut self) {
        let metrics = &self.parts.workshop.metrics;
        let map = self.parts.registry.snapshot();
        let ready = map.models().filter(|model| !model.releases.is_empty()).count();
        metrics.models_in_state("ready", ready);
        metrics.models_in_state("unavailable", self.models.len().saturating_sub(ready));
        if self.first_pass && self.models.values().all(|model| model.tried) {
            self.first_pass = false;
            self.parts.registry.first_pass_done();
            tracing::info!(models = self.models.len(), ready, "first pass over the model repositories done");
            if self.models.is_empty() {
                let repositories: Vec<_> = self.parts.roots.iter().map(|root| root.display().to_string()).collect();
                tracing::warn!(
                    ?repositories,
                    "no model found; a repository holds one folder per model, such as my_model/1/model.onnx"
                );
            }
        }
    }
}

fn report_restless(name: &ModelName, unit: Unit, workshop: &Workshop, reason: &str) {
    workshop.metrics.swap(name, SwapOutcome::StillChanging);
    tracing::error!(
        model = %name, part = %unit, outcome = SwapOutcome::StillChanging.as_str(), reason,
        "not read; what served before serves on"
    );
}
