use model::{Execution, ExecutionMode, MemoryArena, NonFinite, SessionConfig, SessionThreads};

use super::super::tests::{accepted, parameter, refused, warned};

/// The problem of a parameter, without its place.
fn problem(key: &str, value: &str) -> String {
    let problems = super::super::tests::parse(&parameter(key, value)).expect_err(key);
    assert_eq!(problems.len(), 1, "{key}");
    let field = format!("parameters[{key}].string_value: ");
    let shown = problems[0].to_string();
    shown.split_once(&field).unwrap_or_else(|| panic!("{shown}")).1.to_owned()
}

#[test]
fn parameters_of_onnx_runtime_make_the_session() {
    let session = |key: &str, value: &str| {
        let config = accepted(&parameter(key, value));
        assert!(config.parameters.is_empty(), "{key}");
        config.session
    };
    let default = SessionConfig::default;
    let threads = |intra_op: Option<u16>, inter_op: Option<u16>| SessionConfig {
        threads: SessionThreads { intra_op: intra_op.map(Into::into), inter_op: inter_op.map(Into::into) },
        ..default()
    };
    let arena = |memory_arena| SessionConfig { memory_arena, ..default() };
    let cases = [
        ("intra_op_thread_count", "0", threads(Some(0), None)),
        ("intra_op_thread_count", " 1024 ", threads(Some(1024), None)),
        ("inter_op_thread_count", "4", threads(None, Some(4))),
        ("execution_mode", "0", default()),
        ("execution_mode", "1", SessionConfig { execution_mode: ExecutionMode::Parallel, ..default() }),
        ("enable_mem_arena", "0", arena(MemoryArena::Off)),
        ("enable_mem_arena", "TRUE", default()),
        ("enable_mem_pattern", "false", SessionConfig { memory_pattern: false, ..default() }),
        ("enable_mem_pattern", "1", default()),
        ("memory.enable_memory_arena_shrinkage", "cpu:0", arena(MemoryArena::Shrunk)),
        (
            "session.use_device_allocator_for_initializers",
            "1",
            SessionConfig { initializers_outside_arena: true, ..default() },
        ),
    ];
    for (key, value, expected) in cases {
        assert_eq!(session(key, value), expected, "{key} {value}");
    }
}

#[test]
fn values_of_parameters_are_checked() {
    const WHOLE: &str = "it must be a whole number from 0 to 1024 (fix: write a number in quotes; 0 means as many as the cores that the server may use)";
    const FLAG: &str = "it must be 1 or true, or 0 or false (fix: write \"1\" or \"0\")";
    const SHRINK: &str = "it must be cpu:0, the only device with an arena here (fix: write \"cpu:0\")";
    const ARENA: &str = "memory.enable_memory_arena_shrinkage";
    const DEVICE: &str = "session.use_device_allocator_for_initializers";
    let cases = [
        ("intra_op_thread_count", "many", format!("'intra_op_thread_count' is 'many'; {WHOLE}")),
        ("intra_op_thread_count", "", format!("'intra_op_thread_count' is ''; {WHOLE}")),
        ("inter_op_thread_count", "1025", format!("'inter_op_thread_count' is '1025'; {WHOLE}")),
        ("inter_op_thread_count", "-1", format!("'inter_op_thread_count' is '-1'; {WHOLE}")),
        (
            "execution_mode",
            "2",
            "'execution_mode' is '2'; it must be 0 (sequential) or 1 (parallel) (fix: write \"0\" or \"1\")".to_owned(),
        ),
        ("enable_mem_arena", "2", format!("'enable_mem_arena' is '2'; {FLAG}")),
        ("enable_mem_pattern", "", format!("'enable_mem_pattern' is ''; {FLAG}")),
        (DEVICE, "yes", format!("'{DEVICE}' is 'yes'; {FLAG}")),
        (ARENA, "gpu:0", format!("'{ARENA}' is 'gpu:0'; {SHRINK}")),
        (ARENA, "cpu:0;tpu:0", format!("'{ARENA}' is 'cpu:0;tpu:0'; {SHRINK}")),
        (ARENA, "", format!("'{ARENA}' is ''; {SHRINK}")),
        (ARENA, "cpu", format!("'{ARENA}' is 'cpu'; {SHRINK}")),
        (
            "TRITON_BATCH_STRATEGY_PATH",
            "x.so",
            "batching strategies are native code from the repository and are never loaded (fix: remove the parameter)"
                .to_owned(),
        ),
    ];
    for (key, value, expected) in cases {
        assert_eq!(problem(key, value), expected);
    }
    refused(
        &format!("{} {}", parameter("enable_mem_arena", "0"), parameter(ARENA, "cpu:0")),
        &[
            "1:135: parameters[memory.enable_memory_arena_shrinkage].string_value: 'memory.enable_memory_arena_shrinkage' is set and 'enable_mem_arena' is off, so there is no arena to shrink (fix: remove one of the two)",
        ],
    );
}

#[test]
fn arenas_of_gpus_are_named_and_left_out() {
    let text = parameter("memory.enable_memory_arena_shrinkage", "cpu:0;gpu:0;gpu:1");
    warned(
        &text,
        &[
            "1:67: parameters[memory.enable_memory_arena_shrinkage].string_value: gpu:0, gpu:1 ignored: only cpu:0 has an arena here",
        ],
    );
    let (config, _) = super::super::tests::parse(&text).expect("a warning");
    assert_eq!(config.session.memory_arena, MemoryArena::Shrunk);
}

#[test]
fn session_options_are_passed_by_name() {
    let config = accepted(&format!(
        "{} {}",
        parameter("ort.session.session.intra_op.allow_spinning", "0"),
        parameter("ort.session.optimization.enable_gelu_approximation", "1")
    ));
    let entries: Vec<_> = config.session.entries.iter().collect();
    assert_eq!(entries, [("optimization.enable_gelu_approximation", "1"), ("session.intra_op.allow_spinning", "0")]);
    let cases = [
        ("ort.session.", "the session option after 'ort.session.' has no name (fix: remove the parameter)"),
        (
            "ort.session.session.enable_profiling",
            "the session option 'session.enable_profiling' writes a file, so a model repository cannot set it (fix: remove the parameter)",
        ),
        (
            "ort.session.ep.cuda.use_arena",
            "the session option 'ep.cuda.use_arena' hands options to an execution provider, which can load libraries and write files, so a model repository cannot set it (fix: remove the parameter)",
        ),
    ];
    for (key, expected) in cases {
        assert_eq!(problem(key, "1"), expected);
    }
}

#[test]
fn airlocks_own_parameters_are_known() {
    let executions = [("auto", Execution::Auto), ("inline", Execution::Inline), ("worker", Execution::Worker)];
    for (value, execution) in executions {
        assert_eq!(accepted(&parameter("airlock.execution", value)).execution, execution);
    }
    assert_eq!(
        problem("airlock.execution", "workers"),
        "'airlock.execution' is 'workers'; it must be auto, inline or worker (fix: did you mean 'worker'?)"
    );
    for (value, non_finite) in [("count", NonFinite::Count), ("refuse", NonFinite::Refuse)] {
        assert_eq!(accepted(&parameter("airlock.non_finite", value)).non_finite, non_finite);
    }
    assert_eq!(
        problem("airlock.non_finite", "refused"),
        "'airlock.non_finite' is 'refused'; it must be count or refuse (fix: did you mean 'refuse'?)"
    );
    refused(
        &parameter("airlock.excution", "auto"),
        &[
            "1:1: parameters[airlock.excution]: unknown parameter 'airlock.excution' (fix: did you mean 'airlock.execution'?)",
        ],
    );
}

#[test]
fn deprecated_settings_of_gpus_are_named_and_others_kept() {
    let deprecated = ["arena_extend_strategy", "cudnn_conv_algo_search", "do_copy_in_default_stream", "gpu_mem_limit"];
    let text: String = deprecated.iter().map(|key| parameter(key, "1")).collect();
    warned(
        &text,
        &[
            "1:1: accepted and ignored: parameters.arena_extend_strategy, parameters.cudnn_conv_algo_search, parameters.do_copy_in_default_stream, parameters.gpu_mem_limit",
        ],
    );
    let config = accepted(&parameter("threshold", "0.5"));
    assert_eq!(config.parameters.get("threshold").map(String::as_str), Some("0.5"));
}
