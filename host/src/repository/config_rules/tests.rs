mod padding;
mod ragged;
mod rate_limit;
mod version_labels;

use std::path::Path;
use std::time::Duration;

use model::{GraphOptimization, ModelConfig, ModelName, VersionPolicy};

use super::super::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use super::super::problem::{Problem, Severity};

pub(super) fn parse(text: &str) -> Result<(ModelConfig, Vec<Problem>), Vec<Problem>> {
    let (model, defaults) = (&ModelName::new("m").expect("a name"), &ConfigDefaults::default());
    let context = ConfigContext { model, dir: Path::new(""), defaults };
    parse_model_config(Path::new("f"), text, &context).map(|(declared, warnings)| (declared.model, warnings))
}

/// A parameter in the text of a configuration.
pub(super) fn parameter(key: &str, value: &str) -> String {
    format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}")
}

pub(super) fn accepted(text: &str) -> ModelConfig {
    let (config, warnings) = parse(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    assert_eq!(warnings, [], "{text}");
    config
}

/// The errors of `text` are `expected`, shown without the file's name.
pub(super) fn refused(text: &str, expected: &[&str]) {
    let problems = parse(text).expect_err(text);
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let shown: Vec<_> = errors.map(|problem| problem.to_string()[2..].to_owned()).collect();
    assert_eq!(shown, expected, "{text}");
}

pub(super) fn warned(text: &str, expected: &[&str]) {
    let (_, warnings) = parse(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    let shown: Vec<_> = warnings.iter().map(|problem| problem.to_string()[2..].to_owned()).collect();
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn without_completion_both_sides_are_declared() {
    let model = &ModelName::new("m").expect("a name");
    let strict = ConfigDefaults { auto_complete: model::AutoComplete::Off, ..ConfigDefaults::default() };
    let context = ConfigContext { model, dir: Path::new(""), defaults: &strict };
    let shown = |text: &str| match parse_model_config(Path::new("f"), text, &context) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    let input = "input { name: \"x\" data_type: TYPE_FP32 dims: 2 }";
    let lacking = |side: &str| {
        format!(
            "f: {side}: model m declares no {side}, and nothing is taken from the model file (fix: declare every {side}, or leave --disable-auto-complete-config out)"
        )
    };
    assert_eq!(shown(""), [lacking("input"), lacking("output")]);
    assert_eq!(shown(input), [lacking("output")]);
    assert!(shown(&format!("{input} {}", input.replacen("input", "output", 1))).is_empty());
    assert!(shown("backend: \"identity\"").is_empty(), "there is no file to take anything from");
}

#[test]
fn label_files_are_bounded() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let model = &ModelName::new("m").expect("a name");
    let context = ConfigContext { model, dir: folder.path(), defaults: &ConfigDefaults::default() };
    let text = "output { name: \"y\" data_type: TYPE_FP32 dims: 2 label_filename: \"l\" }";
    let read = |content: &str| {
        std::fs::write(folder.path().join("l"), content).expect("written");
        parse_model_config(Path::new("f"), text, &context)
    };
    assert!(read(&"\n".repeat(1 << 20)).is_ok());
    let problems = read(&"\n".repeat((1 << 20) + 1)).expect_err("too many");
    let shown = problems[0].to_string();
    assert!(shown.contains("has more than 1048576 labels (fix: write one line per position"), "{shown}");
}

#[test]
fn the_name_is_the_folders() {
    accepted("name: \"m\"");
    refused(
        "name: \"other\"",
        &[
            "1:1: name: unexpected directory name 'm' for model 'other', directory name must equal model name (fix: write name: \"m\", leave name out, or rename the folder)",
        ],
    );
}

#[test]
fn only_onnx_models_are_served() {
    const ONNX: &str = "export the model to ONNX and save it as model.onnx";
    const PAIR: &str = "unexpected 'platform' and 'backend' pair, got";
    const PIPELINE: &str = "ensembles are not served (fix: write the steps as a plugin with kind = \"pipeline\" in plugin.toml, which calls the models itself)";
    for good in ["platform: \"onnxruntime_onnx\"", "backend: \"onnxruntime\"", ""] {
        accepted(good);
    }
    accepted("platform: \"onnxruntime_onnx\" backend: \"onnxruntime\"");
    let cases = [
        ("backend: \"tensorflow\"", format!("1:1: backend: backend 'tensorflow' is not served: models are ONNX files (fix: {ONNX})")),
        ("backend: \"pytorch\"", format!("1:1: backend: backend 'pytorch' is not served: models are ONNX files (fix: {ONNX})")),
        ("platform: \"tensorrt_plan\"", format!("1:1: platform: platform 'tensorrt_plan' is not served: models are ONNX files (fix: {ONNX})")),
        ("backend: \"python\"", "1:1: backend: backend 'python' is not served: models are ONNX files (fix: export the model to ONNX and move the Python around it into a plugin)".to_owned()),
        ("platform: \"onnxruntime_onnx\" backend: \"tensorrt\"", format!("1:1: platform: {PAIR}:onnxruntime_onnx, tensorrt (fix: write backend: \"onnxruntime\" and leave platform out)")),
        ("platform: \"tensorrt_plan\" backend: \"onnxruntime\"", format!("1:1: platform: {PAIR}:tensorrt_plan, onnxruntime (fix: write backend: \"onnxruntime\" and leave platform out)")),
        ("platform: \"ensemble\"", format!("1:1: platform: {PIPELINE}")),
        ("platform: \"ensemble\" ensemble_scheduling { step [ ] }", format!("1:22: ensemble_scheduling: {PIPELINE}")),
    ];
    for (text, expected) in cases {
        refused(text, &[&expected]);
    }
}

#[test]
fn what_would_change_a_models_meaning_is_refused() {
    refused(
        "sequence_batching { }",
        &[
            "1:1: sequence_batching: sequence batching is not supported: the model would lose its state between requests (fix: pass the state as inputs and outputs, and keep it in the client or in a plugin's key-value store)",
        ],
    );
    refused(
        "model_repository_agents { agents { name: \"decrypt\" } }",
        &[
            "1:36: model_repository_agents.agents[0].name: repository agent 'decrypt' is native code and is never loaded, so nothing would do what it promises (fix: remove it; the agent that there is, is \"checksum\")",
        ],
    );
}

#[test]
fn all_problems_are_shown_at_once() {
    refused(
        "name: \"n\"\nmax_batch_size: -1\ninput { }\ninstance_group { kind: KIND_GPU }",
        &[
            "1:1: name: unexpected directory name 'm' for model 'n', directory name must equal model name (fix: write name: \"m\", leave name out, or rename the folder)",
            "2:1: max_batch_size: 'max_batch_size' must be non-negative value for m (fix: write 0 for a model without a batch dimension)",
            "3:1: input[0].name: model input must specify 'name' for m",
            "3:1: input[0].data_type: model input '' must specify 'data_type' for m (fix: write data_type: TYPE_FP32, or the type it has)",
            "3:1: input[0].dims: model input '' must specify 'dims' for m (fix: list the dimensions without the batch dimension; -1 where free)",
            "4:18: instance_group[0].kind: instance group m_0 of model m has kind KIND_GPU but no GPUs are available (fix: write kind: KIND_CPU and leave gpus out)",
        ],
    );
}

#[test]
fn tensors_are_checked_one_by_one() {
    const X: &str = "name: \"x\" data_type: TYPE_FP32";
    const DIM: &str = "dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m";
    let cases = [
        (format!("output {{ {X} }}"), "1:1: output[0].dims: model output 'x' must specify 'dims' for m (fix: list the dimensions without the batch dimension; -1 where free)".to_owned()),
        (format!("input {{ {X} dims: [ 3, 0 ] }}"), format!("1:40: input[0].dims: model input 'x' {DIM} (fix: replace 0)")),
        (format!("input {{ {X} dims: [ -2 ] }}"), format!("1:40: input[0].dims: model input 'x' {DIM} (fix: replace -2)")),
        ("input { name: \"x\" data_type: TYPE_INVALID dims: 1 }".to_owned(), "1:19: input[0].data_type: model input 'x' must specify 'data_type' for m (fix: write data_type: TYPE_FP32, or the type it has)".to_owned()),
        ("input { name: \"x\" data_type: 99 dims: 1 }".to_owned(), "1:19: input[0].data_type: model input 'x' must specify 'data_type' for m (fix: write data_type: TYPE_FP32, or the type it has)".to_owned()),
        (format!("input [ {{ {X} dims: 1 }}, {{ {X} dims: 1 }} ]"), "1:55: input[1].name: input 'x' is declared twice for m (fix: remove one of them)".to_owned()),
        (format!("max_batch_size: 1 input {{ {X} dims: 1 optional: true }}"), "1:66: input[0].optional: unable to load model 'm', optional input 'x' is not supported for models that support batching (fix: leave the input out, so that the model uses the value in its file, or leave optional out)".to_owned()),
        (format!("output {{ {X} dims: 1 label_filename: \"../labels\" }}"), "1:49: output[0].label_filename: '../labels' leaves the model's folder (fix: name a file inside it)".to_owned()),
    ];
    for (text, expected) in cases {
        refused(&text, &[&expected]);
    }
    refused(
        &format!("input {{ {X} dims: 1 format: FORMAT_NHWC }}"),
        &["1:48: input[0].format: model input NHWC/NCHW require 3 dims for m (fix: leave format out)"],
    );
}

#[test]
fn a_reshape_must_fit() {
    let with = |dims: &str, shape: &str| {
        format!(
            "max_batch_size: 8 input {{ name: \"x\" data_type: TYPE_FP32 dims: [ {dims} ] reshape {{ shape: [ {shape} ] }} }}"
        )
    };
    for (dims, shape, model_dims) in
        [("3, -1", "3, -1", &[3, -1][..]), ("4", "2, 2", &[2, 2]), ("1", "", &[]), ("4, -1", "2, 2, -1", &[2, 2, -1])]
    {
        assert_eq!(accepted(&with(dims, shape)).inputs[0].model_dims(), model_dims, "{dims} as {shape}");
    }
    let problem = |text: &str| parse(text).expect_err(text)[0].message.clone();
    let cases = [
        (with("4", "3"), "model input 'x' has different size for dims and reshape for m"),
        (with("4", "-1"), "model input 'x' has different size for dims and reshape for m"),
        (
            with("-1, -1", "-1"),
            "model input 'x' has different number of variable-size dimensions for dims and reshape for m",
        ),
        (with("2, -1, 3", "3, -1, 2"), "model input 'x' has different size for dims and reshape for m"),
        (
            with("1", "").replace("max_batch_size: 8", ""),
            "model input 'x' cannot have empty reshape for non-batching model as scalar tensors are not supported for m",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problem(&text), expected, "{text}");
    }
}

#[test]
fn batching_has_sizes_a_delay_and_a_bounded_queue() {
    let config = accepted(
        "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 8, 2 ] max_queue_delay_microseconds: 500
         default_queue_policy { max_queue_size: 32 default_timeout_microseconds: 2000 } }",
    );
    assert_eq!(config.batching.preferred_batch_sizes, [2, 8]);
    assert_eq!(config.batching.max_queue_delay, Duration::from_micros(500));
    assert_eq!(config.batching.queue.max_queue_size.get(), 32);
    assert_eq!(config.batching.queue.default_timeout, Some(Duration::from_millis(2)));

    let config = accepted("dynamic_batching { default_queue_policy { timeout_action: DELAY max_queue_size: 0 } }");
    assert_eq!(config.batching.queue.max_queue_size, model::QueuePolicy::DEFAULT_MAX_QUEUE_SIZE);
    assert_eq!(config.batching.queue.default_timeout, None);

    let cases = [
        (
            "max_batch_size: 8 dynamic_batching { preferred_batch_size: 16 }",
            "1:38: dynamic_batching.preferred_batch_size: dynamic batching preferred size must be <= max batch size for m (fix: 16 is above max_batch_size 8: raise the one or lower the other)",
        ),
        (
            "max_batch_size: 8 dynamic_batching { preferred_batch_size: 0 }",
            "1:38: dynamic_batching.preferred_batch_size: dynamic batching preferred size must be positive for m (fix: remove 0)",
        ),
        (
            "dynamic_batching { max_queue_delay_microseconds: 3600000001 }",
            "1:20: dynamic_batching.max_queue_delay_microseconds: max_queue_delay_microseconds is 3600000001; it must be at most 3600000000",
        ),
        (
            "dynamic_batching { default_queue_policy { max_queue_size: 1000001 } }",
            "1:43: dynamic_batching.default_queue_policy.max_queue_size: max_queue_size is 1000001; it must be at most 1000000",
        ),
        (
            "dynamic_batching { preserve_ordering: true
             default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 } }",
            "1:20: dynamic_batching.preserve_ordering: Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m (fix: write timeout_action: REJECT)",
        ),
        (
            "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
            "1:20: dynamic_batching.preserve_ordering: Only one priority level is allowed when 'preserve_ordering' is true for m (fix: leave out one of the two)",
        ),
    ];
    for (text, expected) in cases {
        refused(text, &[expected]);
    }
}

#[test]
fn levels_have_policies_and_requests_their_say() {
    let config = accepted(
        "dynamic_batching { priority_levels: 3 default_priority_level: 2
         default_queue_policy { max_queue_size: 9 }
         priority_queue_policy { key: 1 value { max_queue_size: 5 timeout_action: DELAY default_timeout_microseconds: 7
                                                allow_timeout_override: true } } }",
    );
    let batching = &config.batching;
    assert_eq!([0, 1, 3, 4].map(|priority| batching.level(priority)), [2, 1, 3, 2]);
    assert_eq!([1, 2, 3].map(|level| batching.policy(level).max_queue_size.get()), [5, 9, 9]);
    assert!(batching.policy(1).delays() && batching.policy(1).allow_timeout_override);
    refused(
        "dynamic_batching { priority_levels: 2 default_priority_level: 3 }",
        &[
            "1:39: dynamic_batching.default_priority_level: default priority level must be in range [1, 2] for m (fix: write default_priority_level: 1)",
        ],
    );
    refused(
        "dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } } }",
        &[
            "1:65: dynamic_batching.priority_queue_policy: priority queue policy must have priority level in range [1, 2] for m (fix: remove the key 3)",
        ],
    );
}

#[test]
fn splitting_is_asked_for_by_a_parameter() {
    let with = |value: &str| {
        format!(
            "max_batch_size: 8 parameters {{ key: \"airlock.split_large_requests\" value: {{ string_value: \"{value}\" }} }}"
        )
    };
    assert!(accepted(&with("true")).batching.split_large_requests);
    assert!(!accepted(&with("false")).batching.split_large_requests);
    let problem = parse(&with("yes")).expect_err("neither")[0].message.clone();
    assert_eq!(problem, "'airlock.split_large_requests' is 'yes'; it must be 1 or true, or 0 or false");
}

#[test]
fn versions_and_files() {
    let policies = [
        ("", VersionPolicy::Latest(1)),
        ("version_policy { }", VersionPolicy::Latest(1)),
        ("version_policy { latest { num_versions: 3 } }", VersionPolicy::Latest(3)),
        ("version_policy { all { } }", VersionPolicy::All),
    ];
    for (text, policy) in policies {
        assert_eq!(accepted(text).version_policy, policy, "{text}");
    }
    assert_eq!(accepted("").model_filename, "model.onnx");
    assert_eq!(accepted("default_model_filename: \"net/a.onnx\"").model_filename, "net/a.onnx");
    let cases = [
        (
            "version_policy { latest { } }",
            "1:18: version_policy.latest.num_versions: num_versions is 0, which serves nothing; it must be at least 1 (fix: write num_versions: 1)",
        ),
        (
            "version_policy { specific { } }",
            "1:18: version_policy.specific.versions: no versions are named, which serves nothing (fix: write versions: [ 1 ])",
        ),
        (
            "version_policy { specific { versions: [ 1, 0 ] } }",
            "1:29: version_policy.specific.versions: 0 is not a version; versions are numbered from 1",
        ),
    ];
    for (text, expected) in cases {
        refused(text, &[expected]);
    }
    for escape in ["../x.onnx", "/x.onnx", "a/../../x", "a\\\\b", "."] {
        let text = format!("default_model_filename: \"{escape}\"");
        let shown = escape.replace("\\\\", "\\");
        refused(
            &text,
            &[&format!(
                "1:1: default_model_filename: '{shown}' leaves the version's folder (fix: name a file inside it, such as \"model.onnx\")"
            )],
        );
    }
}

#[test]
fn optimization_levels_are_tritons() {
    let cases = [
        ("0", GraphOptimization::All),
        ("-1", GraphOptimization::Basic),
        ("1", GraphOptimization::Extended),
        ("2", GraphOptimization::Disabled),
    ];
    for (level, expected) in cases {
        let text = format!("optimization {{ graph {{ level: {level} }} }}");
        assert_eq!(accepted(&text).session.graph_optimization, expected, "{level}");
    }
    refused(
        "optimization { graph { level: 99 } }",
        &["1:24: optimization.graph.level: level is 99; it must be -1 (basic), 0 (all), 1 (extended) or 2 (none)"],
    );
}

#[test]
fn libraries_of_operators_are_named_for_the_loader_to_judge() {
    let config = accepted("model_operations { op_library_filename: [ \"/lib/a.so\", \"b.so\" ] }");
    assert_eq!(config.session.custom_op_libraries, ["/lib/a.so", "b.so"].map(std::path::PathBuf::from));
    refused(
        "model_operations { op_library_filename: \"\" }",
        &[
            "1:20: model_operations.op_library_filename: a custom operator library has no usable name (fix: name its file, or remove the entry)",
        ],
    );
}

#[test]
fn fields_without_effect_are_named_once_in_one_warning() {
    warned(
        "max_batch_size: 8
input [
  { name: \"x\" data_type: TYPE_FP32 dims: [ 3, 2, 2 ] format: FORMAT_NCHW },
  { name: \"y\" data_type: TYPE_FP32 dims: [ 3, 2, 2 ] format: FORMAT_NCHW }
]
output { name: \"z\" data_type: TYPE_FP32 dims: 1 }
optimization { cuda { graphs: true } input_pinned_memory { enable: true } graph { level: 1 } }
instance_group { passive: true profile: \"0\" }
dynamic_batching { preserve_ordering: true default_queue_policy { allow_timeout_override: true } }
parameters { key: \"gpu_mem_limit\" value { string_value: \"1\" } }
parameters { key: \"mine\" value { string_value: \"1\" } }",
        &[
            "3:54: accepted and ignored: input.format, instance_group.passive, instance_group.profile, optimization.cuda, optimization.input_pinned_memory, parameters.gpu_mem_limit",
        ],
    );
}
