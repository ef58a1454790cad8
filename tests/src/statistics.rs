//! Figures of merit: quantiles, medians and a least-squares slope.

use std::time::Duration;

/// The value below which the share `share` of the sorted `times` lies; zero for none.
#[must_use]
pub fn quantile(times: &[Duration], share: f64) -> Duration {
    let Some(last) = times.len().checked_sub(1) else { return Duration::ZERO };
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let index = (last as f64 * share).round() as usize;
    times[index.min(last)]
}

/// The middle of `values`, which need not be sorted; zero for none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The slope of the least-squares line through `points`, x first; zero for fewer than two.
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "points are few")]
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let times: Vec<Duration> = (0..=100).map(Duration::from_millis).collect();
        for (share, expected) in [(0.0, 0), (0.5, 50), (0.99, 99), (1.0, 100)] {
            assert_eq!(quantile(&times, share), Duration::from_millis(expected), "{share}");
        }
        assert_eq!(quantile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn a_line_has_its_slope() {
        let line: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 3.0 * f64::from(x) + 7.0)).collect();
        assert!((slope(&line) - 3.0).abs() < 1e-12);
        assert!(slope(&[(1.0, 1.0)]).abs() < 1e-12);
        assert!(slope(&[]).abs() < 1e-12);
    }

    #[test]
    fn the_median_needs_no_order() {
        assert!((median(&[9.0, 1.0, 5.0]) - 5.0).abs() < 1e-12);
        assert!(median(&[]).abs() < 1e-12);
    }
}
