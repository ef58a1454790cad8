//! The janitor: one thread that frees what nothing uses any more, so that no request pays for it. It stops the queue of
//! a version whose last request is done, retires sandboxes, trims idle plugin instances, and forgets the metric series of
//! models that are gone. If it ended early, memory would be freed late; serving would not notice.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use batching::BatchHandle;
use plugin::Plugin;
use tokio::time::Instant;

use crate::metrics::{Departed, Metrics};
use crate::registry::{ModelRegistry, PluginSlot};
use crate::response_cache::VersionCache;

/// How often idle plugin instances are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// How often models that are gone are looked for.
const DEPARTED_INTERVAL: Duration = Duration::from_secs(30);

/// Something to be done when there is time.
pub enum Chore {
    /// Stop a queue and join its threads.
    StopQueue(BatchHandle),
    /// Drop the warm instances of a plugin.
    RetirePlugin(Arc<Plugin>),
    /// Forget what a version that is gone has answered.
    ForgetAnswers(VersionCache),
    /// Nothing further: end.
    Stop,
}

/// Hands chores to the janitor. The queue needs no bound of its own: chores come only from swaps and removals, one
/// of a model at a time, and none of them waits for anything but threads that end.
#[derive(Clone)]
pub struct ChoreSender(Sender<Chore>);

impl ChoreSender {
    /// Leaves a chore. After the janitor has ended it is dropped here, which frees the same things later than wished.
    pub fn send(&self, chore: Chore) {
        let _ = self.0.send(chore);
    }
}

/// The running janitor.
pub struct Janitor {
    chores: ChoreSender,
    thread: JoinHandle<()>,
}

/// A place for chores before the janitor that does them is started.
#[must_use]
pub fn chore_queue() -> (ChoreSender, Receiver<Chore>) {
    let (sender, receiver) = channel();
    (ChoreSender(sender), receiver)
}

impl Janitor {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(
        chores: ChoreSender,
        receiver: Receiver<Chore>,
        registry: Arc<ModelRegistry>,
        metrics: Metrics,
    ) -> std::io::Result<Self> {
        let run = move || work(&receiver, &registry, &metrics);
        let thread = std::thread::Builder::new().name("janitor".to_owned()).spawn(run)?;
        Ok(Self { chores, thread })
    }

    /// Lets the chores left so far be done, then ends.
    pub fn stop(self) {
        self.chores.send(Chore::Stop);
        if self.thread.join().is_err() {
            tracing::error!("the janitor panicked; memory of replaced models may not have been freed");
        }
    }
}

fn work(chores: &Receiver<Chore>, registry: &ModelRegistry, metrics: &Metrics) {
    let mut swept = Instant::now();
    let (mut departed, mut looked) = (Departed::default(), Instant::now());
    loop {
        if swept.elapsed() >= SWEEP_INTERVAL {
            sweep(registry);
            swept = Instant::now();
        }
        if looked.elapsed() >= DEPARTED_INTERVAL {
            looked = Instant::now();
            forget_departed(&mut departed, registry, metrics, looked);
        }
        match chores.recv_timeout(SWEEP_INTERVAL.saturating_sub(swept.elapsed())) {
            Ok(Chore::StopQueue(queue)) => {
                queue.stop();
                drop(queue);
                engine::return_free_memory();
            }
            Ok(Chore::RetirePlugin(plugin)) => plugin.retire(),
            Ok(Chore::ForgetAnswers(answers)) => {
                drop(answers);
                engine::return_free_memory();
            }
            Ok(Chore::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn sweep(registry: &ModelRegistry) {
    for model in registry.snapshot().models() {
        for release in model.releases.values() {
            if let PluginSlot::Serving(generation) = &release.plugin {
                generation.plugin.sweep(Instant::now());
            }
        }
    }
}

/// Forgets the series of models that have been gone, with all their versions freed, for
/// [`SERIES_GRACE`](crate::metrics::SERIES_GRACE).
fn forget_departed(departed: &mut Departed, registry: &ModelRegistry, metrics: &Metrics, now: Instant) {
    let mut gone = metrics.without_versions();
    let map = registry.snapshot();
    gone.retain(|name| !map.knows(name));
    let due = departed.due(now, &gone);
    if !due.is_empty() {
        metrics.forget(&due);
        tracing::debug!(models = due.len(), "the series of models that are gone are forgotten");
    }
}

#[cfg(test)]
mod tests {
    use model::{ModelName, VersionNumber};

    use super::*;
    use crate::metrics::SERIES_GRACE;
    use crate::registry::ServedModel;

    #[test]
    fn the_series_of_a_model_that_is_gone_and_drained_go_after_the_grace() {
        let (registry, metrics, mut departed) = (ModelRegistry::default(), Metrics::new(), Departed::default());
        let [gone, known, draining] = ["gone", "known", "draining"].map(|name| ModelName::new(name).expect("a name"));
        let version = |name| metrics.version(name, VersionNumber::new(1).expect("not 0"), &Arc::default());
        let _busy = version(&draining);
        drop([&gone, &known].map(version));
        registry.publish(Arc::new(ServedModel::empty(known.clone())));
        let start = Instant::now();
        forget_departed(&mut departed, &registry, &metrics, start);
        forget_departed(&mut departed, &registry, &metrics, start + SERIES_GRACE / 2);
        let shows = |name: &ModelName| metrics.render().expect("encodes").contains(&format!("\"{name}\""));
        assert!([&gone, &known, &draining].into_iter().all(shows), "a scraper may still want them");
        forget_departed(&mut departed, &registry, &metrics, start + SERIES_GRACE);
        assert_eq!([&gone, &known, &draining].map(shows), [false, true, true]);
    }
}
