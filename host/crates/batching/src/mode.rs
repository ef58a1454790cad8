//! Where batches run: on the thread that holds a request, or on the instance's own. Handing work to another thread
//! costs tens of microseconds, so short runs stay inline; long ones must not freeze a serving thread. `Auto` decides by
//! a moving average of measured run times and begins on workers, until a run has proven short.

use std::time::Duration;

use model::Execution;

/// Runs shorter than this on average move onto the requests' threads.
const INLINE_BELOW: Duration = Duration::from_micros(400);
/// Runs longer than this on average move to workers. The gap keeps a model near the line from going to and fro.
const WORKER_ABOVE: Duration = Duration::from_micros(600);
/// A new run's weight in the average is one in so many.
const AVERAGE_OVER: u32 = 8;

/// Where batches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On the thread that holds a request of the batch.
    Inline,
    /// On the instance's worker thread.
    Worker,
}

/// The mode of one batcher and the measurements behind it.
#[derive(Debug)]
pub(crate) struct Pace {
    mode: Mode,
    is_fixed: bool,
    has_been_short: bool,
    average: Option<Duration>,
}

impl Pace {
    pub(crate) fn fixed(mode: Mode) -> Self {
        Self { mode, is_fixed: true, has_been_short: false, average: None }
    }

    /// The pace that a configuration asks for, of instances that can run inline.
    pub(crate) fn of(execution: Execution) -> Self {
        match execution {
            Execution::Inline => Self::fixed(Mode::Inline),
            Execution::Worker => Self::fixed(Mode::Worker),
            Execution::Auto => Self { is_fixed: false, ..Self::fixed(Mode::Worker) },
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn average(&self) -> Option<Duration> {
        self.average
    }

    /// Whether workers are ever needed.
    pub(crate) fn needs_workers(&self) -> bool {
        !(self.is_fixed && self.mode == Mode::Inline)
    }

    /// Takes in a measured run. The first short one counts alone: what came before it was warming up.
    pub(crate) fn record(&mut self, run: Duration) {
        let proves_short = !self.has_been_short && run < INLINE_BELOW;
        self.has_been_short |= proves_short;
        let average = match self.average {
            Some(average) if !proves_short => (average * (AVERAGE_OVER - 1) + run) / AVERAGE_OVER,
            _ => run,
        };
        self.average = Some(average);
        if self.is_fixed {
            return;
        }
        if average < INLINE_BELOW {
            self.mode = Mode::Inline;
        } else if average > WORKER_ABOVE {
            self.mode = Mode::Worker;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(execution: Execution, runs_us: &[u64]) -> Mode {
        let mut pace = Pace::of(execution);
        runs_us.iter().for_each(|&run| pace.record(Duration::from_micros(run)));
        pace.mode()
    }

    #[test]
    fn auto_follows_measured_runs_with_hysteresis() {
        let cases: &[(&[u64], Mode)] = &[
            (&[], Mode::Worker),
            (&[9_000], Mode::Worker),
            (&[20], Mode::Inline),
            (&[9_000, 9_000, 20], Mode::Inline),
            (&[500], Mode::Worker),
            (&[20, 500, 500, 500, 500], Mode::Inline),
            (&[20, 9_000], Mode::Worker),
            (&[20, 1_000, 1_000], Mode::Inline),
            (&[20, 9_000, 20, 20, 20], Mode::Worker),
        ];
        for (runs, mode) in cases {
            assert_eq!(after(Execution::Auto, runs), *mode, "{runs:?}");
        }
        let mut recovered = vec![20, 9_000];
        recovered.extend([20; 12]);
        assert_eq!(after(Execution::Auto, &recovered), Mode::Inline, "one slow run is forgotten");
    }

    #[test]
    fn a_fixed_mode_stays() {
        assert_eq!(after(Execution::Inline, &[90_000; 20]), Mode::Inline);
        assert_eq!(after(Execution::Worker, &[1; 20]), Mode::Worker);
        assert!(!Pace::of(Execution::Inline).needs_workers());
        assert!(Pace::of(Execution::Worker).needs_workers() && Pace::of(Execution::Auto).needs_workers());
    }
}
