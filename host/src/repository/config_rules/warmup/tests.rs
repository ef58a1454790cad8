use std::fs;
use std::path::Path;

use model::{ModelConfig, ModelName, WarmupData};

use super::super::super::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use super::super::super::problem::Problem;

fn parse_at(file: &Path, text: &str) -> Result<(ModelConfig, Vec<Problem>), Vec<Problem>> {
    let dir = file.parent().unwrap_or(Path::new(""));
    let (model, defaults) = (&ModelName::new("m").expect("a name"), &ConfigDefaults::default());
    let (declared, warnings) = parse_model_config(file, text, &ConfigContext { model, dir, defaults })?;
    Ok((declared.model, warnings))
}

/// The problems of `text`, in a folder with warm-up data, are `expected`: each its field and message.
fn refused(folder: &Path, text: &str, expected: &[&str]) {
    let problems = parse_at(&folder.join("config.pbtxt"), text).expect_err(text);
    let shown: Vec<_> = problems.iter().map(|p| format!("{}: {}", p.field, p.message)).collect();
    assert_eq!(shown, expected, "{text}");
}

/// A folder with `warmup/rows.bin`, 8 bytes, and `warmup/words.bin`, one string.
fn warmup_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("warmup")).expect("created");
    fs::write(folder.path().join("warmup/rows.bin"), [1, 0, 2, 0, 3, 0, 4, 0]).expect("written");
    fs::write(folder.path().join("warmup/words.bin"), b"\x02\0\0\0hi").expect("written");
    folder
}

fn warmup(inputs: &str) -> String {
    format!("max_batch_size: 4 model_warmup {{ name: \"w\" batch_size: 2 {inputs} }}")
}

fn warmup_input(data_type: &str, rest: &str) -> String {
    warmup(&format!("inputs {{ key: \"x\" value {{ data_type: {data_type} {rest} }} }}"))
}

#[test]
fn warmup_data_is_zero_random_or_read() {
    let folder = warmup_folder();
    let cases = [
        ("TYPE_FP32", "dims: [ 2 ] zero_data: true", WarmupData::Zero),
        ("TYPE_FP32", "dims: [ 2 ] random_data: true", WarmupData::Random),
        ("TYPE_STRING", "dims: [ 2 ] random_data: true", WarmupData::Zero),
        ("TYPE_UINT16", "dims: [ 3 ] input_data_file: \"rows.bin\"", WarmupData::Given(vec![1, 0, 2, 0, 3, 0].into())),
        (
            "TYPE_STRING",
            "dims: [ 1 ] input_data_file: \"words.bin\"",
            WarmupData::Given(b"\x02\0\0\0hi".to_vec().into()),
        ),
    ];
    for (data_type, rest, data) in cases {
        let (config, warnings) =
            parse_at(&folder.path().join("config.pbtxt"), &warmup_input(data_type, rest)).expect(rest);
        assert_eq!(warnings, []);
        let sample = &config.warmup[0];
        assert_eq!((sample.name.as_str(), sample.batch_size, sample.count), ("w", 2, 1));
        assert_eq!(sample.inputs[0].data, data, "{rest}");
    }
}

#[test]
fn warmup_mistakes_are_refused() {
    let folder = warmup_folder();
    const X: &str = "model_warmup[0].inputs[x]";
    let cases = [
        (
            warmup_input("TYPE_FP32", "dims: [ -1 ] zero_data: true"),
            format!("{X}.dims: warmup setting expects all variable-size dimensions are specified for input 'x'"),
        ),
        (
            warmup_input("TYPE_INVALID", "dims: [ 1 ] zero_data: true"),
            format!("{X}.data_type: warm-up input 'x' must specify 'data_type'"),
        ),
        (
            warmup_input("TYPE_FP32", "dims: [ 1 ]"),
            format!("{X}: warmup setting expects input 'x' to have input_data_type set"),
        ),
        (
            warmup_input("TYPE_FP32", "dims: [ 3 ] input_data_file: \"rows.bin\""),
            format!(
                "{X}.input_data_file: warmup setting expects 12 bytes, but the data provided from rows.binonly has 8 bytes"
            ),
        ),
        (
            warmup_input("TYPE_STRING", "dims: [ 2 ] input_data_file: \"words.bin\""),
            format!(
                "{X}.input_data_file: tensor 'x' of type BYTES and shape [2] needs 2 length-prefixed elements filling its data exactly, got 1 in 6 bytes"
            ),
        ),
        (
            warmup_input("TYPE_FP32", "dims: [ 4611686018427387904, 4 ] input_data_file: \"rows.bin\""),
            format!("{X}.input_data_file: warm-up input 'x' has too many elements"),
        ),
        (
            warmup_input("TYPE_FP32", "dims: [ 2 ] input_data_file: \"../config.pbtxt\""),
            format!("{X}.input_data_file: '../config.pbtxt' leaves the model's warmup folder"),
        ),
        (
            warmup_input("TYPE_FP32", "dims: [ 2 ] input_data_file: \"none\""),
            format!(
                "{X}.input_data_file: cannot read '{}': No such file or directory (os error 2)",
                folder.path().join("warmup/none").display()
            ),
        ),
        (
            "max_batch_size: 4 model_warmup { batch_size: 5 }".to_owned(),
            "model_warmup[0].batch_size: batch_size is 5; it must be from 1 to 4".to_owned(),
        ),
        (
            "model_warmup { batch_size: 1 count: 10001 }".to_owned(),
            "model_warmup[0].count: count is 10001; it must be from 1 to 10000".to_owned(),
        ),
        (
            "model_warmup { batch_size: 1 } ".repeat(65),
            "model_warmup: 65 warm-up samples; a model has at most 64".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        refused(folder.path(), &text, &[&expected]);
    }
}

#[test]
fn warmup_inputs_are_the_declared_ones() {
    let folder = warmup_folder();
    const DECLARED: &str = "input { name: \"a\" data_type: TYPE_FP32 dims: 1 }";
    let given = |name: &str, data_type: &str| {
        format!(
            "{DECLARED} {}",
            warmup(&format!("inputs {{ key: \"{name}\" value {{ data_type: {data_type} dims: 1 zero_data: true }} }}"))
        )
    };
    assert!(parse_at(&folder.path().join("config.pbtxt"), &given("a", "TYPE_FP32")).is_ok());
    const TYPE: &str = "warm-up input 'a' is TYPE_INT8, but the model's input is TYPE_FP32";
    const LEFT_OUT: &str = "model_warmup[0].inputs: warm-up sample 'w' leaves out input 'a'";
    const UNKNOWN: &str = "model_warmup[0].inputs[b]: 'b' is not an input of the model, which has a";
    refused(folder.path(), &given("a", "TYPE_INT8"), &[&format!("model_warmup[0].inputs[a].data_type: {TYPE}")]);
    refused(folder.path(), &format!("{DECLARED} {}", warmup("")), &[LEFT_OUT]);
    refused(folder.path(), &given("b", "TYPE_FP32"), &[LEFT_OUT, UNKNOWN]);
}

#[test]
fn a_sample_of_no_rows_does_not_run() {
    let folder = warmup_folder();
    let text = "model_warmup [ { name: \"none\" }, { name: \"one\" batch_size: 1 } ]";
    let (config, warnings) = parse_at(&folder.path().join("config.pbtxt"), text).expect("as in Triton");
    let names: Vec<_> = config.warmup.iter().map(|sample| sample.name.as_str()).collect();
    assert_eq!(names, ["one"]);
    let shown: Vec<_> = warnings.iter().map(|warning| format!("{}: {}", warning.field, warning.message)).collect();
    assert_eq!(
        shown,
        ["model_warmup[0].batch_size: warm-up sample 'none' has batch_size 0 and does not run; write 1 or more"]
    );
}
