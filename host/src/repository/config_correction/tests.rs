use std::path::Path;

use model::{DataType, ModelName, TensorSpec};

use super::super::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use super::*;

fn declared(text: &str) -> DeclaredConfig {
    let (model, defaults) = (&ModelName::new("m").expect("a name"), &ConfigDefaults::default());
    let context = ConfigContext { model, dir: Path::new(""), defaults };
    parse_model_config(Path::new("f"), text, &context).unwrap_or_else(|problems| panic!("{text}: {problems:?}")).0
}

/// Input x and output y of these shapes, FP32.
fn file(input: &[i64], output: &[i64]) -> FileTensors {
    let side = |name: &str, shape: &[i64]| {
        Some(vec![TensorSpec { name: name.into(), data_type: DataType::Fp32, shape: shape.to_vec() }])
    };
    FileTensors { inputs: side("x", input), outputs: side("y", output), ..FileTensors::default() }
}

fn correction(text: &str, file: &FileTensors) -> Correction {
    Correction::of(&declared(text), &["they disagree".to_owned()], file).unwrap_or_else(|| panic!("{text}: nothing"))
}

#[test]
fn only_what_must_change_is_written() {
    let text = "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP64 dims: [ 2 ] }";
    let found = correction(text, &file(&[-1, 2], &[-1, 1]));
    assert_eq!(found.lines(), ["input [", "  { name: \"x\" data_type: TYPE_FP32 dims: [ 2 ] }", "]"]);
    assert_eq!(
        found.to_string(),
        "they disagree (fix: write input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 2 ] } ])"
    );
    let right = declared("max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: [ 2 ] }");
    assert_eq!(Correction::of(&right, &[], &file(&[-1, 2], &[-1, 1])), None);
}

#[test]
fn what_else_was_written_of_a_tensor_stays() {
    let text = "max_batch_size: 8
        input { name: \"x\" data_type: TYPE_FP16 dims: [ 3, 2, 2 ] format: FORMAT_NCHW }";
    let found = correction(text, &file(&[-1, 3, 2, 2], &[-1, 1]));
    assert_eq!(found.lines()[1], "  { name: \"x\" data_type: TYPE_FP32 dims: [ 3, 2, 2 ] format: FORMAT_NCHW }");
    let odd = FileTensors {
        inputs: Some(vec![TensorSpec { name: "a \"b\"\\\n".into(), data_type: DataType::Bytes, shape: vec![-1] }]),
        ..FileTensors::default()
    };
    let found = correction("max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP16 dims: 1 }", &odd);
    let line = r#"  { name: "a \"b\"\\\n" data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } }"#;
    assert_eq!(found.lines()[1], line);
}

#[test]
fn dims_that_repeat_the_batch_dimension_are_named() {
    let text = "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 2 ] }";
    let found = correction(text, &file(&[-1, 2], &[-1, 1]));
    assert_eq!(
        found.problem(),
        "they disagree; input 'x': dims repeats the batch dimension, which max_batch_size adds; write dims: [ 2 ]"
    );
}

#[test]
fn what_has_no_batch_dimension_loses_its_scheduler_and_its_warm_up() {
    let text = "max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 }
        model_warmup { name: \"w\" batch_size: 8 inputs { key: \"x\" value { data_type: TYPE_FP32 dims: 2 zero_data: true } } }";
    let found = correction(text, &file(&[1, 2], &[1, 1]));
    assert_eq!(found.lines(), ["max_batch_size: 0", "# leave out dynamic_batching", "# leave out model_warmup"]);
    assert_eq!(
        found.to_string(),
        "they disagree (fix: write max_batch_size: 0, and leave out dynamic_batching, and leave out model_warmup)"
    );
}

#[test]
fn a_side_that_completion_would_get_wrong_is_written_too() {
    let mut file = file(&[-1, 2], &[-1, 1]);
    let fixed = TensorSpec { name: "z".into(), data_type: DataType::Fp32, shape: vec![7] };
    file.outputs.as_mut().expect("outputs").push(fixed);
    let found = correction("max_batch_size: 8 output { name: \"y\" data_type: TYPE_FP32 dims: 1 }", &file);
    assert_eq!(found.lines(), ["input [", "  { name: \"x\" data_type: TYPE_FP32 dims: [ 2 ] }", "]"]);
}
