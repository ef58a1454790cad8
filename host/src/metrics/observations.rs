//! The histograms that plugins declare: one family, in which each plugin's histogram has the buckets that its plugin.toml
//! names. One whose buckets change starts anew. Children are made when a client's request first writes to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ModelName;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Histogram, HistogramOpts};

use super::names;

const HELP: &str = "Histograms that plugins declare";

/// See the module.
#[derive(Clone)]
pub(super) struct Observations {
    desc: Desc,
    children: Arc<Mutex<Children>>,
}

/// By model and name: the bounds it was made with, and the histogram.
type Children = BTreeMap<(ModelName, String), (Vec<f64>, Histogram)>;

impl Observations {
    pub(super) fn new() -> Self {
        let labels = ["model", "name"].map(str::to_owned).to_vec();
        let desc = Desc::new(names::PLUGIN_OBSERVATION.to_owned(), HELP.to_owned(), labels, HashMap::new());
        Self { desc: desc.expect("the name and labels are valid"), children: Arc::default() }
    }

    /// Adds a value to the histogram `name` with these bounds; none means the default ones.
    pub(super) fn observe(&self, model: &ModelName, name: &str, bounds: &[f64], value: f64) {
        let mut children = self.lock();
        let key = (model.clone(), name.to_owned());
        let child = children.entry(key).or_insert_with(|| (bounds.to_vec(), histogram(model, name, bounds)));
        if child.0 != bounds {
            *child = (bounds.to_vec(), histogram(model, name, bounds));
        }
        child.1.observe(value);
    }

    /// Forgets the histograms of these models.
    pub(super) fn forget(&self, models: &BTreeSet<&str>) {
        self.lock().retain(|(model, _), _| !models.contains(model.as_str()));
    }

    fn lock(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn histogram(model: &ModelName, name: &str, bounds: &[f64]) -> Histogram {
    let buckets = if bounds.is_empty() { prometheus::DEFAULT_BUCKETS } else { bounds };
    let options = HistogramOpts::new(names::PLUGIN_OBSERVATION, HELP).buckets(buckets.to_vec());
    let options = options.const_label("model", model.as_str()).const_label("name", name);
    Histogram::with_opts(options).expect("plugin.toml's bounds are finite and ascending")
}

impl Collector for Observations {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let children = self.lock();
        if children.is_empty() {
            return Vec::new();
        }
        let families = children.values().flat_map(|(_, histogram)| histogram.collect());
        let mut family = MetricFamily::default();
        family.set_name(names::PLUGIN_OBSERVATION.to_owned());
        family.set_help(HELP.to_owned());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(families.flat_map(|family| family.get_metric().to_vec()).collect());
        vec![family]
    }
}
