//! `metric_tags` and `model_metrics`: how the model's own series are shown.

use super::Rules;
use super::block::Block;
use crate::metrics::{ModelMetrics, histogram_families, histogram_family, tag_label};

/// Tags of one model.
const TAGS_MAX: usize = 64;
/// Bytes of a tag's value: it stands in every series of the model.
const TAG_BYTES_MAX: usize = 1024;
/// Bounds of one histogram, as of those that plugins declare.
const BOUNDS_MAX: usize = 64;

pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> ModelMetrics {
    let mut metrics = ModelMetrics::default();
    for (key, value, at) in root.text_entries("metric_tags") {
        if value.len() > TAG_BYTES_MAX || metrics.tags.len() >= TAGS_MAX {
            let message = format!(
                "a model has at most {TAGS_MAX} tags of {TAG_BYTES_MAX} bytes each, since they stand in every series of it"
            );
            rules.report.error(at, format!("metric_tags[{key}]"), message, "leave tags out or shorten them".to_owned());
        } else if tag_label(key).is_some() {
            metrics.tags.insert(key.to_owned(), value.to_owned());
        } else {
            let message = format!("'_{key}', which this tag would be, is not a label that Prometheus takes");
            let fix = "write letters, digits and underscores, and no underscore in front".to_owned();
            rules.report.error(at, format!("metric_tags[{key}]"), message, fix);
        }
    }
    for control in root.block("model_metrics").iter().flat_map(|metrics| metrics.blocks("metric_control")) {
        read_control(&control, &mut metrics, rules);
    }
    metrics
}

/// One histogram's bounds. The texts are Triton's where it has one.
fn read_control(control: &Block<'_>, metrics: &mut ModelMetrics, rules: &mut Rules<'_, '_>) {
    let (identifier, histogram) = (control.block("metric_identifier"), control.block("histogram_options"));
    let broken = match (identifier, histogram) {
        (None, _) => "metric control must specify 'metric_identifier'",
        (Some(identifier), _) if !identifier.has("family") => "metric identifier must specify non-empty 'family'",
        (_, None) => "metric control must specify 'histogram_options'",
        (_, Some(histogram)) if !histogram.has("buckets") => "histogram options must specify non-empty 'buckets'",
        (Some(identifier), Some(histogram)) => return read_bounds(&identifier, &histogram, metrics, rules),
    };
    let fix = "write it, or leave model_metrics out".to_owned();
    rules.report.error(control.own_at(), control.own_path(), broken, fix);
}

fn read_bounds(identifier: &Block<'_>, histogram: &Block<'_>, metrics: &mut ModelMetrics, rules: &mut Rules<'_, '_>) {
    let name = identifier.text("family");
    let Some(family) = histogram_family(name) else {
        let known = histogram_families().collect::<Vec<_>>().join(", ");
        let message =
            format!("Metric family '{name}' in 'metric_identifier' is not a customizable metric; those are {known}");
        return rules.report.warning(identifier.at("family"), identifier.path("family"), message);
    };
    let bounds = histogram.numbers("buckets");
    if bounds.len() > BOUNDS_MAX {
        let message = format!("{} buckets are more than the {BOUNDS_MAX} that a histogram may have", bounds.len());
        rules.refuse(histogram, "buckets", message, "leave bounds out".to_owned());
    } else if is_ascending(&bounds) {
        metrics.bounds.insert(family, bounds);
    } else {
        let message = format!("{bounds:?} are no bounds of buckets: they must be finite and ascending");
        let fix = "write each bound once, the smallest first; a last bucket without a bound is always there".to_owned();
        rules.refuse(histogram, "buckets", message, fix);
    }
}

fn is_ascending(bounds: &[f64]) -> bool {
    bounds.iter().all(|bound| bound.is_finite()) && bounds.windows(2).all(|pair| pair[0] < pair[1])
}
