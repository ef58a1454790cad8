//! Series put together by hand, for collectors that read their values when somebody looks.

use prometheus::core::Metric as _;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary};

pub(super) fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}

pub(super) fn counter(labels: Vec<LabelPair>, value: u64) -> Metric {
    let mut counter = Counter::default();
    #[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
    counter.set_value(value as f64);
    let mut metric = Metric::from_label(labels);
    metric.set_counter(counter);
    metric
}

pub(super) fn gauge(labels: Vec<LabelPair>, value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::from_label(labels);
    metric.set_gauge(gauge);
    metric
}

/// What `histogram` holds now.
pub(super) fn histogram(labels: Vec<LabelPair>, histogram: &prometheus::Histogram) -> Metric {
    let mut metric = Metric::from_label(labels);
    metric.set_histogram(histogram.metric().get_histogram().clone());
    metric
}

/// So many values with this sum, and the values at these shares of them.
pub(super) fn summary(labels: Vec<LabelPair>, (count, sum): (u64, f64), quantiles: &[(f64, f64)]) -> Metric {
    let quantile = |(share, value): &(f64, f64)| {
        let mut quantile = Quantile::default();
        quantile.set_quantile(*share);
        quantile.set_value(*value);
        quantile
    };
    let mut summary = Summary::default();
    summary.set_sample_count(count);
    summary.set_sample_sum(sum);
    summary.set_quantile(quantiles.iter().map(quantile).collect());
    let mut metric = Metric::from_label(labels);
    metric.set_summary(summary);
    metric
}

pub(super) fn family((name, help): (&str, &str), kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}
