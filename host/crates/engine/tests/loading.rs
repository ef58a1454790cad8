//! Loading and its refusals, with real ONNX Runtime.

mod common;

use std::num::NonZeroUsize;

use common::{completed, config, declared, fixture, floats, instance, load, load_error, load_path, run, to_floats};
use model::{DataType, InstanceGroup, LoadError, ModelConfig, TensorConfig, WarmupData, WarmupInput, WarmupSample};

#[test]
fn files_that_are_no_models_are_refused_with_their_path() {
    let folder = tempfile::tempdir().expect("folder");
    let model = std::fs::read(fixture("fraud_mlp.onnx")).expect("readable");
    let cases: [(&str, &[u8]); 4] =
        [("empty", b""), ("text", b"<html>404</html>"), ("cut", &model[..model.len() / 2]), ("zeros", &[0; 64])];
    for (name, content) in cases {
        let path = folder.path().join(format!("{name}.onnx"));
        std::fs::write(&path, content).expect("written");
        let error = load_path(&path, &config(0)).err().unwrap_or_else(|| panic!("{name} should not load"));
        assert!(matches!(error, LoadError::File { .. }), "{name}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(&path.display().to_string()) && text.contains("copy the file again"), "{text}");
    }
    let others = [
        (folder.path().join("absent.onnx"), "must hold its model under this name"),
        (folder.path().to_path_buf(), "not a regular file"),
    ];
    for (path, expected) in others {
        let error = load_path(&path, &config(0)).err().expect("no file");
        let text = error.to_string();
        assert!(text.starts_with(&format!("loading {}: ", path.display())) && text.contains(expected), "{text}");
    }
}

#[test]
fn what_no_request_can_carry_is_refused_with_advice() {
    let cases = [
        (
            "zipmap_in_function.onnx",
            "output 'probabilities' is a sequence of maps",
            "with options={id(model): {\"zipmap\": False}} from skl2onnx, with zipmap=False from onnxmltools",
        ),
        ("sequence.onnx", "output 'pieces' is a sequence", "ConcatFromSequence"),
        ("sequence_input.onnx", "input 'pieces' is a sequence", "ConcatFromSequence"),
        ("optional_input.onnx", "input 'x' is an optional", "OptionalGetElement"),
        ("float8.onnx", "output 'y' is a tensor of type", "Cast"),
    ];
    for (file, what, advice) in cases {
        let error = load_error(file, &config(0));
        assert!(matches!(error, LoadError::Unsupported(_)), "{file}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(advice), "{text}");
    }
}

#[test]
fn every_disagreement_with_the_configuration_is_told_at_once() {
    let wrong = ModelConfig {
        inputs: vec![declared("a", DataType::Fp64, &[3])],
        outputs: vec![declared("total", DataType::Fp32, &[2])],
        ..config(4)
    };
    let LoadError::Mismatch { problems, .. } = load_error("add.onnx", &wrong) else { panic!("a mismatch") };
    assert_eq!(
        problems,
        [
            "unable to load model 'm', configuration expects 1 inputs, model provides 2",
            "unable to load model 'm', configuration expects datatype TYPE_FP64 for input 'a', model provides TYPE_FP32",
            "model 'm', tensor 'a': the model expects 2 dimensions (shape [-1,2]) but the model configuration specifies 2 \
             dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, \
             making complete shape [-1,3])",
            "unexpected inference output 'total', allowed outputs are: sum",
        ]
    );
}

#[test]
fn a_model_of_fixed_batch_size_loads_without_batching_only() {
    let text = load_error("fixed_batch.onnx", &config(4)).to_string();
    assert!(text.contains("the first dimension must be -1; but shape expected by the model is [1,4]"), "{text}");
    let output = run(&mut *instance(load("fixed_batch.onnx", &config(0))), &[floats(&[1, 4], &[-1.0, 0.5, 2.0, -3.0])])
        .expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [0.0, 0.5, 2.0, 0.0]);
}

#[test]
fn what_is_not_declared_is_completed_from_the_file() {
    let loaded = load("fraud_mlp.onnx", &completed(0));
    assert_eq!(loaded.config.max_batch_size, 4, "it can batch");
    assert!(loaded.config.batching.is_dynamic);
    let declarations = |tensors: &[TensorConfig]| -> Vec<(String, Vec<i64>)> {
        tensors.iter().map(|tensor| (tensor.name.to_string(), tensor.dims.clone())).collect()
    };
    assert_eq!(declarations(&loaded.config.inputs), [("features".to_owned(), vec![8])]);
    let outputs = [("probability".to_owned(), vec![1]), ("logit".to_owned(), vec![1])];
    assert_eq!(declarations(&loaded.config.outputs), outputs);

    assert_eq!(load("fixed_batch.onnx", &completed(0)).config.max_batch_size, 0, "it cannot batch");
    let text = load_error("fixed_batch.onnx", &completed(8)).to_string();
    let expected =
        "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified";
    assert_eq!(text, expected);
    let text = load_error("zipmap_in_function.onnx", &completed(0)).to_string();
    assert!(text.contains("is a sequence of maps"), "what cannot be completed is told as it is: {text}");
}

#[test]
fn a_tensor_without_dimensions_but_the_batchs_is_served_as_one_element_a_row() {
    let loaded = load("rank_one.onnx", &completed(0));
    let shapes = |specs: &[model::TensorSpec]| specs.iter().map(|spec| spec.shape.clone()).collect::<Vec<_>>();
    assert_eq!(shapes(&loaded.signature.inputs), [[-1, 1]]);
    let mut instance = instance(loaded);
    let output = run(&mut *instance, &[floats(&[3, 1], &[1.0, 2.0, 3.0])]).expect("runs");
    assert_eq!(output.tensors[0].shape(), [3, 1]);
}

#[test]
fn a_replaced_file_changes_nothing_that_is_loaded() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("model.onnx");
    std::fs::copy(fixture("fraud_mlp.onnx"), &path).expect("copied");
    let mut instance = instance(load_path(&path, &config(4)).expect("loads"));
    let input = [floats(&[1, 8], &[0.25; 8])];
    let before = run(&mut *instance, &input).expect("runs");
    // In place, which a mapped file would notice.
    let len = std::fs::metadata(&path).expect("there").len();
    std::fs::write(&path, vec![0xff; usize::try_from(len).expect("small")]).expect("overwritten");
    assert_eq!(run(&mut *instance, &input).expect("runs").tensors, before.tensors);
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(run(&mut *instance, &input).expect("runs").tensors, before.tensors);
}

fn warmup(name: &str, data_type: DataType, dims: &[u64], data: WarmupData) -> WarmupSample {
    let input = WarmupInput { name: name.into(), data_type, dims: dims.to_vec(), data };
    WarmupSample { name: "first requests".to_owned(), batch_size: 2, inputs: vec![input], count: 3 }
}

fn given(value: i64) -> WarmupData {
    WarmupData::Given(bytes::Bytes::from(value.to_le_bytes().to_vec()))
}

#[test]
fn warm_up_runs_on_every_instance_and_its_failure_refuses_the_version() {
    let with = |sample: WarmupSample| ModelConfig {
        warmup: vec![sample],
        instance_groups: vec![InstanceGroup {
            count: NonZeroUsize::new(2).expect("not zero"),
            ..InstanceGroup::named("m_0")
        }],
        ..config(4)
    };
    for data in [WarmupData::Zero, given(3)] {
        let loaded = load("gather.onnx", &with(warmup("index", DataType::Int64, &[1], data)));
        assert_eq!(loaded.instances.len(), 2);
        for mut instance in loaded.instances {
            let index = common::tensor(DataType::Int64, &[1, 1], 1_i64.to_le_bytes().to_vec());
            let output = run(&mut *instance, &[index]).expect("runs");
            assert_eq!(to_floats(output.tensors[0].data()), [2.0, 3.0], "nothing of the warm-up is left in the slot");
        }
    }
    for data_type in [DataType::Fp32, DataType::Bytes] {
        let file = format!("identity_{}.onnx", data_type.v2_name().to_lowercase());
        load(&file, &with(warmup("x", data_type, &[5], WarmupData::Random)));
    }
    let refused = [
        (warmup("index", DataType::Int64, &[1], given(4)), "indices"),
        (warmup("index", DataType::Int32, &[1], WarmupData::Zero), "data-type is 'INT32'"),
        (warmup("index", DataType::Int64, &[2], WarmupData::Zero), "unexpected shape for input 'index'"),
        (warmup("other", DataType::Int64, &[1], WarmupData::Zero), "unexpected inference input 'other'"),
        (WarmupSample { batch_size: 5, ..warmup("index", DataType::Int64, &[1], WarmupData::Zero) }, "must be <= 4"),
    ];
    for (sample, expected) in refused {
        let error = load_error("gather.onnx", &with(sample));
        assert!(matches!(error, LoadError::Warmup { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.starts_with("failed to run warmup sample 'first requests': ") && text.contains(expected),
            "{text}"
        );
    }
}

#[test]
fn a_warm_up_brings_every_input_of_the_model() {
    let input = |name: &str, data| WarmupInput { name: name.into(), data_type: DataType::Fp32, dims: vec![2], data };
    let with = |inputs| {
        let sample = WarmupSample { name: "both".to_owned(), batch_size: 3, inputs, count: 2 };
        ModelConfig { warmup: vec![sample], ..config(4) }
    };
    load("add.onnx", &with(vec![input("b", WarmupData::Random), input("a", WarmupData::Zero)]));
    let text = load_error("add.onnx", &with(vec![input("b", WarmupData::Zero)])).to_string();
    assert_eq!(
        text,
        "failed to run warmup sample 'both': expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['b'], but \
         missing required input(s) ['a']. Please provide all required input(s)."
    );
    let strings = WarmupData::Given(common::strings(&["one", "", "three"]).into());
    load("strings.onnx", &ModelConfig { warmup: vec![warmup("x", DataType::Bytes, &[3], strings)], ..config(4) });
}
