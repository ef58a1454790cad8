//! Where a stage runs, decided from its own measured times. Handing a call to another thread and back costs tens of
//! microseconds, more than a short guest takes; a long guest on a serving thread delays its neighbours. So a stage starts
//! on the plugin runtime, moves inline once it has proven short, and moves back when it grows long. A plugin that runs out
//! of time is another matter: as long as that is recent, its calls run in the background, where they cannot take cores from
//! requests that need them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::{Placement, PlacementPolicy};

/// Calls before a stage can move inline.
pub(crate) const PROVING_CALLS: u32 = 8;

/// Mean time up to which a stage moves inline.
pub(crate) const INLINE_BELOW: Duration = Duration::from_micros(200);

/// Mean time above which a stage leaves the serving threads; above [`INLINE_BELOW`], so that a stage between the two
/// stays where it is.
pub(crate) const RUNTIME_ABOVE: Duration = Duration::from_micros(500);

/// Weight of the newest time in the mean, as a power of two: 1/8.
const NEWEST_SHIFT: u32 = 3;

/// Calls in time that a plugin owes after one that ran out of it.
const CALLS_OWED: u32 = 64;

/// Whether a plugin ran out of time lately. Racing writers may lose a call, which does no harm.
#[derive(Debug, Default)]
pub(crate) struct Suspicion {
    calls_owed: AtomicU32,
}

impl Suspicion {
    /// Where a stage with this placement runs as things are.
    pub(crate) fn placement(&self, placement: Placement) -> Placement {
        if self.calls_owed.load(Ordering::Relaxed) > 0 { Placement::Background } else { placement }
    }

    /// A guest came back.
    pub(crate) fn came_back(&self) {
        let owed = self.calls_owed.load(Ordering::Relaxed);
        if owed > 0 {
            self.calls_owed.store(owed - 1, Ordering::Relaxed);
        }
    }

    /// A guest was stopped at the plugin's own time limit. A client in a hurry is not the plugin's fault.
    pub(crate) fn ran_out_of_time(&self) {
        self.calls_owed.store(CALLS_OWED, Ordering::Relaxed);
    }
}

/// The measured times of one stage. Racing writers may lose a sample, which does no harm.
#[derive(Debug, Default)]
pub(crate) struct StageTimes {
    mean_ns: AtomicU64,
    samples: AtomicU32,
    short: AtomicBool,
}

impl StageTimes {
    pub(crate) fn placement(&self, policy: PlacementPolicy) -> Placement {
        match policy {
            PlacementPolicy::Inline => Placement::Inline,
            PlacementPolicy::Runtime => Placement::Runtime,
            PlacementPolicy::Auto if self.short.load(Ordering::Relaxed) => Placement::Inline,
            PlacementPolicy::Auto => Placement::Runtime,
        }
    }

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn record(&self, run: Duration) {
        let run = u64::try_from(run.as_nanos()).unwrap_or(u64::MAX >> NEWEST_SHIFT);
        let samples = self.samples.load(Ordering::Relaxed);
        let mean = self.mean_ns.load(Ordering::Relaxed);
        let mean = if samples == 0 { run } else { mean - (mean >> NEWEST_SHIFT) + (run >> NEWEST_SHIFT) };
        self.mean_ns.store(mean, Ordering::Relaxed);
        self.samples.store(samples.saturating_add(1), Ordering::Relaxed);
        let mean = Duration::from_nanos(mean);
        if mean > RUNTIME_ABOVE {
            self.short.store(false, Ordering::Relaxed);
        } else if mean <= INLINE_BELOW && samples.saturating_add(1) >= PROVING_CALLS {
            self.short.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(times: &StageTimes) -> Placement {
        times.placement(PlacementPolicy::Auto)
    }

    #[test]
    fn a_stage_moves_inline_once_proven_short_and_back_when_long() {
        let times = StageTimes::default();
        for _ in 1..PROVING_CALLS {
            times.record(Duration::from_micros(20));
            assert_eq!(placed(&times), Placement::Runtime, "not yet proven");
        }
        times.record(Duration::from_micros(20));
        assert_eq!(placed(&times), Placement::Inline);
        times.record(Duration::from_millis(2));
        assert_eq!(placed(&times), Placement::Inline, "one slow call in a row of short ones");
        times.record(Duration::from_millis(20));
        assert_eq!(placed(&times), Placement::Runtime);
        for _ in 0..100 {
            times.record(Duration::from_micros(300));
        }
        assert_eq!(placed(&times), Placement::Runtime, "between the thresholds it stays");
        for _ in 0..100 {
            times.record(Duration::from_micros(100));
        }
        assert_eq!(placed(&times), Placement::Inline);
    }

    #[test]
    fn a_plugin_that_ran_out_of_time_stays_in_the_background_until_it_has_made_up_for_it() {
        let suspicion = Suspicion::default();
        suspicion.ran_out_of_time();
        for _ in 0..CALLS_OWED {
            assert_eq!(suspicion.placement(Placement::Inline), Placement::Background);
            suspicion.came_back();
        }
        assert_eq!(suspicion.placement(Placement::Inline), Placement::Inline);
    }

    #[test]
    fn a_fixed_policy_overrules_the_times() {
        let times = StageTimes::default();
        assert_eq!(times.placement(PlacementPolicy::Inline), Placement::Inline);
        times.record(Duration::MAX);
        assert_eq!(times.placement(PlacementPolicy::Inline), Placement::Inline);
        assert_eq!(times.placement(PlacementPolicy::Runtime), Placement::Runtime);
    }
}
