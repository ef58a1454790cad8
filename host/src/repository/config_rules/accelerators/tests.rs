use model::Accelerator;

use super::super::tests::{accepted, refused};
use super::TENSORRT;

fn accelerators(inner: &str) -> String {
    format!("optimization {{ execution_accelerators {{ {inner} }} }}")
}

fn with_parameter(field: &str, name: &str, key: &str, value: &str) -> String {
    accelerators(&format!("{field} {{ name: \"{name}\" parameters {{ key: \"{key}\" value: \"{value}\" }} }}"))
}

#[test]
fn accelerators_are_listed_in_the_order_of_their_preference() {
    let cases: [(&str, &[Accelerator]); 5] = [
        ("", &[]),
        ("cpu_execution_accelerator [ { name: \"openvino\" } ]", &[Accelerator::OpenVino]),
        (
            "gpu_execution_accelerator [ { name: \"tensorrt\" }, { name: \"cuda\" } ]",
            &[Accelerator::TensorRt, Accelerator::Cuda],
        ),
        (
            "cpu_execution_accelerator { name: \"openvino\" } gpu_execution_accelerator { name: \"cuda\" }",
            &[Accelerator::Cuda, Accelerator::OpenVino],
        ),
        ("cpu_execution_accelerator [ { name: \"openvino\" }, { name: \"openvino\" } ]", &[Accelerator::OpenVino]),
    ];
    for (inner, expected) in cases {
        assert_eq!(accepted(&accelerators(inner)).session.accelerators, expected, "{inner}");
    }
}

#[test]
fn unknown_accelerators_are_refused_in_tritons_words() {
    let cases = [
        ("gpu_execution_accelerator", "openvino", "tensorrt or cuda"),
        ("gpu_execution_accelerator", "", "tensorrt or cuda"),
        ("cpu_execution_accelerator", "tensorrt", "openvino"),
    ];
    for (field, name, known) in cases {
        let text = accelerators(&format!("{field} {{ name: \"{name}\" }}"));
        refused(
            &text,
            &[&format!(
                "1:69: optimization.execution_accelerators.{field}[0].name: unknown Execution Accelerator '{name}' is requested (fix: write {known} here, or remove the accelerator)"
            )],
        );
    }
}

#[test]
fn parameters_of_accelerators_are_checked() {
    const GPU: &str = "gpu_execution_accelerator";
    for (key, value) in [
        ("precision_mode", "FP16"),
        ("max_workspace_size_bytes", "1073741824"),
        ("trt_engine_cache_enable", "true"),
        ("trt_engine_cache_enable", "0"),
        ("trt_dla_core", "-1"),
        ("trt_profile_opt_shapes", "x:1x3"),
    ] {
        accepted(&with_parameter(GPU, "tensorrt", key, value));
    }
    accepted(&with_parameter(GPU, "cuda", "gpu_mem_limit", "123"));
    accepted(&with_parameter(GPU, "cuda", "do_copy_in_default_stream", "1"));
    let cases = [
        (
            with_parameter(GPU, "tensorrt", "precision_mode", "FP8"),
            "unsupported precision mode 'FP8' is requested (fix: write one of FP32, FP16, BF16, INT8)",
        ),
        (
            with_parameter(GPU, "tensorrt", "max_workspace_size_bytes", "1G"),
            "failed to convert '1G' to unsigned long long integral number for parameter 'max_workspace_size_bytes' (fix: write a whole number in quotes)",
        ),
        (
            with_parameter(GPU, "tensorrt", "trt_dla_core", "first"),
            "failed to convert 'first' to integral number for parameter 'trt_dla_core' (fix: write a whole number in quotes)",
        ),
        (
            with_parameter(GPU, "tensorrt", "trt_engine_cache_enable", "yes"),
            "failed to convert 'yes' to boolean for parameter 'trt_engine_cache_enable' (fix: write \"true\" or \"false\")",
        ),
        (
            with_parameter(GPU, "tensorrt", "trt_engine_cache_enabled", "1"),
            "unknown parameter 'trt_engine_cache_enabled' is provided for TensorRT Execution Accelerator (fix: did you mean 'trt_engine_cache_enable'?)",
        ),
        (
            with_parameter(GPU, "tensorrt", "trt_extra_plugin_lib_paths", "p.so"),
            "'trt_extra_plugin_lib_paths' names native code from the repository, which is never loaded (fix: remove it)",
        ),
        (
            with_parameter(GPU, "cuda", "use_ep_level_unified_stream", "on"),
            "failed to convert 'on' to boolean for parameter 'use_ep_level_unified_stream' (fix: write \"true\" or \"false\")",
        ),
        (
            with_parameter("cpu_execution_accelerator", "openvino", "device_type", "GPU"),
            "unknown parameter 'device_type' is provided for OpenVINO Execution Accelerator (fix: remove it: openvino takes no parameters)",
        ),
    ];
    for (text, expected) in cases {
        let problems = super::super::tests::parse(&text).expect_err(&text);
        assert_eq!(problems.len(), 1, "{text}");
        let shown = problems[0].to_string();
        assert!(shown.contains("_execution_accelerator[0].parameters: ") && shown.ends_with(expected), "{shown}");
    }
}

#[test]
fn the_known_parameters_are_listed_once_in_order() {
    assert!(TENSORRT.windows(2).all(|pair| pair[0].0 < pair[1].0));
}
