use std::num::NonZeroUsize;

use model::{DataType, ModelName, TensorConfig};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use super::super::config_text::{ConfigDefaults, parse_model_config};
use super::*;

fn context<R>(with: impl FnOnce(&ConfigContext<'_>) -> R) -> R {
    let (model, defaults) = (ModelName::new("m").expect("a name"), ConfigDefaults::default());
    with(&ConfigContext { model: &model, dir: Path::new(""), defaults: &defaults })
}

fn of_text(text: &str) -> DeclaredConfig {
    let parsed = context(|context| parse_model_config(Path::new("f"), text, context));
    parsed.unwrap_or_else(|problems| panic!("{text}: {problems:?}")).0
}

fn of_json(text: &str) -> Result<DeclaredConfig, Vec<String>> {
    let parsed = context(|context| parse_model_config_json(Path::new("f"), text, context));
    parsed.map(|(declared, _)| declared).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn json(declared: &DeclaredConfig, loaded: &ModelConfig) -> String {
    let bytes = normal_json(&declared.document, loaded, &loaded.version_policy);
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// What Triton prints of a model that declares this, its fields and their order included.
#[test]
fn a_configuration_is_printed_whole_and_in_tritons_order() {
    let declared = of_text(
        "max_batch_size: 8
         input { name: \"x\" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, -1, 2 ] }
         dynamic_batching { max_queue_delay_microseconds: 100 priority_levels: 2 default_priority_level: 1
                            priority_queue_policy { key: 2 value { timeout_action: DELAY } } }
         instance_group { count: 2 secondary_devices { device_id: 7 } }
         metric_tags { key: \"team\" value: \"fraud\" }",
    );
    let mut loaded = declared.model.clone();
    loaded.outputs =
        vec![TensorConfig { name: "y".into(), data_type: DataType::Bytes, dims: vec![1], reshape: Some(vec![]) }];
    let expected = concat!(
        r#"{"name":"m","platform":"onnxruntime_onnx","backend":"onnxruntime","runtime":"","#,
        r#""version_policy":{"latest":{"num_versions":1}},"max_batch_size":8,"#,
        r#""input":[{"name":"x","data_type":"TYPE_FP32","format":"FORMAT_NCHW","dims":[3,-1,2],"is_shape_tensor":false,"#,
        r#""allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"#,
        r#""output":[{"name":"y","data_type":"TYPE_STRING","dims":[1],"reshape":{"shape":[]},"label_filename":"","#,
        r#""is_shape_tensor":false,"is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],"#,
        r#""optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"#,
        r#""output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"#,
        r#""dynamic_batching":{"preferred_batch_size":[8],"max_queue_delay_microseconds":100,"preserve_ordering":false,"#,
        r#""priority_levels":2,"default_priority_level":1,"priority_queue_policy":{"2":{"timeout_action":"DELAY","#,
        r#""default_timeout_microseconds":0,"allow_timeout_override":false,"max_queue_size":0}}},"#,
        r#""instance_group":[{"name":"m_0","kind":"KIND_CPU","count":2,"gpus":[],"#,
        r#""secondary_devices":[{"kind":"KIND_NVDLA","device_id":"7"}],"profile":[],"passive":false,"host_policy":""}],"#,
        r#""default_model_filename":"model.onnx","cc_model_filenames":{},"metric_tags":{"team":"fraud"},"parameters":{},"#,
        r#""model_warmup":[]}"#,
    );
    assert_eq!(json(&declared, &loaded), expected);
}

#[test]
fn a_model_of_the_identity_backend_is_printed_as_one() {
    let declared = of_text("backend: \"identity\" input { name: \"x\" data_type: TYPE_INT32 dims: 1 }");
    let printed = json(&declared, &declared.model);
    assert!(printed.starts_with(r#"{"name":"m","platform":"","backend":"identity","#), "{printed}");
    assert!(printed.contains(r#""default_model_filename":"","#), "{printed}");
}

#[test]
fn what_is_not_written_is_filled_in() {
    let declared = of_text("");
    let mut loaded = declared.model.clone();
    loaded.max_batch_size = 4;
    loaded.batching.is_dynamic = true;
    loaded.instance_groups[0].count = NonZeroUsize::new(3).expect("not zero");
    let printed: Value = serde_json::from_str(&json(&declared, &loaded)).expect("JSON");
    assert_eq!(printed["dynamic_batching"]["preferred_batch_size"], serde_json::json!([4]));
    let group = &printed["instance_group"][0];
    assert_eq!((&group["name"], &group["count"]), (&Value::from("m"), &Value::from(3)));

    let declared =
        of_text("instance_group [ { name: \"a\" }, { count: 2 kind: KIND_MODEL } ] version_policy { all { } }");
    let printed: Value = serde_json::from_str(&json(&declared, &declared.model)).expect("JSON");
    let groups = printed["instance_group"].as_array().expect("groups").iter();
    let groups: Vec<_> =
        groups.map(|group| format!("{} {} {}", group["name"], group["kind"], group["count"])).collect();
    assert_eq!(groups, [r#""a" "KIND_CPU" 1"#, r#""m_1" "KIND_MODEL" 2"#]);
    assert_eq!(printed["version_policy"], serde_json::json!({"all": {}}));
    assert!(printed.get("dynamic_batching").is_none(), "nothing is gathered");
}

#[test]
fn what_is_printed_can_be_given_back() {
    let texts = [
        "",
        "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4, 8 ] preserve_ordering: true }",
        "version_policy { specific { versions: [ 1, 9007199254740993 ] } } parameters { key: \"k\" value { string_value: \"v\" } }",
        "input { name: \"x\" data_type: TYPE_BF16 dims: [ 4 ] reshape { shape: [ 2, 2 ] } } optimization { graph { level: -1 } }",
        "model_warmup { name: \"w\" batch_size: 1 inputs { key: \"x\" value { data_type: TYPE_FP32 dims: 2 zero_data: true } } }",
        "model_metrics { metric_control { metric_identifier { family: \"f\" } histogram_options { buckets: [ 0.1, 2 ] } } }",
    ];
    for text in texts {
        let declared = of_text(text);
        let printed = json(&declared, &declared.model);
        let again = of_json(&printed).unwrap_or_else(|problems| panic!("{printed}: {problems:?}"));
        assert_eq!(json(&again, &again.model), printed, "{text}");
    }
}

#[test]
fn json_is_read_as_protobuf_writes_it() {
    let declared = of_json(
        r#"{"maxBatchSize": 8.0, "input": [{"name": "x", "dataType": "type_fp32", "dims": ["3", -1]}], "output": null,
            "dynamic_batching": {"max_queue_delay_microseconds": "100", "priority_levels": 1, "default_priority_level": 1,
                                 "priority_queue_policy": {"1": {"max_queue_size": 5}}},
            "instance_group": [{"kind": 2}]}"#,
    )
    .expect("valid");
    let same = of_text(
        "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: [ 3, -1 ] }
         dynamic_batching { max_queue_delay_microseconds: 100 priority_levels: 1 default_priority_level: 1
                            priority_queue_policy { key: 1 value { max_queue_size: 5 } } }
         instance_group { kind: KIND_CPU }",
    );
    assert_eq!(declared, same);
}

#[test]
fn every_problem_has_its_path_into_the_json() {
    let cases: [(&str, &[&str]); 12] = [
        ("{", &["f: it is not JSON: EOF while parsing an object at line 1 column 1"]),
        ("[]", &["f: a configuration is a JSON object, not a list (fix: write {\"max_batch_size\": …})"]),
        (
            r#"{"max_batch_sise": 8, "input": [{"dtype": "FP32"}], "priority": 1}"#,
            &[
                "f: input[0].dtype: 'dtype' is not a field of input[0] (fix: write data_type: TYPE_…)",
                "f: max_batch_sise: 'max_batch_sise' is not a field of the model (fix: did you mean 'max_batch_size'?)",
                "f: priority: 'priority' is not a field of the model (fix: remove it: optimization { priority: … } is for TensorRT, and requests carry their own priority)",
                "f: input[0].name: model input must specify 'name' for m",
                "f: input[0].data_type: model input '' must specify 'data_type' for m (fix: write data_type: TYPE_FP32, or the type it has)",
                "f: input[0].dims: model input '' must specify 'dims' for m (fix: list the dimensions without the batch dimension; -1 where free)",
            ],
        ),
        (
            r#"{"max_batch_size": "many"}"#,
            &["f: max_batch_size: 'max_batch_size' takes a whole number from -2147483648 to 2147483647, not 'many'"],
        ),
        (
            r#"{"max_batch_size": 2147483648}"#,
            &[
                "f: max_batch_size: 'max_batch_size' takes a whole number from -2147483648 to 2147483647, not 2147483648",
            ],
        ),
        (
            r#"{"max_batch_size": -1}"#,
            &[
                "f: max_batch_size: 'max_batch_size' must be non-negative value for m (fix: write 0 for a model without a batch dimension)",
            ],
        ),
        (
            r#"{"name": "other"}"#,
            &[
                "f: name: unexpected directory name 'm' for model 'other', directory name must equal model name (fix: write name: \"m\", leave name out, or rename the folder)",
            ],
        ),
        (r#"{"dynamic_batching": [{}]}"#, &["f: dynamic_batching: 'dynamic_batching' takes an object, not a list"]),
        (
            r#"{"instance_group": {"kind": 1}}"#,
            &["f: instance_group: 'instance_group' is a list, not an object (fix: write [ … ])"],
        ),
        (
            r#"{"instance_group": [{"kind": "CPU"}]}"#,
            &["f: instance_group[0].kind: 'CPU' is not a value of this field (fix: write \"KIND_CPU\")"],
        ),
        (
            r#"{"version_policy": {"all": {}, "latest": {}}}"#,
            &[
                "f: version_policy.latest: 'latest' is there as well as 'all' (fix: remove one of the two: policy_choice)",
            ],
        ),
        (r#"{"parameters": {"k": "v"}}"#, &["f: parameters[k]: 'value' takes an object, not 'v'"]),
    ];
    for (text, expected) in cases {
        assert_eq!(of_json(text).expect_err(text), expected, "{text}");
    }
    let large = format!("\"{}\"", "x".repeat(CONFIG_BYTES_MAX));
    assert!(of_json(&large).expect_err("too large")[0].contains("it may have at most 1048576"));
}

#[test]
fn every_corruption_is_answered_and_what_is_accepted_is_its_own_normal_form() {
    let declared = of_text(
        "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: [ 4, -1 ] reshape { shape: [ 2, 2, -1 ] } }
         dynamic_batching { preferred_batch_size: [ 4, 8 ] priority_levels: 2 default_priority_level: 1
                            priority_queue_policy { key: 1 value { max_queue_size: 5 } } }
         instance_group [ { count: 2 }, { kind: KIND_MODEL } ] version_policy { specific { versions: [ 1, 3 ] } }
         optimization { graph { level: 1 } } metric_tags { key: \"a\" value: \"b\" }",
    );
    let whole: Vec<char> = json(&declared, &declared.model).chars().collect();
    let mut random = SmallRng::seed_from_u64(11);
    let alphabet: Vec<char> = "{}[]:,\"\\-.0189aeTE_ ntfμ".chars().collect();
    let mut accepted = 0;
    for _ in 0..4000 {
        let mut corrupt = whole.clone();
        for _ in 0..random.random_range(1..3) {
            let at = random.random_range(0..corrupt.len());
            corrupt[at] = alphabet[random.random_range(0..alphabet.len())];
        }
        match of_json(&corrupt.into_iter().collect::<String>()) {
            Err(problems) => assert!(!problems.is_empty()),
            Ok(declared) => {
                let printed = json(&declared, &declared.model);
                let again = of_json(&printed).unwrap_or_else(|problems| panic!("{printed}: {problems:?}"));
                assert_eq!(json(&again, &again.model), printed);
                accepted += 1;
            }
        }
    }
    assert!(accepted > 20, "{accepted} of 4000 were accepted");
}
