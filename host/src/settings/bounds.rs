//! Bounds of settings: what lies outside is gathered and told together.

use std::num::NonZeroUsize;
use std::time::Duration;

use model::LimitError;

/// Gathers what lies outside its bounds.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) problems: Vec<LimitError>,
}

impl Bounds {
    pub(super) fn within_u64(
        &mut self,
        name: &'static str,
        given: Option<u64>,
        default: u64,
        (low, high): (u64, u64),
    ) -> u64 {
        let value = given.unwrap_or(default);
        if !(low..=high).contains(&value) {
            let bound = format!("from {low} to {high}");
            self.problems.push(LimitError { name, bound, got: value.to_string() });
        }
        value
    }

    pub(super) fn within(
        &mut self,
        name: &'static str,
        given: Option<usize>,
        default: usize,
        bounds: (u64, u64),
    ) -> usize {
        let value = self.within_u64(name, given.map(|v| v as u64), default as u64, bounds);
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    pub(super) fn at_least_one(
        &mut self,
        name: &'static str,
        given: Option<usize>,
        default: NonZeroUsize,
    ) -> NonZeroUsize {
        NonZeroUsize::new(self.within(name, given, default.get(), (1, 1 << 20))).unwrap_or(default)
    }

    pub(super) fn millis(
        &mut self,
        name: &'static str,
        given: Option<u64>,
        default: u64,
        bounds: (u64, u64),
    ) -> Duration {
        Duration::from_millis(self.within_u64(name, given, default, bounds))
    }
}
