use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use batching::{BatchTimes, Inferred};
use model::RateScope;
use prometheus::proto::MetricFamily;

use super::*;
use crate::response_cache::{CacheSnapshot, ResponseCache, VersionCache};

/// Every family that there can be, each with a child; a version's are shown for as long as it is used.
fn everything() -> (Metrics, VersionMetrics) {
    let wanted = TritonMetrics { histogram_latencies: true, summary_latencies: true, ..TritonMetrics::default() };
    let metrics = Metrics::with(&wanted);
    let model = ModelName::new("m").expect("a name");
    let version = VersionNumber::new(1).expect("not 0");
    let declared = ModelMetrics { tags: [("team".to_owned(), "fraud".to_owned())].into(), ..ModelMetrics::default() };
    let handles = metrics.version(&model, version, &Arc::new(declared));
    handles.answered(Some(ErrorCode::QueueFull));
    handles.non_finite("y");
    metrics.show_queue(&model, version, &QueueGauges { requests: 0, limit: 1, inline: true });
    metrics.show_generation(&model, version, 1);
    metrics.show_plugin(&model, 1, 1);
    metrics.show_limit("l", 1.0);
    metrics.show_sandbox(&SandboxGauges { instances: 1, waiting: 0, pool: &[("stacks", 1)] });
    metrics.models_in_state("ready", 1);
    metrics.swap(&model, SwapOutcome::Published);
    metrics.engine_load(&model);
    metrics.plugin_failure(&model, "crashed");
    metrics.plugin_dropped(&model, "log_lines", 1);
    metrics.plugin_stage(&model, "preprocess", "inline");
    metrics.plugin_count(&model, "c", 1.0);
    metrics.plugin_observe(&model, "h", &[], 1.0);
    let answers = VersionCache::new(Arc::new(ResponseCache::new(1)));
    handles.inference().show_caching(Some(&answers));
    metrics.show_response_cache(CacheSnapshot::default);
    metrics.show_resources(|| vec![("r".into(), RateScope::Global, 2, 1)]);
    metrics.show_system(Duration::from_secs(2));
    metrics.connections("http").inc();
    for traffic in [&metrics.http, &metrics.grpc] {
        traffic.endpoint("/v2").answered("400");
    }
    (metrics, handles)
}

/// Every family a scrape shows once each has a child, with its type.
#[test]
fn metric_names() {
    let (metrics, _used) = everything();
    let text = metrics.render().expect("encodes");
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    insta::assert_snapshot!(types.join("\n"));
}

/// A row of docs/metrics.md.
fn row(family: &MetricFamily) -> String {
    let mut labels: BTreeSet<&str> =
        family.get_metric().iter().flat_map(|metric| metric.get_label()).map(|label| label.name()).collect();
    let tagged = labels.remove("_team").then_some("tags");
    let kind = format!("{:?}", family.get_field_type()).to_lowercase();
    let own = match &*kind {
        "summary" => Some("`quantile`"),
        "histogram" => Some("`le`"),
        _ => None,
    };
    let named = labels.into_iter().map(|label| format!("`{label}`"));
    let labels: Vec<_> = named.chain(own.map(str::to_owned)).chain(tagged.map(str::to_owned)).collect();
    format!("| `{}` | {kind} | {} | {} |", family.name(), labels.join(", "), family.help())
}

#[test]
fn the_document_lists_every_metric_as_it_is_shown() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let document = std::fs::read_to_string(&path).expect("docs/metrics.md");
    let is_row = |line: &&str| line.starts_with("| `") && line.split(" | ").count() == 4;
    let listed: Vec<&str> = document.lines().filter(is_row).collect();
    let (metrics, _used) = everything();
    let families = metrics.registry.gather();
    let shown: Vec<String> = families.iter().map(row).collect();
    assert_eq!(listed, shown, "docs/metrics.md must list:\n{}", shown.join("\n"));
}

#[test]
fn a_version_that_serves_no_longer_leaves_no_gauge() {
    let metrics = Metrics::new();
    let model = ModelName::new("m").expect("a name");
    let version = VersionNumber::new(7).expect("not 0");
    metrics.show_queue(&model, version, &QueueGauges { requests: 3, limit: 4, inline: false });
    metrics.show_generation(&model, version, 1);
    assert!(metrics.render().expect("encodes").contains("version=\"7\""));
    metrics.forget_version(&model, version);
    assert!(!metrics.render().expect("encodes").contains("version=\"7\""));
}

#[test]
fn plugins_cannot_make_counters_shrink() {
    let metrics = Metrics::new();
    let model = ModelName::new("m").expect("a name");
    for value in [2.0, -1.0, f64::NAN, f64::INFINITY] {
        metrics.plugin_count(&model, "c", value);
    }
    let text = metrics.render().expect("encodes");
    assert!(text.contains("airlock_plugin_events_total{model=\"m\",name=\"c\"} 2\n"), "{text}");
}

#[test]
fn a_plugins_histogram_has_the_buckets_it_declares() {
    let metrics = Metrics::new();
    let model = ModelName::new("m").expect("a name");
    let series = |name: &str, bound: &str| format!("{{model=\"m\",name=\"{name}\",le=\"{bound}\"}}");
    metrics.plugin_observe(&model, "size", &[0.25, 0.75], 0.5);
    metrics.plugin_observe(&model, "other", &[], 0.5);
    let text = metrics.render().expect("encodes");
    assert!(text.contains(&format!("{} 0\n", series("size", "0.25"))), "{text}");
    assert!(text.contains(&format!("{} 1\n", series("size", "0.75"))), "{text}");
    assert!(text.contains(&format!("{} 1\n", series("other", "0.5"))), "the default bounds: {text}");
    metrics.plugin_observe(&model, "size", &[4.0], 0.5);
    let text = metrics.render().expect("encodes");
    assert!(
        !text.contains(&series("size", "0.25")) && text.contains(&format!("{} 1\n", series("size", "4"))),
        "{text}"
    );
}

#[test]
fn nothing_of_a_model_is_left_once_it_is_forgotten_and_others_keep_theirs() {
    let metrics = Metrics::new();
    let [gone, stays] = ["gone", "stays"].map(|name| ModelName::new(name).expect("a name"));
    let version = VersionNumber::new(1).expect("not 0");
    for model in [&gone, &stays] {
        let handles = metrics.version(model, version, &Arc::default());
        handles.answered(None);
        handles.answered(Some(ErrorCode::QueueFull));
        handles.non_finite("y");
        handles.kserve(Duration::ZERO, Duration::ZERO, Duration::ZERO);
        metrics.show_queue(model, version, &QueueGauges { requests: 0, limit: 1, inline: true });
        metrics.show_generation(model, version, 1);
        metrics.show_plugin(model, 1, 1);
        metrics.swap(model, SwapOutcome::Published);
        metrics.engine_load(model);
        metrics.plugin_failure(model, "crashed");
        metrics.plugin_dropped(model, "log_lines", 1);
        metrics.plugin_stage(model, "preprocess", "inline");
        metrics.plugin_count(model, "c", 1.0);
        metrics.plugin_observe(model, "h", &[], 1.0);
    }
    let both = metrics.without_versions();
    assert_eq!(both, [gone.clone(), stays.clone()].into());
    let lines = |name: &str| metrics.render().expect("encodes").lines().filter(|line| line.contains(name)).count();
    let before = lines("\"stays\"");
    metrics.forget(&[gone].into());
    assert_eq!((lines("\"gone\""), lines("\"stays\"")), (0, before));
    assert_eq!(metrics.without_versions(), [stays.clone()].into());
    let _loaded = metrics.version(&stays, version, &Arc::default());
    metrics.forget(&both);
    assert!(lines("\"stays\"") >= before, "a version of it is loaded");
}

#[test]
fn resources_are_shown_as_they_are_held_by_device() {
    let metrics = Metrics::new();
    metrics.show_resources(|| vec![("gpu\"0".into(), RateScope::Device, 4, 3), ("r".into(), RateScope::Global, 2, 0)]);
    let text = metrics.render().expect("encodes");
    for line in [
        "airlock_rate_limiter_resource_limit{device=\"cpu\",resource=\"gpu\\\"0\"} 4",
        "airlock_rate_limiter_resource_limit{device=\"global\",resource=\"r\"} 2",
        "airlock_rate_limiter_resource_in_use{device=\"cpu\",resource=\"gpu\\\"0\"} 3",
        "airlock_rate_limiter_resource_in_use{device=\"global\",resource=\"r\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
}

fn answered(metrics: &VersionMetrics, millis: u64) {
    let ms = Duration::from_millis;
    let times = BatchTimes { compute: ms(millis), input: ms(1), output: ms(0) };
    let inferred = Inferred { outputs: Vec::new(), queue: ms(2), times, batch_rows: 1 };
    metrics.inference().succeeded(1, &inferred, ms(millis + 3));
}

#[test]
fn distributions_are_shown_where_they_are_asked_for() {
    let model = ModelName::new("m").expect("a name");
    let version = VersionNumber::new(1).expect("not 0");
    let wanted = TritonMetrics {
        counter_latencies: false,
        histogram_latencies: true,
        summary_latencies: true,
        summary_quantiles: vec![0.5, 1.0],
    };
    let metrics = Metrics::with(&wanted);
    let handles = metrics.version(&model, version, &Arc::default());
    for millis in [5, 7, 60] {
        answered(&handles, millis);
    }
    let text = metrics.render().expect("encodes");
    for line in [
        "nv_inference_request_summary_us{model=\"m\",version=\"1\",quantile=\"1\"} 63231.5",
        "nv_inference_request_summary_us_sum{model=\"m\",version=\"1\"} 81000",
        "nv_inference_request_summary_us_count{model=\"m\",version=\"1\"} 3",
        "nv_inference_queue_summary_us_sum{model=\"m\",version=\"1\"} 6000",
        "nv_inference_request_duration_histogram_us_bucket{model=\"m\",version=\"1\",le=\"25000\"} 2",
        "nv_inference_request_duration_histogram_us_count{model=\"m\",version=\"1\"} 3",
        "nv_inference_compute_infer_duration_histogram_us_bucket{model=\"m\",version=\"1\",le=\"5000\"} 1",
        "nv_inference_first_response_histogram_ms_bucket{model=\"m\",version=\"1\",le=\"100\"} 3",
        "nv_inference_first_response_histogram_ms_sum{model=\"m\",version=\"1\"} 81",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    assert!(!text.contains("nv_inference_request_duration_us"), "no counters of times");
    let plain = Metrics::new();
    let handles = plain.version(&model, version, &Arc::default());
    answered(&handles, 5);
    let text = plain.render().expect("encodes");
    assert!(!text.contains("summary_us") && !text.contains("_histogram_"), "{text}");
}

#[test]
fn series_are_shown_as_the_configuration_that_serves_says_and_no_other() {
    let model = ModelName::new("m").expect("a name");
    let version = VersionNumber::new(1).expect("not 0");
    let declared = |team: &str, bound: f64| {
        let bounds = [("nv_inference_first_response_histogram_ms", vec![bound])].into();
        Arc::new(ModelMetrics { tags: [("team".to_owned(), team.to_owned())].into(), bounds })
    };
    let metrics = Metrics::with(&TritonMetrics { histogram_latencies: true, ..TritonMetrics::default() });
    let first = metrics.version(&model, version, &declared("a", 50.0));
    first.begin_serving();
    answered(&first, 7);
    let shows = |team: &str, rest: &str| {
        let labels = format!("{{_team=\"{team}\",model=\"m\",version=\"1\"");
        let text = metrics.render().expect("encodes");
        text.lines().any(|line| line.contains(&labels) && line.ends_with(rest))
    };
    let candidate = metrics.version(&model, version, &declared("b", 5.0));
    assert!(shows("a", ",le=\"50\"} 1") && !shows("b", ""), "the candidate does not serve");
    drop(candidate);
    assert!(shows("a", ",le=\"50\"} 1"), "and never did");
    let second = metrics.version(&model, version, &declared("b", 5.0));
    second.begin_serving();
    answered(&first, 7);
    assert!(shows("b", ",le=\"5\"} 0") && shows("b", ",le=\"+Inf\"} 1"), "another bound begins anew");
    assert!(!shows("a", ""), "the old label is gone");
    let text = metrics.render().expect("encodes");
    let count = "nv_inference_request_success{_team=\"b\",model=\"m\",version=\"1\"} 2";
    assert!(text.contains(count), "counters go on: {text}");
    let third = metrics.version(&model, version, &declared("c", 5.0));
    third.begin_serving();
    assert!(shows("c", ",le=\"+Inf\"} 1"), "as do histograms of the same bounds");
}

#[test]
fn lines_that_were_dropped_are_counted_once_whoever_looks() {
    let metrics = Metrics::new();
    for dropped in [3, 5, 4, 5] {
        metrics.show_log_lines_dropped(dropped);
    }
    let text = metrics.render().expect("encodes");
    assert!(text.contains("airlock_log_lines_dropped_total 5\n"), "{text}");
}
