//! `--metrics-config`, `--metrics-interval-ms` and `--allow-cpu-metrics`: which of Triton's series there are.

use std::time::Duration;

use super::triton::{TritonArgs, switch};
use crate::metrics::TritonMetrics;

const KEYS: &str = "counter_latencies, histogram_latencies, summary_latencies and summary_quantiles";
/// How old what is told of the system may be unless said, and at most, in milliseconds.
const INTERVAL_MS: f64 = 2_000.0;
const INTERVAL_MS_MAX: f64 = 86_400_000.0;
/// Quantiles of a summary, at most.
const QUANTILES_MAX: usize = 64;

/// Which series there are.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsSettings {
    /// Of each model version.
    pub triton: TritonMetrics,
    /// How old what is told of the whole system may be; `None` where nothing is.
    pub system_interval: Option<Duration>,
}

impl MetricsSettings {
    pub(super) fn of(args: &TritonArgs, problems: &mut Vec<String>) -> Self {
        let mut triton = TritonMetrics::default();
        for text in &args.metrics_config {
            if let Err(problem) = apply(text, &mut triton) {
                problems.push(format!("metrics_config is '{text}'; {problem}"));
            }
        }
        let interval_ms = args.metrics_interval_ms.unwrap_or(INTERVAL_MS);
        let is_within = (1.0..=INTERVAL_MS_MAX).contains(&interval_ms);
        if !is_within {
            problems.push(format!("metrics_interval_ms is {interval_ms}; it must be from 1 to {INTERVAL_MS_MAX}"));
        }
        let is_shown = is_within && args.allow_cpu_metrics.unwrap_or(true);
        Self { triton, system_interval: is_shown.then(|| Duration::from_secs_f64(interval_ms / 1e3)) }
    }
}

/// Takes one `KEY=VALUE` over.
fn apply(text: &str, metrics: &mut TritonMetrics) -> Result<(), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("it must be KEY=VALUE with one of {KEYS}"))?;
    match key {
        "counter_latencies" => metrics.counter_latencies = switch(value)?,
        "histogram_latencies" => metrics.histogram_latencies = switch(value)?,
        "summary_latencies" => metrics.summary_latencies = switch(value)?,
        "summary_quantiles" => metrics.summary_quantiles = quantiles(value)?,
        _ => return Err(format!("the keys are {KEYS}")),
    }
    Ok(())
}

/// Reads `0.5:0.05,0.9:0.01`. The errors that are allowed are looked at and change nothing: a quantile is off by less than
/// 1 % of its value, whichever it is.
fn quantiles(text: &str) -> Result<Vec<f64>, String> {
    let share = |text: &str| text.trim().parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let pair = |text: &str| {
        let (quantile, error) = text.split_once(':')?;
        share(error).and(share(quantile))
    };
    let pairs: Option<Vec<f64>> = text.split(',').map(pair).collect();
    let mut quantiles = pairs.ok_or("it must be QUANTILE:ERROR pairs with commas between them, each from 0 to 1")?;
    quantiles.sort_unstable_by(f64::total_cmp);
    quantiles.dedup();
    if quantiles.len() > QUANTILES_MAX {
        return Err(format!("it may name {QUANTILES_MAX} quantiles at most"));
    }
    Ok(quantiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &TritonArgs) -> Result<MetricsSettings, Vec<String>> {
        let mut problems = Vec::new();
        let settings = MetricsSettings::of(args, &mut problems);
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }

    fn config(texts: &[&str]) -> Result<TritonMetrics, Vec<String>> {
        let metrics_config = texts.iter().map(|text| (*text).to_owned()).collect();
        read(&TritonArgs { metrics_config, ..TritonArgs::default() }).map(|settings| settings.triton)
    }

    #[test]
    fn counters_alone_unless_said() {
        let default = read(&TritonArgs::default()).expect("nothing is wrong");
        assert_eq!(default.system_interval, Some(Duration::from_secs(2)));
        let TritonMetrics { counter_latencies, histogram_latencies, summary_latencies, .. } = default.triton;
        assert_eq!([counter_latencies, histogram_latencies, summary_latencies], [true, false, false]);
        let all = config(&["counter_latencies=false", "histogram_latencies=TRUE", "summary_latencies=1"]);
        let TritonMetrics { counter_latencies, histogram_latencies, summary_latencies, .. } = all.expect("known");
        assert_eq!([counter_latencies, histogram_latencies, summary_latencies], [false, true, true]);
        let quantiles = config(&["summary_quantiles=0.9:0.01, 0.5:0.05,0.9:0.2"]).expect("pairs").summary_quantiles;
        assert_eq!(quantiles, [0.5, 0.9]);
        let args = TritonArgs { metrics_interval_ms: Some(500.5), ..TritonArgs::default() };
        assert_eq!(read(&args).expect("half").system_interval, Some(Duration::from_micros(500_500)));
        let args = TritonArgs { allow_cpu_metrics: Some(false), ..TritonArgs::default() };
        assert_eq!(read(&args).expect("none").system_interval, None);
    }

    #[test]
    fn what_is_no_setting_is_refused_with_what_there_is() {
        for (text, expected) in [
            ("summary_latencies", "it must be KEY=VALUE with one of counter_latencies,"),
            ("sumary_latencies=true", "the keys are counter_latencies, histogram_latencies, summary_latencies and"),
            ("histogram_latencies=yes", "it must be true or false"),
            ("summary_quantiles=0.5", "it must be QUANTILE:ERROR pairs"),
            ("summary_quantiles=50:0.1", "each from 0 to 1"),
            ("summary_quantiles=NaN:0.1", "each from 0 to 1"),
            ("summary_quantiles=", "it must be QUANTILE:ERROR pairs"),
        ] {
            let problems = config(&[text]).expect_err("refused");
            assert!(problems.len() == 1 && problems[0].contains(expected), "{text}: {problems:?}");
        }
        for interval in [0.0, f64::NAN, -2.0, 1e9] {
            let args = TritonArgs { metrics_interval_ms: Some(interval), ..TritonArgs::default() };
            let problems = read(&args).expect_err("refused");
            assert!(problems[0].contains("it must be from 1 to 86400000"), "{problems:?}");
        }
    }
}
