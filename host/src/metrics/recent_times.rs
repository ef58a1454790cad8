//! The distribution of times of about the last minute, for the quantiles of Triton's summaries: counts in buckets whose
//! width grows with the time, so that memory is bounded and a quantile is off by less than 0.8 % of its value, or by half
//! a microsecond. The minute is five slices; the oldest is dropped when a new one begins, so what is told of is between
//! 48 and 60 seconds, as with Triton's Prometheus client (`max_age` 60 s, 5 `age_buckets`).

use std::time::Duration;

/// How long a time counts, at most.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Slices of it.
const SLICES: u64 = 5;
/// Buckets of each power of two: 2 to this.
const DETAIL_BITS: u32 = 6;
const DETAIL: u64 = 1 << DETAIL_BITS;
/// Times of 2 to this and more microseconds, above two hours, are one.
const MICROS_BITS: u32 = 33;
/// Values below [`DETAIL`] have a bucket each, and so has every part of the powers of two above.
const BUCKETS: usize = ((MICROS_BITS - DETAIL_BITS + 1) << DETAIL_BITS) as usize;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RecentTimes {
    slices: [Slice; SLICES as usize],
}

/// Times of one fifth of a minute.
#[derive(Debug, Default)]
struct Slice {
    /// Which one, counted from the start; another one in its place begins empty.
    number: u64,
    /// By bucket; nothing before the first time.
    counts: Vec<u32>,
}

impl RecentTimes {
    /// Records a time, so long after the start.
    pub(super) fn record(&mut self, age: Duration, time: Duration) {
        let number = slice_number(age);
        let slice = &mut self.slices[(number % SLICES) as usize];
        if slice.number != number || slice.counts.is_empty() {
            slice.number = number;
            slice.counts.clear();
            slice.counts.resize(BUCKETS, 0);
        }
        let count = &mut slice.counts[bucket(time)];
        *count = count.saturating_add(1);
    }

    /// The times, in microseconds, below which these shares of the recent ones lie; NaN where there are none.
    pub(super) fn quantiles(&self, age: Duration, shares: &[f64]) -> Vec<f64> {
        let now = slice_number(age);
        let recent = self.slices.iter().filter(|slice| slice.number + SLICES > now && !slice.counts.is_empty());
        let mut counts = vec![0_u64; BUCKETS];
        for slice in recent {
            counts.iter_mut().zip(&slice.counts).for_each(|(sum, count)| *sum += u64::from(*count));
        }
        let total: u64 = counts.iter().sum();
        shares.iter().map(|share| quantile(&counts, total, *share)).collect()
    }
}

fn slice_number(age: Duration) -> u64 {
    age.as_secs() / (AGE_MAX.as_secs() / SLICES)
}

fn quantile(counts: &[u64], total: u64, share: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is at least 0 and far below 2^52"
    )]
    let rank = ((total as f64 * share).ceil() as u64).max(1);
    let mut below = 0;
    let reaches = |count: &u64| {
        below += count;
        below >= rank
    };
    counts.iter().position(reaches).map_or(f64::NAN, middle)
}

fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min((1 << MICROS_BITS) - 1);
    let shift = micros.max(1).ilog2().saturating_sub(DETAIL_BITS);
    // Below 2 * DETAIL nothing is shifted away; from there on the highest bit is always that of DETAIL.
    (u64::from(shift) * DETAIL + (micros >> shift)) as usize
}

/// The middle of a bucket, in microseconds.
fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    let shift = (bucket / DETAIL).saturating_sub(1);
    let low = (bucket - shift * DETAIL) << shift;
    let width = 1_u64 << shift;
    #[expect(clippy::cast_precision_loss, reason = "below 2^33")]
    let middle = low as f64 + (width - 1) as f64 / 2.0;
    middle
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_last_minute_counts() {
        let mut times = RecentTimes::default();
        let (second, ms) = (Duration::from_secs, Duration::from_millis);
        assert!(times.quantiles(second(0), &[0.5])[0].is_nan());
        times.record(second(1), ms(1));
        times.record(second(30), ms(1_000));
        times.record(second(30), ms(1_000));
        let median = |times: &RecentTimes, at| times.quantiles(second(at), &[0.0, 0.5]);
        let near = |value: f64, expected: f64| (value - expected).abs() <= expected / 128.0;
        let at_first = median(&times, 30);
        assert!(near(at_first[0], 1_000.0) && near(at_first[1], 1e6), "{at_first:?}");
        assert!(near(median(&times, 59)[0], 1_000.0));
        assert!(near(median(&times, 60)[0], 1e6), "the first is too old");
        assert!(near(median(&times, 83)[1], 1e6));
        assert!(median(&times, 84)[1].is_nan(), "all are");
        times.record(second(84), ms(5));
        assert!(near(median(&times, 84)[1], 5_000.0), "a slice in the place of an older one begins empty");
    }

    proptest! {
        #[test]
        fn a_quantile_is_near_a_time_that_has_that_rank(
            mut micros in prop::collection::vec(0_u64..10_000_000_000, 1..200),
            share in 0.0..=1.0_f64,
        ) {
            let mut times = RecentTimes::default();
            for micros in &micros {
                times.record(Duration::ZERO, Duration::from_micros(*micros));
            }
            micros.sort_unstable();
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss,
                reason = "few")]
            let rank = ((micros.len() as f64 * share).ceil() as usize).max(1);
            let exact = micros[rank - 1].min((1 << MICROS_BITS) - 1);
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let exact = exact as f64;
            let told = times.quantiles(Duration::ZERO, &[share])[0];
            prop_assert!((told - exact).abs() <= exact / 128.0, "{told} is not {exact}");
        }
    }
}
