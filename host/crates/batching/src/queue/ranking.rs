//! Who goes before others that came earlier: by level, and in a level whom no timeout has postponed. Kept only where a
//! model has levels or timeouts that delay; elsewhere the order of arrival is all there is.

use std::collections::{BTreeMap, BTreeSet};

use model::Moment;

use super::Ticket;

/// What counts before the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) level: u32,
    pub(super) is_postponed: bool,
}

/// Where a request stands in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) rank: Rank,
    pub(super) ticket: Ticket,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    places: BTreeSet<Place>,
    /// Requests by level; levels without any are left out.
    waiting: BTreeMap<u32, usize>,
    /// When requests are to be postponed.
    postponements: BTreeSet<(Moment, Ticket)>,
}

impl Ranking {
    pub(super) fn enter(&mut self, place: Place, postpone: Option<Moment>) {
        self.places.insert(place);
        *self.waiting.entry(place.rank.level).or_default() += 1;
        self.postponements.extend(postpone.map(|moment| (moment, place.ticket)));
    }

    pub(super) fn leave(&mut self, place: Place, postpone: Option<Moment>) {
        self.places.remove(&place);
        if let Some(moment) = postpone {
            self.postponements.remove(&(moment, place.ticket));
        }
        let level = place.rank.level;
        if let Some(count) = self.waiting.get_mut(&level) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&level);
            }
        }
    }

    /// The request that goes first.
    pub(super) fn front(&self) -> Option<Place> {
        self.places.first().copied()
    }

    /// Requests of a level.
    pub(super) fn count(&self, level: u32) -> usize {
        self.waiting.get(&level).copied().unwrap_or(0)
    }

    /// Requests by level; levels without any are left out.
    pub(super) fn waiting(&self) -> &BTreeMap<u32, usize> {
        &self.waiting
    }

    /// When the next request is to be postponed.
    pub(super) fn next_postponement(&self) -> Option<Moment> {
        self.postponements.first().map(|&(moment, _)| moment)
    }

    /// The next request that is to be postponed by `now`; it is named once.
    pub(super) fn pop_postponement(&mut self, now: Moment) -> Option<Ticket> {
        self.next_postponement().filter(|&moment| moment <= now)?;
        self.postponements.pop_first().map(|(_, ticket)| ticket)
    }
}
