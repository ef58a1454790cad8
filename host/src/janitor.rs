//! The janitor: one thread that frees what nothing uses any more, so that no request pays for it. It stops the queue of
//! a version whose last request is done, retires sandboxes and trims idle plugin instances. If it ended early, memory would
//! be freed late; serving would not notice.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use batching::BatchHandle;
use plugin::Plugin;
use tokio::time::Instant;

use crate::registry::{ModelRegistry, PluginSlot};

/// How often idle plugin instances are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Something to be done when there is time.
pub enum Chore {
    /// Stop a queue and join its threads.
    StopQueue(BatchHandle),
    /// Drop the warm instances of a plugin.
    RetirePlugin(Arc<Plugin>),
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
    ) -> std::io::Result<Self> {
        let run = move || work(&receiver, &registry);
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

fn work(chores: &Receiver<Chore>, registry: &ModelRegistry) {
    let mut swept = Instant::now();
    loop {
        if swept.elapsed() >= SWEEP_INTERVAL {
            sweep(registry);
            swept = Instant::now();
        }
        match chores.recv_timeout(SWEEP_INTERVAL.saturating_sub(swept.elapsed())) {
            Ok(Chore::StopQueue(queue)) => {
                queue.stop();
                drop(queue);
                engine::return_free_memory();
            }
            Ok(Chore::RetirePlugin(plugin)) => plugin.retire(),
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
