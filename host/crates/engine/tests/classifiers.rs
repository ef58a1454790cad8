//! Classifiers whose scores are exported as maps, served as tensors.

mod common;

use common::{completed, config, declared, floats, instance, load, load_error, load_path, run, to_floats};
use model::{DataType, GraphOptimization, LoadedModel, ModelConfig};

fn labels(loaded: &LoadedModel, output: &str) -> Vec<String> {
    loaded.labels.get(output).map(|labels| labels.to_vec()).unwrap_or_default()
}

#[test]
fn scores_of_a_tree_are_served_in_the_order_of_its_labels() {
    let loaded = load("classifier_integers.onnx", &completed(0));
    assert_eq!(loaded.config.max_batch_size, 4, "it can batch");
    let spec = &loaded.signature.outputs[1];
    assert_eq!((&*spec.name, spec.data_type, &spec.shape[..]), ("output_probability", DataType::Fp32, &[-1, 3][..]));
    assert_eq!(labels(&loaded, "output_probability"), ["-3", "0", "70000"]);
    assert_eq!(loaded.labels.len(), 1);
    let rows = floats(&[3, 2], &[-1.0, 0.0, 1.0, 0.5, 1.0, 2.0]);
    let output = run(&mut *instance(loaded), &[rows]).expect("runs");
    assert_eq!(output.tensors[0].data()[..], [-3_i64, 0, 70000].map(i64::to_le_bytes).concat());
    assert_eq!(output.tensors[1].shape(), [3, 3]);
    let scores = [0.75, 0.125, 0.125, 0.25, 0.5, 0.25, 0.0, 0.375, 0.625];
    assert_eq!(to_floats(output.tensors[1].data()), scores);
}

#[test]
fn the_label_of_the_highest_score_is_the_models_own_answer() {
    for graph_optimization in [GraphOptimization::Disabled, GraphOptimization::All] {
        let mut config = config(8);
        config.session.graph_optimization = graph_optimization;
        let loaded = load("classifier_strings.onnx", &config);
        let names = labels(&loaded, "output_probability");
        assert_eq!(names, ["spam", "ham", "eggs and ham"]);
        let features: Vec<f32> = (0..32_u8).map(|i| f32::from(i % 11) - 5.0).collect();
        let output = run(&mut *instance(loaded), &[floats(&[8, 4], &features)]).expect("runs");
        let scores = to_floats(output.tensors[1].data());
        let best = scores.chunks(3).map(|row| {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
            let best = (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("three classes");
            names[best].as_str()
        });
        assert_eq!(common::strings(&best.collect::<Vec<_>>()), output.tensors[0].data()[..]);
    }
}

#[test]
fn scores_that_are_an_input_are_handed_through() {
    let loaded = load("zipmap.onnx", &config(4));
    assert_eq!(labels(&loaded, "probabilities"), ["no", "yes"]);
    let mut instance = instance(loaded);
    let first = run(&mut *instance, &[floats(&[2, 2], &[0.1, 0.9, 0.8, 0.2])]).expect("runs");
    run(&mut *instance, &[floats(&[2, 2], &[0.0; 4])]).expect("runs");
    assert_eq!(to_floats(first.tensors[1].data()), [0.1, 0.9, 0.8, 0.2]);
}

#[test]
fn scores_can_be_declared_or_left_out() {
    let with = |outputs| ModelConfig { outputs, ..config(4) };
    let loaded = load("zipmap.onnx", &with(vec![declared("probabilities", DataType::Fp32, &[2])]));
    assert_eq!(labels(&loaded, "probabilities"), ["no", "yes"]);
    let loaded = load("zipmap.onnx", &with(vec![declared("label", DataType::Int64, &[])]));
    assert!(loaded.labels.is_empty());
    let output = run(&mut *instance(loaded), &[floats(&[2, 2], &[0.1, 0.9, 0.8, 0.2])]).expect("runs");
    assert_eq!(&output.tensors[0].data()[..], [1_i64, 0].map(i64::to_le_bytes).concat());
    let wrong = load_error("zipmap.onnx", &with(vec![declared("probabilities", DataType::Fp32, &[3])])).to_string();
    assert!(wrong.contains("the model expects 2 dimensions (shape [-1,2])"), "{wrong}");
}

#[test]
fn weights_in_files_of_their_own_are_found_beside_the_model() {
    let loaded = load("classifier_external.onnx", &config(4));
    assert_eq!(labels(&loaded, "probabilities"), ["a", "b", "c", "d"]);
    let output = run(&mut *instance(loaded), &[floats(&[1, 4], &[1.0; 4])]).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [1.0, 2.0, 3.0, 4.0]);

    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("model.onnx");
    std::fs::copy(common::fixture("classifier_external.onnx"), &path).expect("copied");
    let error = load_path(&path, &config(4)).err().expect("the weights are missing").to_string();
    assert!(error.contains("external.bin"), "{error}");
}

#[test]
fn an_answer_declared_as_one_label_is_served_for_every_row() {
    let loaded = load("classifier_one_label.onnx", &completed(0));
    assert_eq!(loaded.config.max_batch_size, 4, "it can batch");
    let rows = floats(&[3, 2], &[-1.0, 0.0, 1.0, 0.5, 1.0, 2.0]);
    let output = run(&mut *instance(loaded), &[rows]).expect("runs");
    assert_eq!(output.tensors[0].shape(), [3, 1], "one label a row");
    assert_eq!(output.tensors[0].data()[..], [-3_i64, 0, 70000].map(i64::to_le_bytes).concat());
}
