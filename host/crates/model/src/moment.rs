//! Time as pure code sees it: nanoseconds since an origin the caller chose. Deciding code takes `now: Moment` as an
//! argument and never reads a clock, so simulations can run a day in a millisecond.

use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since the clock's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);

    /// `since_origin` after the origin, saturating at the clock's end (584 years).
    #[must_use]
    pub fn from_origin(since_origin: Duration) -> Self {
        Self(u64::try_from(since_origin.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time since the origin.
    #[must_use]
    pub fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// `self + delay`, saturating.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
