//! The resources that the instances of all models share, read from the rate limiter when somebody looks. Those that no loaded
//! model needs are not shown.

use std::collections::HashMap;
use std::sync::Arc;

use model::RateScope;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};

use super::families::{family, gauge, label};
use super::names;

const LIMIT_HELP: &str = "How much there is of a resource that instances share (--rate-limit)";
const IN_USE_HELP: &str = "How much of a resource that instances share is held by batches now";

/// A resource: its name, whose it is, how much of it there is and how much is held.
pub type Resource = (Arc<str>, RateScope, u32, u32);

/// See the module.
pub(super) struct Resources<R> {
    read: R,
    descs: [Desc; 2],
}

impl<R: Fn() -> Vec<Resource> + Send + Sync> Resources<R> {
    pub(super) fn new(read: R) -> Self {
        let descs = [(names::RESOURCE_LIMIT, LIMIT_HELP), (names::RESOURCE_IN_USE, IN_USE_HELP)].map(|(name, help)| {
            let labels = ["resource", "device"].map(str::to_owned).to_vec();
            Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new()).expect("names and labels are valid")
        });
        Self { read, descs }
    }
}

/// The value of the label `device`: every instance runs on the processor, which counts as one device.
fn device(scope: RateScope) -> &'static str {
    match scope {
        RateScope::Device => "cpu",
        RateScope::Global => "global",
    }
}

impl<R: Fn() -> Vec<Resource> + Send + Sync> Collector for Resources<R> {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let resources = (self.read)();
        if resources.is_empty() {
            return Vec::new();
        }
        let shown = |value: fn(u32, u32) -> u32| {
            let metric = |(name, scope, total, held): &Resource| {
                // By name, as the text format's other labels are.
                let labels = vec![label("device", device(*scope)), label("resource", name)];
                gauge(labels, value(*total, *held).into())
            };
            resources.iter().map(metric).collect()
        };
        vec![
            family((names::RESOURCE_LIMIT, LIMIT_HELP), MetricType::GAUGE, shown(|total, _| total)),
            family((names::RESOURCE_IN_USE, IN_USE_HELP), MetricType::GAUGE, shown(|_, held| held)),
        ]
    }
}
