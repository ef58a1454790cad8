//! The door of an instance that needs resources: open while it holds a permit. It belongs to the state of its batcher.

use super::{Handout, Member, Permit};

/// See the module.
pub(crate) struct Gate {
    member: Member,
    permit: Option<Permit>,
    is_asking: bool,
}

/// What a gate that closes leaves to others. It goes to other models, whose locks are taken for that: drop it while no
/// batcher's lock is held.
pub(crate) enum Leftover {
    /// What it held.
    Permit(#[expect(dead_code, reason = "it is there to be dropped")] Permit),
    /// What was set aside while it asked.
    Turn(#[expect(dead_code, reason = "it is there to be dropped")] Handout),
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

    /// Nothing is to run: asks no more.
    pub(crate) fn close(&mut self) -> Option<Leftover> {
        if std::mem::take(&mut self.is_asking) {
            return self.member.withdraw().map(Leftover::Turn);
        }
        self.permit.take().map(Leftover::Permit)
    }
}
