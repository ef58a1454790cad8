use std::path::Path;

use model::ModelName;

use super::super::config_text::{ConfigContext, ConfigDefaults, parse_model_config};

/// The problems of `text`, without the file's name.
fn check(text: &str, expected: &[&str]) {
    let name = ModelName::new("m").expect("a name");
    let context = ConfigContext { model: &name, dir: Path::new(""), defaults: &ConfigDefaults::default() };
    let problems = parse_model_config(Path::new("f"), text, &context).expect_err("a mistake");
    let shown: Vec<_> = problems.iter().map(|p| p.to_string()[2..].to_owned()).collect();
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn lists_where_there_is_one_block() {
    check(
        "max_batch_size: 8\ndynamic_batching [ { max_queue_delay_microseconds: 100 } ]",
        &["2:1: dynamic_batching: 'dynamic_batching' is one block, not a list (fix: write dynamic_batching { … })"],
    );
    check(
        "max_batch_size: [ 8 ]",
        &["1:1: max_batch_size: 'max_batch_size' is one value, not a list (fix: write max_batch_size: …)"],
    );
}

#[test]
fn json_spelling() {
    const QUOTED: &str = "the field's name is in quotes, as in JSON; in protobuf text names have none";
    check("\"name\": \"m\"\n\"max_batch_size\": 8", &[&format!("1:1: name: {QUOTED} (fix: write name: …)")]);
    check(
        "instance_group [ {\"kind\": \"KIND_GPU\"} ]",
        &[
            &format!("1:19: instance_group.kind: {QUOTED} (fix: write kind: …)"),
            "1:19: instance_group.kind: 'KIND_GPU' is in quotes; 'kind' takes a name without quotes (fix: write kind: KIND_GPU)",
        ],
    );
    check(
        "{\n  \"max_batch_size\": \"8\"\n}",
        &[
            "1:1: the file is in braces, as in JSON; it is protobuf text, whose fields stand at the top level (fix: remove the outer braces)",
            &format!("2:3: max_batch_size: {QUOTED} (fix: write max_batch_size: …)"),
            "2:3: max_batch_size: '8' is in quotes; 'max_batch_size' takes a number, true or false without quotes (fix: write max_batch_size: 8)",
        ],
    );
}

#[test]
fn fields_in_the_wrong_block() {
    check(
        "dynamic_batching {\n  max_batch_size: 8\n}",
        &[
            "2:3: dynamic_batching.max_batch_size: 'max_batch_size' is not a field of dynamic_batching (fix: move it to the top level, or close the braces of dynamic_batching before it)",
        ],
    );
    check(
        "max_queue_delay_microseconds: 100",
        &[
            "1:1: max_queue_delay_microseconds: 'max_queue_delay_microseconds' is not a field of the model (fix: write dynamic_batching { max_queue_delay_microseconds … })",
        ],
    );
    check("count: 2", &["1:1: count: 'count' is not a field of the model (fix: write instance_group { count … })"]);
    check(
        "dynamic_batching { max_queue_size: 8 }",
        &[
            "1:20: dynamic_batching.max_queue_size: 'max_queue_size' is not a field of dynamic_batching (fix: write default_queue_policy { max_queue_size … })",
        ],
    );
    check(
        "version_policy { num_versions: 2 }",
        &[
            "1:18: version_policy.num_versions: 'num_versions' is not a field of version_policy (fix: write latest { num_versions: … })",
        ],
    );
    check(
        "version_policy { versions: 2 }",
        &[
            "1:18: version_policy.versions: 'versions' is not a field of version_policy (fix: write specific { versions: [ … ] })",
        ],
    );
}

#[test]
fn fields_people_expect() {
    check(
        "priority: 1",
        &[
            "1:1: priority: 'priority' is not a field of the model (fix: remove it: optimization { priority: … } is for TensorRT, and requests carry their own priority)",
        ],
    );
    check(
        "model_control_mode: \"poll\"",
        &[
            "1:1: model_control_mode: 'model_control_mode' is not a field of the model (fix: remove it: that is a setting of the server, not of a model)",
        ],
    );
    check(
        "model_warmup { inputs { key: \"x\" value { fp32_data: [ 1.0 ] } } }",
        &[
            "1:42: model_warmup.inputs.value.fp32_data: 'fp32_data' is not a field of model_warmup.inputs.value (fix: write zero_data: true, random_data: true or input_data_file: \"<a file in warmup/>\")",
        ],
    );
    check(
        "input { shape: [ 1 ] dtype: TYPE_FP32 }",
        &[
            "1:9: input.shape: 'shape' is not a field of input (fix: write dims: [ … ], without the batch dimension)",
            "1:22: input.dtype: 'dtype' is not a field of input (fix: write data_type: TYPE_…)",
        ],
    );
    check(
        "parameters { key: \"k\" value { int_value: 1 } }",
        &[
            "1:31: parameters.value.int_value: 'int_value' is not a field of parameters.value (fix: write string_value: \"…\"; parameters are text)",
        ],
    );
}

#[test]
fn mistyped_names_are_all_found_at_once() {
    check(
        "max_batch_sise: 8\ninputs { name: \"x\" }\noutput { data_tpye: TYPE_FP32 }\ncolour: 1",
        &[
            "1:1: max_batch_sise: 'max_batch_sise' is not a field of the model (fix: did you mean 'max_batch_size'?)",
            "2:1: inputs: 'inputs' is not a field of the model (fix: did you mean 'input'?)",
            "3:10: output.data_tpye: 'data_tpye' is not a field of output (fix: did you mean 'data_type'?)",
            "4:1: colour: 'colour' is not a field of the model",
        ],
    );
}

#[test]
fn values_of_another_form() {
    check(
        "version_policy: \"latest 2\"",
        &[
            "1:1: version_policy: 'version_policy' is a block, not a value (fix: write version_policy: { latest: { num_versions: 1 } })",
        ],
    );
    check(
        "parameters { key: \"k\" value: \"1\" }",
        &["1:23: parameters.value: 'value' is a block, not a value (fix: write value: { string_value: \"…\" })"],
    );
    check(
        "parameters: 3",
        &["1:1: parameters: 'parameters' is a block, not a value (fix: write parameters { key: \"…\" value: … })"],
    );
    check(
        "dynamic_batching: true",
        &["1:1: dynamic_batching: 'dynamic_batching' is a block, not a value (fix: write dynamic_batching { … })"],
    );
    check(
        "max_batch_size { 8 }",
        &["1:1: max_batch_size: 'max_batch_size' is a value, not a block (fix: write max_batch_size: …)"],
    );
    check("max_batch_size 8", &["1:1: max_batch_size: ':' is missing after the name (fix: write max_batch_size: …)"]);
    check("name = \"m\"", &["1:1: name: ':' is missing after the name (fix: write name: …)"]);
    check("input { dims [ 3 ] }", &["1:9: input.dims: ':' is missing after the name (fix: write dims: …)"]);
    check("name: resnet", &["1:1: name: 'name' takes text in quotes (fix: write name: \"resnet\")"]);
    check(
        "input { data_type: FP32 }\ninput { data_type: TYPE_FLOAT }\noutput { data_type: TYPE_INT_8 }\ninstance_group { kind: TPU }",
        &[
            "1:9: input.data_type: 'FP32' is not a value of this field (fix: write TYPE_FP32)",
            "2:9: input.data_type: 'TYPE_FLOAT' is not a value of this field (fix: write TYPE_FP32)",
            "3:10: output.data_type: 'TYPE_INT_8' is not a value of this field (fix: write TYPE_INT8)",
            "4:18: instance_group.kind: 'TPU' is not a value of this field (fix: one of KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL)",
        ],
    );
}

#[test]
fn an_error_that_no_mistake_explains_is_shown_beside_them() {
    check(
        "max_batch_size: many\ninputs { }\n",
        &[
            "1:17: expected an integer, but found 'many'",
            "2:1: inputs: 'inputs' is not a field of the model (fix: did you mean 'input'?)",
        ],
    );
}

#[test]
fn mistakes_are_limited_in_number() {
    let name = ModelName::new("m").expect("a name");
    let text = "colour: 1\n".repeat(1000);
    let context = ConfigContext { model: &name, dir: Path::new(""), defaults: &ConfigDefaults::default() };
    let problems = parse_model_config(Path::new("f"), &text, &context).expect_err("mistakes");
    assert_eq!(problems.len(), super::MISTAKES_MAX);
}
