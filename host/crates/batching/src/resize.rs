//! More or fewer instances while requests are served: those that are added start at the next batch, those that are
//! retired finish theirs first.

use std::num::NonZeroUsize;

use model::ModelInstance;
use tokio::runtime::Handle;

use crate::handle::{BatchHandle, StartError, slot};
use crate::rate_limit::{Gate, Leftover};
use crate::state::{InstanceSlot, State, WorkerState};

impl BatchHandle {
    /// Instances that run batches, or would if there were any.
    #[must_use]
    pub fn instances(&self) -> usize {
        self.owner.shared.lock().serving().count()
    }

    /// Adds instances of the version that this batcher runs. They need nothing of a rate limiter.
    ///
    /// # Errors
    /// [`StartError::Thread`] when a worker cannot be had; the instances before it have been added.
    pub fn add_instances(&self, instances: Vec<Box<dyn ModelInstance>>) -> Result<(), StartError> {
        let shared = &self.owner.shared;
        for instance in instances {
            let (index, vacated) = shared.lock().place(instance);
            // Its gate leaves the rate limiter, which may call other batchers.
            drop(vacated);
            let needs_worker = shared.lock().pace.needs_workers();
            if needs_worker {
                // The slot stays: in inline mode, requests use it without a worker.
                self.owner.hire(index, Handle::try_current().ok())?;
            }
            // Somebody may be waiting for it.
            shared.change(|_| ());
        }
        Ok(())
    }

    /// Retires all but `count` instances: they start nothing further, and are freed when they are idle.
    pub fn keep_instances(&self, count: NonZeroUsize) {
        let unused: Vec<Leftover> = self.owner.shared.change(|state| {
            let retired: Vec<usize> = state.serving().skip(count.get()).collect();
            let retire = |index: usize| {
                let slot = &mut state.slots[index];
                slot.is_retired = true;
                // What it holds or waits for is for those that still run.
                let unused = slot.gate.as_mut().and_then(Gate::close);
                state.free_if_retired(index);
                unused
            };
            retired.into_iter().filter_map(retire).collect()
        });
        // It goes to other models, whose locks are taken for that.
        drop(unused);
    }
}

impl State {
    /// The slots of instances that are not retired.
    fn serving(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter(|(_, slot)| !slot.is_retired).map(|(index, _)| index)
    }

    /// Puts an instance into a slot that is vacant, or a new one; returns what was in it, to be dropped without the lock.
    fn place(&mut self, instance: Box<dyn ModelInstance>) -> (usize, Option<InstanceSlot>) {
        let has_workers = self.pace.needs_workers();
        let is_vacant = |slot: &InstanceSlot| slot.is_vacant() && (!has_workers || slot.worker == WorkerState::Ended);
        match self.slots.iter().position(is_vacant) {
            Some(index) => {
                let vacated = std::mem::replace(&mut self.slots[index], slot(instance));
                (index, Some(vacated))
            }
            None => {
                self.slots.push(slot(instance));
                (self.slots.len() - 1, None)
            }
        }
    }
}
