//! What the reconciler knows of one model: how far each unit is on its way to rest, what is in force, and whether a job
//! is out for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{ModelName, Moment};

use super::assemble::{Basis, Job};
use super::control::{Answer, ControlError};
use super::overrides::Overrides;
use super::scan::{Files, Unit};
use super::settle::Settling;

/// What of a model is followed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    /// Whatever changes.
    Everything,
    /// The model-level plugin; the rest stays as it is served.
    Plugin,
    /// Nothing.
    Nothing,
}

impl Following {
    pub(super) fn includes(self, unit: Unit) -> bool {
        match self {
            Self::Everything => true,
            Self::Plugin => unit == Unit::Plugin,
            Self::Nothing => false,
        }
    }
}

/// A load request.
pub(super) struct Order {
    /// The model's folder, or the one that stands in for it.
    pub dir: PathBuf,
    /// What stands in for the model's files.
    pub overrides: Option<Overrides>,
    /// Whoever asked.
    pub answer: Answer,
}

/// One model.
pub(super) struct ModelState {
    /// Tells it from others that had its name before.
    pub incarnation: u64,
    /// Its folder.
    pub dir: PathBuf,
    /// Its units.
    pub units: BTreeMap<Unit, Settling>,
    /// What is in force.
    pub basis: Basis,
    /// Whether a job is out.
    pub busy: bool,
    /// Units that do not come to rest, and why.
    pub restless: BTreeMap<Unit, String>,
    /// Whether a first job has been done, well or badly.
    pub tried: bool,
    /// Why its folder cannot be looked at now.
    pub unreadable: Option<String>,
    /// Since when its folder is gone.
    pub gone_since: Option<Moment>,
    /// What a load request put in place of its files.
    pub overrides: Option<Overrides>,
    /// Load requests for what `dir` and `overrides` are now; they wait for the next job.
    pub orders: Vec<Answer>,
    /// Load requests that wait for those to be answered, in the order in which they came.
    pub later: VecDeque<Order>,
    /// `dir` and `overrides` as they were before the load request in hand.
    before: Option<(PathBuf, Option<Overrides>)>,
}

impl ModelState {
    /// A model just found.
    #[must_use]
    pub(super) fn new(dir: PathBuf, incarnation: u64) -> Self {
        Self {
            incarnation,
            dir,
            units: BTreeMap::new(),
            basis: Basis::default(),
            restless: BTreeMap::new(),
            busy: false,
            tried: false,
            unreadable: None,
            gone_since: None,
            overrides: None,
            orders: Vec::new(),
            later: VecDeque::new(),
            before: None,
        }
    }

    /// Whether somebody waits for it to be loaded.
    pub(super) fn is_ordered(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Whether a load request can be taken in hand.
    pub(super) fn is_free(&self) -> bool {
        !self.busy && !self.is_ordered()
    }

    /// Takes in a load request: now, where nothing is in hand or it asks for the same files as what waits; else when
    /// those are answered, so that everyone hears what came of their own request.
    pub(super) fn order(&mut self, order: Order, now: Moment) {
        let asks_for_the_same =
            !self.busy && self.later.is_empty() && self.overrides.is_none() && order.overrides.is_none();
        if self.is_free() || asks_for_the_same {
            self.begin(order, now);
        } else {
            self.later.push_back(order);
        }
    }

    /// Takes the next load request in hand, with those after it that ask for the same files.
    pub(super) fn next_order(&mut self, now: Moment) {
        while self.is_free() || self.later.front().is_some_and(|next| next.overrides.is_none()) {
            // Whoever has left is waited for no more, where somebody after them says what is to serve.
            while self.later.len() > 1 && self.later.front().is_some_and(|order| order.answer.is_closed()) {
                self.later.pop_front();
            }
            let Some(next) = self.later.pop_front() else { return };
            let is_plain = next.overrides.is_none();
            self.begin(next, now);
            if !is_plain {
                return;
            }
        }
    }

    /// From now on `dir` and `overrides` are what a load request asks for, and all of it is read again.
    fn begin(&mut self, order: Order, now: Moment) {
        self.reread();
        self.units.values_mut().for_each(|settling| settling.ask(now));
        let Order { dir, overrides, answer } = order;
        let before = (std::mem::replace(&mut self.dir, dir), std::mem::replace(&mut self.overrides, overrides));
        self.before.get_or_insert(before);
        self.orders.push(answer);
    }

    /// Whatever the model consists of is read again.
    pub(super) fn reread(&mut self) {
        // The configuration may have been, or may be, one without a file.
        self.units.entry(Unit::Config).or_insert_with(|| {
            let mut settling = Settling::first_seen(Files::new(), Moment::ORIGIN);
            settling.dealt_with();
            settling
        });
        self.units.values_mut().for_each(Settling::reread);
    }

    /// Whether its folder is one that a load request brought.
    pub(super) fn is_substituted(&self) -> bool {
        self.overrides.as_ref().is_some_and(|overrides| overrides.dir().is_some())
    }

    /// Answers the load request in hand. Where it failed, what served before serves on, from the folder it came from.
    pub(super) fn answer(&mut self, result: &Result<(), ControlError>) {
        let before = self.before.take();
        if let Some((dir, overrides)) = before.filter(|_| result.is_err() && self.serves()) {
            (self.dir, self.overrides) = (dir, overrides);
            self.restless.clear();
        }
        // Whoever does not wait any more needs no answer.
        self.orders.drain(..).for_each(|order| drop(order.send(result.clone())));
    }

    /// Whether some version of it serves.
    pub(super) fn serves(&self) -> bool {
        self.basis.served.as_ref().is_some_and(|served| !served.releases.is_empty())
    }

    /// A job for what is at rest: everything while no configuration is in force, since nothing has been read then, or
    /// where somebody waits for all of it; else the first of configuration, plugin and versions, so that a plugin never
    /// waits for a version to load. What is not followed counts as moving: what serves of it stays.
    pub(super) fn job(&mut self, name: &ModelName, mut at_rest: BTreeSet<Unit>, following: Following) -> Job {
        let changed = if self.basis.config.is_some() && self.is_ordered() {
            at_rest
        } else if self.basis.config.is_some() {
            first_group(at_rest)
        } else {
            at_rest.extend(self.units.iter().filter(|(_, settling)| settling.is_settled()).map(|(unit, _)| *unit));
            at_rest
        };
        let usable = |unit: &Unit, settling: &Settling| {
            (settling.is_settled() || changed.contains(unit)) && !is_removed(*unit, settling, &self.dir)
        };
        let (usable, unusable): (Vec<_>, Vec<_>) =
            self.units.iter().partition(|(unit, settling)| usable(unit, settling));
        let files = usable.into_iter().map(|(unit, settling)| (*unit, settling.files().clone())).collect();
        let stays = following != Following::Everything;
        let here = |(unit, settling): &(&Unit, &Settling)| stays || !is_removed(**unit, settling, &self.dir);
        let moving = unusable.into_iter().filter(here).map(|(unit, _)| *unit).collect();
        self.busy = true;
        Job {
            name: name.clone(),
            incarnation: self.incarnation,
            dir: self.dir.clone(),
            config: self.overrides.as_ref().map(|overrides| Arc::clone(&overrides.config)),
            changed,
            files,
            moving,
            restless: self.restless.clone(),
            basis: self.basis.clone(),
            orders: std::mem::take(&mut self.orders),
        }
    }

    /// A job has read a unit when its files were `files` (`None`: gone). If they still are, it is dealt with.
    pub(super) fn dealt_with(&mut self, unit: Unit, files: Option<&Files>) {
        self.restless.remove(&unit);
        let Some(settling) = self.units.get_mut(&unit) else { return };
        match files {
            Some(files) if files == settling.files() => settling.dealt_with(),
            None if settling.files().is_empty() => drop(self.units.remove(&unit)),
            _ => {}
        }
    }
}

fn first_group(at_rest: BTreeSet<Unit>) -> BTreeSet<Unit> {
    let Some(first) = at_rest.first().copied() else { return at_rest };
    let together = |unit: &Unit| *unit == first || matches!((first, unit), (Unit::Version(_), Unit::Version(_)));
    at_rest.into_iter().filter(together).collect()
}

/// A version whose folder is gone.
fn is_removed(unit: Unit, settling: &Settling, dir: &Path) -> bool {
    match unit {
        Unit::Version(number) => settling.files().is_empty() && !dir.join(number.to_string()).is_dir(),
        Unit::Config | Unit::Plugin => false,
    }
}
