//! Batches through real ONNX Runtime: right answers from several threads at once, outputs that outlive everything, and
//! failures that stay with their batch.

mod common;

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;

use common::{config, declared, fixture, floats, instance, load, load_path, run, run_rows, submit, tensor, to_floats};
use model::{
    BatchLayout, DataType, EngineError, ExecutionMode, GraphOptimization, InstanceGroup, MemoryArena, ModelConfig,
    SessionConfig, SessionThreads,
};

struct Expected {
    features: Vec<Vec<f32>>,
    probability: Vec<f32>,
    logit: Vec<f32>,
}

/// What onnxruntime answered in Python; see make_models.py.
fn fraud_mlp_expected() -> Expected {
    let text = std::fs::read_to_string(fixture("fraud_mlp.expected.json")).expect("the fixture is there");
    let content: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let list = |value: &serde_json::Value| -> Vec<f32> {
        let numbers = value.as_array().expect("a list").iter();
        numbers.map(|number| number.as_f64().expect("a number") as f32).collect()
    };
    Expected {
        features: content["features"].as_array().expect("rows").iter().map(list).collect(),
        probability: list(&content["probability"]),
        logit: list(&content["logit"]),
    }
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-6, "{got} against {expected}");
    }
}

#[test]
fn answers_are_those_of_onnx_runtime_in_python() {
    let expected = fraud_mlp_expected();
    let levels =
        [GraphOptimization::Disabled, GraphOptimization::Basic, GraphOptimization::Extended, GraphOptimization::All];
    for graph_optimization in levels {
        let session = SessionConfig {
            graph_optimization,
            threads: SessionThreads { intra_op: Some(2.into()), inter_op: Some(0.into()) },
            execution_mode: ExecutionMode::Parallel,
            memory_arena: MemoryArena::Off,
            memory_pattern: false,
            ..SessionConfig::default()
        };
        let config = ModelConfig { session, ..config(64) };
        let output =
            run(&mut *instance(load("fraud_mlp.onnx", &config)), &[floats(&[64, 8], &expected.features.concat())])
                .expect("runs");
        assert_close(&to_floats(output.tensors[0].data()), &expected.probability);
        assert_close(&to_floats(output.tensors[1].data()), &expected.logit);
    }
}

#[test]
fn instances_of_one_session_run_side_by_side() {
    let expected = fraud_mlp_expected();
    let four = InstanceGroup { count: NonZeroUsize::new(4).expect("not zero"), ..InstanceGroup::named("m_0") };
    let config = ModelConfig { instance_groups: vec![four], ..config(64) };
    let loaded = load("fraud_mlp.onnx", &config);
    assert_eq!(loaded.instances.len(), 4);
    std::thread::scope(|scope| {
        for (thread, mut instance) in loaded.instances.into_iter().enumerate() {
            let expected = &expected;
            scope.spawn(move || {
                for round in 0..500 {
                    let first = (thread * 17 + round * 5) % 56;
                    let rows = 1 + (thread + round) % 8;
                    let features = expected.features[first..first + rows].concat();
                    let output = run(&mut *instance, &[floats(&[rows as u64, 8], &features)]).expect("runs");
                    assert_close(&to_floats(output.tensors[0].data()), &expected.probability[first..first + rows]);
                }
            });
        }
    });
}

#[test]
fn several_inputs_are_told_apart() {
    let mut instance = instance(load("add.onnx", &config(4)));
    let inputs = [floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), floats(&[2, 2], &[10.0, 20.0, 30.0, 40.0])];
    let output = run(&mut *instance, &inputs).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [11.0, 22.0, 33.0, 44.0]);
}

#[test]
fn outputs_are_views_that_outlive_instance_and_session() {
    let mut first = instance(load("identity_fp32.onnx", &config(4)));
    let output = run(&mut *first, &[floats(&[2, 1], &[1.0, 2.0])]).expect("runs");
    let kept = output.tensors[0].split_rows(&[1, 1]);
    drop(output);
    for value in 0..20 {
        run(&mut *first, &[floats(&[2, 1], &[value as f32, 9.0])]).expect("runs");
    }
    drop(first);
    assert_eq!(to_floats(kept[0].data()), [1.0]);
    assert_eq!(to_floats(kept[1].data()), [2.0]);

    let loaded = load("constant_output.onnx", &config(0));
    let output = run(&mut *instance(loaded), &[floats(&[2], &[1.0, 2.0])]).expect("runs");
    assert_eq!(to_floats(output.tensors[1].data()), [1.0, 2.0, 3.0], "a weight as an output lives on too");
}

#[test]
fn an_input_handed_through_is_not_overwritten_by_the_next_batch() {
    let mut instance = instance(load("passthrough.onnx", &config(4)));
    let first = run(&mut *instance, &[floats(&[1, 2], &[1.0, 2.0])]).expect("runs");
    let second = run(&mut *instance, &[floats(&[1, 2], &[3.0, 4.0])]).expect("runs");
    assert_eq!(to_floats(first.tensors[1].data()), [1.0, 2.0]);
    assert_eq!(to_floats(first.tensors[0].data()), [-1.0, -2.0]);
    assert_eq!(to_floats(second.tensors[1].data()), [3.0, 4.0]);
}

#[test]
fn a_failing_batch_says_why_and_the_next_one_runs() {
    let mut instance = instance(load("gather.onnx", &config(4)));
    let index = |value: i64| tensor(DataType::Int64, &[1, 1], value.to_le_bytes().to_vec());
    for _ in 0..3 {
        let error = run(&mut *instance, &[index(99)]).expect_err("out of range");
        assert!(
            matches!(&error, EngineError::Run(message) if message.contains("indices") && message.contains("99")),
            "{error}"
        );
        let output = run(&mut *instance, &[index(2)]).expect("runs");
        assert_eq!(to_floats(output.tensors[0].data()), [4.0, 5.0]);
    }
}

#[test]
fn outputs_that_are_not_what_the_signature_says_are_refused() {
    let mut instance = instance(load("one_row.onnx", &config(4)));
    let error = run_rows(&mut *instance, &[floats(&[3, 2], &[0.0; 6])], Some(3)).expect_err("one row for three");
    assert_eq!(
        error.to_string(),
        "output 'y' of the model is FP32 [1,2], but its signature says FP32 [-1,2] with 3 rows"
    );
    run_rows(&mut *instance, &[floats(&[1, 2], &[0.0; 2])], Some(1)).expect("one row for one");

    let stricter = ModelConfig { outputs: vec![declared("y", DataType::Fp32, &[3])], ..config(4) };
    let mut instance = common::instance(load("identity_fp32.onnx", &stricter));
    run(&mut *instance, &[floats(&[1, 3], &[0.0; 3])]).expect("as declared");
    let error = run(&mut *instance, &[floats(&[1, 2], &[0.0; 2])]).expect_err("not as declared");
    assert!(matches!(error, EngineError::Output { .. }), "{error}");
}

#[test]
fn only_declared_outputs_are_computed_and_served() {
    let narrowed = ModelConfig { outputs: vec![declared("logit", DataType::Fp32, &[1])], ..config(64) };
    let loaded = load("fraud_mlp.onnx", &narrowed);
    assert_eq!(loaded.signature.outputs.len(), 1);
    let expected = fraud_mlp_expected();
    let output = run(&mut *instance(loaded), &[floats(&[64, 8], &expected.features.concat())]).expect("runs");
    assert_eq!(output.tensors.len(), 1);
    assert_close(&to_floats(output.tensors[0].data()), &expected.logit);
}

#[test]
fn an_output_of_unknown_rank_is_served_as_declared() {
    let text = common::load_error("unranked.onnx", &config(0)).to_string();
    assert!(text.contains("output 'y'") && text.contains("declare its dims"), "{text}");
    let declares = ModelConfig { outputs: vec![declared("y", DataType::Fp32, &[-1, 2])], ..config(0) };
    let mut instance = instance(load("unranked.onnx", &declares));
    let shape = |dims: [i64; 2]| tensor(DataType::Int64, &[2], dims.map(i64::to_le_bytes).concat());
    let values = floats(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let output = run(&mut *instance, &[values.clone(), shape([2, 2])]).expect("as declared");
    assert_eq!(output.tensors[0].shape(), [2, 2]);
    let error = run(&mut *instance, &[values, shape([1, 4])]).expect_err("not as declared");
    assert!(matches!(error, EngineError::Output { .. }), "{error}");
}

#[test]
fn a_slot_that_was_not_submitted_is_written_anew() {
    let mut instance = instance(load("identity_fp32.onnx", &config(4)));
    let layout = BatchLayout { shapes: vec![vec![2, 1]], rows: Some(2), ..BatchLayout::default() };
    instance.prepare(&layout).expect("memory").append(0, &7.0_f32.to_le_bytes());
    let output = run(&mut *instance, &[floats(&[2, 1], &[1.0, 2.0])]).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [1.0, 2.0]);
}

#[test]
fn more_rows_than_the_layout_has_are_a_bug_of_the_caller() {
    for (file, row) in [("identity_uint8.onnx", vec![1]), ("identity_bytes.onnx", common::strings(&["a"]))] {
        let mut instance = instance(load(file, &config(4)));
        let slot = instance
            .prepare(&BatchLayout { shapes: vec![vec![1, 1]], rows: Some(1), ..BatchLayout::default() })
            .expect("memory");
        slot.append(0, &row);
        let appended = std::panic::catch_unwind(AssertUnwindSafe(|| slot.append(0, &row)));
        assert!(appended.is_err(), "{file}");
        submit(&mut *instance).expect("what was written is whole");
    }
}

#[test]
fn external_weights_are_used() {
    let mut instance = instance(load_path(&fixture("external.onnx"), &config(4)).expect("loads"));
    let output = run(&mut *instance, &[floats(&[1, 4], &[0.0; 4])]).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [1.0, 2.0, 3.0, 4.0]);
}
