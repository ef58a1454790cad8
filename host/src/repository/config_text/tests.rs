use std::path::Path;

use model::VersionPolicy;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

/// Uses most of the format: comments, both list forms, both bracket forms, maps, repeats, separators.
const WHOLE: &str = r#"
# the engine side
name: "m", platform: "onnxruntime_onnx";
backend: 'onnxruntime'
max_batch_size: 8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] },
  < name: "y", data_type: 9, dims: 2 dims: 4 >
]
output { name: "z" data_type: TYPE_STRING dims: [ 1 ] }
version_policy: { specific: { versions: [ 1, 3 ] } }
dynamic_batching { preferred_batch_size: [ 8, 4, 4 ] max_queue_delay_microseconds: 100 }
instance_group [ { count: 2 kind: KIND_CPU } ]
parameters { key: "intra_op_thread_count" value: { string_value: "2" } }
parameters [ { key: "threshold" value { string_value: "0." "5" } } ]
"#;

fn parse(text: &str) -> Result<(ModelConfig, Vec<Problem>), Vec<Problem>> {
    let (model, defaults) = (&ModelName::new("m").expect("a name"), &ConfigDefaults::default());
    let context = ConfigContext { model, dir: Path::new("m"), defaults };
    let parsed = parse_model_config(Path::new("m/config.pbtxt"), text, &context);
    parsed.map(|(declared, warnings)| (declared.model, warnings))
}

fn shown(text: &str) -> Vec<String> {
    parse(text).expect_err("a problem").iter().map(ToString::to_string).collect()
}

#[test]
fn a_configuration_is_read_as_triton_reads_it() {
    let (config, warnings) = parse(WHOLE).expect("valid");
    assert_eq!(warnings, []);
    assert_eq!((config.name.as_str(), config.max_batch_size, config.instance_count().get()), ("m", 8, 2));
    let tensors: Vec<_> = config.inputs.iter().chain(&config.outputs).collect();
    let seen: Vec<_> = tensors.iter().map(|t| format!("{} {} {:?}", t.name, t.data_type, t.dims)).collect();
    assert_eq!(seen, ["x FP32 [3, -1]", "y INT64 [2, 4]", "z BYTES [1]"]);
    assert_eq!(config.batching.preferred_batch_sizes, [4, 8]);
    assert_eq!(config.batching.max_queue_delay.as_micros(), 100);
    let versions = [1, 3].map(|n| VersionNumber::new(n).expect("not zero"));
    assert_eq!(config.version_policy, VersionPolicy::Specific(versions.to_vec()));
    assert_eq!(config.session.threads.intra_op, Some(2.into()));
    assert_eq!(config.parameters.into_iter().collect::<Vec<_>>(), [("threshold".to_owned(), "0.5".to_owned())]);
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let name = ModelName::new("m").expect("a name");
    let defaults =
        ConfigDefaults { max_queue_size: NonZeroUsize::new(7).expect("not zero"), ..ConfigDefaults::default() };
    let context = ConfigContext { model: &name, dir: Path::new(""), defaults: &defaults };
    let (declared, warnings) = parse_model_config(Path::new("f"), "", &context).expect("valid");
    assert_eq!((&declared, warnings), (&DeclaredConfig::undeclared(&name, &defaults), vec![]));
    assert_eq!(declared.model.batching.queue.max_queue_size.get(), 7);
}

#[test]
fn a_byte_order_mark_says_nothing() {
    let (config, warnings) = parse(&format!("\u{feff}{WHOLE}")).expect("valid");
    assert_eq!((config.max_batch_size, warnings), (8, vec![]));
    assert_eq!(shown("\u{feff}name: ~"), ["m/config.pbtxt:1:7: invalid token"]);
}

#[test]
fn places_of_many_entries_are_gathered_once() {
    // Looked up one by one, these would be ten thousand walks over ten thousand entries.
    let entry = |number: usize| format!("parameters {{ key: \"k{number}\" value {{ string_value: \"v\" }} }}\n");
    let text: String = (0..10_000).map(entry).collect();
    let (config, _) = parse(&text).expect("valid");
    assert_eq!(config.parameters.len(), 10_000);
    let twice = "parameters { key: \"airlock.x\" value { } }\nparameters { key: \"airlock.x\" value { } }";
    assert!(shown(twice)[0].starts_with("m/config.pbtxt:2:1: parameters[airlock.x]: "), "{:?}", shown(twice));
}

#[test]
fn syntax_errors_have_line_and_column() {
    let cases = [
        ("max_batch_size: 8\nname: \"m\n", "m/config.pbtxt:2:9: invalid string character"),
        (
            "name: \"m\"\n\n  max_batch_size: 4294967296",
            "m/config.pbtxt:3:19: expected value to be a signed 32-bit integer, but the value 4294967296 is out of range",
        ),
        ("max_batch_size: 1 max_batch_size: 2", "m/config.pbtxt:1:35: 'max_batch_size' is already set"),
        (
            "input [ { name: \"x\" } ]\ninput [ { name: \"y\" }\n",
            "m/config.pbtxt:3:1: expected ',' or ']', but reached end of input",
        ),
        (
            "input [ { name: \"x\" } ] input [ { dims: [ 1, ] } ]",
            "m/config.pbtxt:1:44: a list cannot end with a comma (fix: remove the comma)",
        ),
        ("input [ ] input [ ] input [ ] name: ~", "m/config.pbtxt:1:37: invalid token"),
        (
            "dynamic_batching { } sequence_batching { }",
            "m/config.pbtxt:1:40: a value is already set for oneof 'scheduling_choice'",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text), [expected], "{text}");
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let text = "#".repeat(CONFIG_BYTES_MAX + 1);
    assert_eq!(shown(&text), ["m/config.pbtxt: the file has 1048577 bytes; it may have at most 1048576"]);
    assert!(parse(&text[1..]).is_ok());
}

#[test]
fn every_prefix_and_every_corruption_is_answered() {
    let warmup = "model_warmup { name: \"w\" batch_size: 1 inputs { key: \"x\" value { zero_data: true } } }";
    let text = format!("{WHOLE}{warmup}");
    for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
        let _ = parse(&text[..end]);
    }
    let mut random = SmallRng::seed_from_u64(7);
    let alphabet: Vec<char> = "{}[]<>:;,#\"'\\-.09aeEfx_ \n\0μ~".chars().collect();
    for _ in 0..4000 {
        let mut corrupt: Vec<char> = text.chars().collect();
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..corrupt.len());
            corrupt[at] = alphabet[random.random_range(0..alphabet.len())];
        }
        if let Err(problems) = parse(&corrupt.iter().collect::<String>()) {
            assert!(!problems.is_empty());
        }
    }
    for _ in 0..4000 {
        let noise: String = (0..40).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect();
        let _ = parse(&noise);
    }
}
