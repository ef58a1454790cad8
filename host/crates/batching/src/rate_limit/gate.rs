//! The door of an instance that needs resources: open while it holds a permit. It belongs to the state of its batcher.

use super::{Member, Permit};

/// See the module.
pub(crate) struct Gate {
    member: Member,
    permit: Option<Permit>,
    is_asking: bool,
}

impl Gate {
    /// Closed.
    pub(crate) fn new(member: Member) -> Self {
        Self { member, permit: None, is_asking: false }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.permit.is_some()
    }

    /// Asks for a permit, unless it has one or is waiting for one; whether it has one now.
    pub(crate) fn open(&mut self) -> bool {
        if self.permit.is_none() && !self.is_asking {
            self.permit = self.member.ask();
            self.is_asking = self.permit.is_none();
        }
        self.is_open()
    }

    /// Takes in a permit that was asked for; the one that it has no use for comes back.
    pub(crate) fn receive(&mut self, permit: Permit) -> Option<Permit> {
        self.is_asking = false;
        self.permit.replace(permit)
    }

    /// The permit, for the batch that begins.
    pub(crate) fn pass(&mut self) -> Option<Permit> {
        self.permit.take()
    }

    /// Nothing is to run: asks no more. What it held is to be dropped without the batcher's lock.
    pub(crate) fn close(&mut self) -> Option<Permit> {
        if std::mem::take(&mut self.is_asking) {
            self.member.withdraw();
        }
        self.permit.take()
    }
}
