use std::time::Duration;

use model::RateScope;

use super::*;

/// Every family a scrape shows once each has a child, with its type.
#[test]
fn metric_names() {
    let metrics = Metrics::new();
    let model = ModelName::new("m").expect("a name");
    let version = VersionNumber::new(1).expect("not 0");
    let handles = metrics.version(&model, version);
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
    metrics.show_resources(|| vec![("r".into(), RateScope::Global, 2, 1)]);
    let text = metrics.render().expect("encodes");
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    insta::assert_snapshot!(types.join("\n"), @r"
    airlock_access_log_lines_dropped gauge
    airlock_batch_rows histogram
    airlock_batches_run_inline gauge
    airlock_build_info gauge
    airlock_connections gauge
    airlock_engine_loads_total counter
    airlock_limit gauge
    airlock_log_lines_dropped gauge
    airlock_models gauge
    airlock_non_finite_outputs_total counter
    airlock_plugin_calls_total counter
    airlock_plugin_counter_total counter
    airlock_plugin_dropped_total counter
    airlock_plugin_failures_total counter
    airlock_plugin_generation gauge
    airlock_plugin_instances_created gauge
    airlock_plugin_instances_warm gauge
    airlock_plugin_observation histogram
    airlock_queue_drops_total counter
    airlock_queue_requests gauge
    airlock_queue_requests_limit gauge
    airlock_rate_limiter_resource_in_use gauge
    airlock_rate_limiter_resource_total gauge
    airlock_releases_draining gauge
    airlock_requests_in_flight gauge
    airlock_requests_total counter
    airlock_sandbox_calls_waiting gauge
    airlock_sandbox_instances gauge
    airlock_sandbox_pool_in_use gauge
    airlock_stage_duration_seconds histogram
    airlock_swaps_total counter
    airlock_trace_spans_total counter
    nv_inference_compute_infer_duration_us counter
    nv_inference_compute_input_duration_us counter
    nv_inference_compute_output_duration_us counter
    nv_inference_count counter
    nv_inference_exec_count counter
    nv_inference_pending_request_count gauge
    nv_inference_queue_duration_us counter
    nv_inference_request_duration_us counter
    nv_inference_request_failure counter
    nv_inference_request_success counter
    nv_model_load_duration_secs gauge
    request_postprocess_seconds histogram
    request_predict_seconds histogram
    request_preprocess_seconds histogram
    ");
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
    assert!(text.contains("airlock_plugin_counter_total{model=\"m\",name=\"c\"} 2\n"), "{text}");
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
        let handles = metrics.version(model, version);
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
    let _loaded = metrics.version(&stays, version);
    metrics.forget(&both);
    assert!(lines("\"stays\"") >= before, "a version of it is loaded");
}

#[test]
fn resources_are_shown_as_they_are_held_by_device() {
    let metrics = Metrics::new();
    metrics.show_resources(|| vec![("gpu\"0".into(), RateScope::Device, 4, 3), ("r".into(), RateScope::Global, 2, 0)]);
    let text = metrics.render().expect("encodes");
    for line in [
        "airlock_rate_limiter_resource_total{device=\"cpu\",resource=\"gpu\\\"0\"} 4",
        "airlock_rate_limiter_resource_total{device=\"global\",resource=\"r\"} 2",
        "airlock_rate_limiter_resource_in_use{device=\"cpu\",resource=\"gpu\\\"0\"} 3",
        "airlock_rate_limiter_resource_in_use{device=\"global\",resource=\"r\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
}
