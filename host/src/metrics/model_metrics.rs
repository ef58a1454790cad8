//! What a model's configuration says of its own `nv_*` series: further labels (`metric_tags`) and the bounds of histograms
//! (`model_metrics`). Checked where configurations are read, immutable from there on.

use std::collections::BTreeMap;

use super::latencies::HISTOGRAMS;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelMetrics {
    /// Values of further labels, by name; see [`tag_label`].
    pub tags: BTreeMap<String, String>,
    /// Upper bounds of the buckets of histograms, by family: finite and ascending. Families without have their defaults.
    pub bounds: BTreeMap<&'static str, Vec<f64>>,
}

/// The label of the tag `key`: `_` and the key, as in Triton. `None` where that is no name that Prometheus takes, or one
/// with two underscores in front, which it keeps for itself. Source: prometheus.io, "Data model".
#[must_use]
pub fn tag_label(key: &str) -> Option<String> {
    let is_name = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && !key.starts_with('_')).then(|| format!("_{key}"))
}

/// The histogram of this name, if its bounds are the model's to choose.
#[must_use]
pub fn histogram_family(name: &str) -> Option<&'static str> {
    HISTOGRAMS.iter().map(|family| family.name).find(|known| *known == name)
}

/// The histograms whose bounds are the model's to choose.
pub fn histogram_families() -> impl Iterator<Item = &'static str> {
    HISTOGRAMS.iter().map(|family| family.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_labels_that_prometheus_takes() {
        for (key, label) in [
            ("team", Some("_team")),
            ("2nd_Tier", Some("_2nd_Tier")),
            ("", Some("_")),
            ("_team", None),
            ("cost-centre", None),
            ("größe", None),
            ("a b", None),
        ] {
            assert_eq!(tag_label(key).as_deref(), label, "{key:?}");
        }
    }
}
