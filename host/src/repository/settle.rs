//! When a unit's files have come to rest. Pure: time and files come in as arguments.

use std::time::Duration;

use model::Moment;

use super::scan::Files;

/// How long files must be still, and when restlessness is reported.
#[derive(Clone, Copy, Debug)]
pub struct SettlePolicy {
    /// Stillness that counts as rest.
    pub settle: Duration,
    /// Restlessness that is reported, once.
    pub cap: Duration,
}

/// What to do about a unit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nothing has changed since it was last dealt with.
    Settled,
    /// It moves; look again at this moment.
    Wait(Moment),
    /// It has come to rest: read it.
    AtRest,
    /// It has been moving for the cap; said once per restless time.
    StillChanging,
}

/// One unit's way to rest.
#[derive(Clone, Debug)]
pub struct Settling {
    seen: Files,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Dealt with.
    Settled,
    /// Known to be at rest, and not dealt with.
    Rested,
    Moving {
        since: Moment,
        last_change: Moment,
        reported: bool,
        /// Whether the files were read as they are, and found not to be whole.
        cut_short: bool,
    },
}

impl Phase {
    fn moving(now: Moment) -> Self {
        Self::Moving { since: now, last_change: now, reported: false, cut_short: false }
    }
}

impl Settling {
    /// A unit first seen at `now`: it has to come to rest like any other.
    #[must_use]
    pub fn first_seen(files: Files, now: Moment) -> Self {
        Self { seen: files, phase: Phase::moving(now) }
    }

    /// The files last seen.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.seen
    }

    /// Whether the files last seen have been dealt with.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    /// Takes in what the files look like at `now`.
    pub fn observe(&mut self, files: Files, now: Moment, policy: SettlePolicy) -> Observation {
        if files != self.seen {
            self.seen = files;
            self.phase = match self.phase {
                Phase::Settled | Phase::Rested => Phase::moving(now),
                Phase::Moving { since, reported, .. } => {
                    Phase::Moving { since, last_change: now, reported, cut_short: false }
                }
            };
        }
        let (since, last_change, reported, cut_short) = match &mut self.phase {
            Phase::Settled => return Observation::Settled,
            Phase::Rested => return Observation::AtRest,
            Phase::Moving { since, last_change, reported, cut_short } => (since, last_change, reported, *cut_short),
        };
        let rest_at = last_change.after(policy.settle);
        if now >= rest_at {
            return Observation::AtRest;
        }
        // Files that are cut short do not move: whoever reads them next says what is wrong with them.
        if !*reported && !cut_short && now.since(*since) >= policy.cap {
            *reported = true;
            return Observation::StillChanging;
        }
        Observation::Wait(rest_at)
    }

    /// The files at rest have been read; whatever came of it, they are dealt with until they change.
    pub fn dealt_with(&mut self) {
        self.phase = Phase::Settled;
    }

    /// The files at rest are not whole yet: they count as moving. Says whether the cap is reached for the first time.
    pub fn not_whole(&mut self, now: Moment, policy: SettlePolicy) -> Observation {
        if !matches!(self.phase, Phase::Moving { .. }) {
            self.phase = Phase::moving(now);
        }
        let Phase::Moving { since, last_change, reported, cut_short } = &mut self.phase else {
            return Observation::Settled;
        };
        (*last_change, *cut_short) = (now, true);
        if !*reported && now.since(*since) >= policy.cap {
            *reported = true;
            return Observation::StillChanging;
        }
        Observation::Wait(now.after(policy.settle))
    }

    /// These files have been still for long enough already: at the next look they are at rest.
    pub fn was_at_rest(&mut self, files: &Files) {
        self.seen.clone_from(files);
        self.phase = Phase::Rested;
    }

    /// Forgets that the files were dealt with, so that their content is read again although no stat differs.
    pub fn reread(&mut self) {
        if self.is_settled() {
            self.phase = Phase::Rested;
        }
    }

    /// Somebody asks for the files from `now` on: what was reported to others is reported again.
    pub fn ask(&mut self, now: Moment) {
        self.reread();
        if let Phase::Moving { since, reported, .. } = &mut self.phase {
            (*since, *reported) = (now, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::repository::scan::Stat;

    const POLICY: SettlePolicy = SettlePolicy { settle: Duration::from_millis(500), cap: Duration::from_secs(10) };

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    /// A file whose content is `version`.
    fn files(version: u8) -> Files {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), vec![0; usize::from(version)]).expect("written");
        Files::from([(PathBuf::from("plugin.wasm"), Stat::of(file.path()).expect("there"))])
    }

    #[test]
    fn rest_is_counted_from_the_last_change() {
        let (first, second) = (files(1), files(2));
        let mut unit = Settling::first_seen(first.clone(), at(0));
        assert_eq!(unit.observe(first.clone(), at(400), POLICY), Observation::Wait(at(500)));
        assert_eq!(unit.observe(second.clone(), at(450), POLICY), Observation::Wait(at(950)));
        assert_eq!(unit.observe(second.clone(), at(950), POLICY), Observation::AtRest);
        unit.dealt_with();
        assert_eq!(unit.observe(second, at(2000), POLICY), Observation::Settled);
        assert_eq!(unit.observe(first, at(3000), POLICY), Observation::Wait(at(3500)));
    }

    #[test]
    fn a_file_that_never_rests_is_reported_once_and_never_read() {
        let versions = [files(1), files(2)];
        let mut unit = Settling::first_seen(versions[1].clone(), at(0));
        let mut reports = 0;
        for step in 1..200_u64 {
            let now = at(step * 100);
            match unit.observe(versions[usize::from(step % 2 == 0)].clone(), now, POLICY) {
                Observation::StillChanging => reports += 1,
                observation => assert_eq!(observation, Observation::Wait(now.after(POLICY.settle))),
            }
        }
        assert_eq!(reports, 1);
    }

    #[test]
    fn an_incomplete_file_waits_for_its_rest_and_is_reported_at_the_cap() {
        let part = files(1);
        let mut unit = Settling::first_seen(part.clone(), at(0));
        assert_eq!(unit.observe(part.clone(), at(500), POLICY), Observation::AtRest);
        assert_eq!(unit.not_whole(at(500), POLICY), Observation::Wait(at(1000)));
        assert_eq!(unit.observe(part.clone(), at(10_500), POLICY), Observation::AtRest);
        assert_eq!(unit.not_whole(at(10_500), POLICY), Observation::StillChanging);
        assert_eq!(unit.observe(part, at(11_000), POLICY), Observation::AtRest);
        assert_eq!(unit.not_whole(at(11_000), POLICY), Observation::Wait(at(11_500)));
        assert_eq!(unit.observe(files(2), at(11_100), POLICY), Observation::Wait(at(11_600)));
    }

    #[test]
    fn a_file_that_is_cut_short_never_counts_as_one_that_changes() {
        let part = files(1);
        let mut unit = Settling::first_seen(part.clone(), at(0));
        assert_eq!(unit.observe(part.clone(), at(9_900), POLICY), Observation::AtRest);
        assert_eq!(unit.not_whole(at(9_900), POLICY), Observation::Wait(at(10_400)));
        assert_eq!(unit.observe(part, at(10_100), POLICY), Observation::Wait(at(10_400)));
    }

    #[test]
    fn whoever_asks_hears_of_restlessness_although_others_did() {
        let versions = [files(1), files(2)];
        let mut unit = Settling::first_seen(versions[0].clone(), at(0));
        assert_eq!(unit.observe(versions[1].clone(), at(10_000), POLICY), Observation::StillChanging);
        assert_eq!(unit.observe(versions[0].clone(), at(10_100), POLICY), Observation::Wait(at(10_600)));
        unit.ask(at(10_200));
        assert_eq!(unit.observe(versions[1].clone(), at(20_100), POLICY), Observation::Wait(at(20_600)));
        assert_eq!(unit.observe(versions[0].clone(), at(20_200), POLICY), Observation::StillChanging);
    }

    #[test]
    fn a_reread_comes_at_once() {
        let content = files(1);
        let mut unit = Settling::first_seen(content.clone(), at(0));
        unit.dealt_with();
        unit.reread();
        assert_eq!(unit.observe(content, at(5000), POLICY), Observation::AtRest);
    }
}
