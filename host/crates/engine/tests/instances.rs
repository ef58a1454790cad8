//! Instances that are added to a version which serves already.

mod common;

use common::{config, fixture, floats, load, load_path, run, to_floats};
use model::{DataType, InstanceGroup, LoadError, ModelConfig, WarmupData, WarmupInput, WarmupSample};

#[test]
fn a_factory_makes_instances_of_the_loaded_session() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("model.onnx");
    std::fs::copy(fixture("fraud_mlp.onnx"), &path).expect("copied");
    let loaded = load_path(&path, &config(4)).expect("loads");
    std::fs::remove_file(&path).expect("removed: nothing is loaded again");
    let input = [floats(&[2, 8], &[0.25; 16])];
    let mut first = loaded.instances;
    let mut added = loaded.factory.make().unwrap_or_else(|error| panic!("{error}"));
    let expected = run(&mut *first[0], &input).expect("runs").tensors;
    assert_eq!(run(&mut *added, &input).expect("runs").tensors, expected);

    drop((first, loaded.factory));
    assert_eq!(run(&mut *added, &input).expect("runs alone").tensors, expected);
}

#[test]
fn instances_are_those_of_all_groups() {
    let group =
        |count: usize| InstanceGroup { count: count.try_into().expect("not zero"), ..InstanceGroup::named("g") };
    let config = ModelConfig { instance_groups: vec![group(2), group(3)], ..config(4) };
    assert_eq!(load("add.onnx", &config).instances.len(), 5);
}

#[test]
fn an_added_instance_is_warmed_up_as_the_first_were() {
    // The model has four rows to pick from.
    let index = |value: i64| WarmupSample {
        name: "index".to_owned(),
        batch_size: 1,
        inputs: vec![WarmupInput {
            name: "index".into(),
            data_type: DataType::Int64,
            dims: vec![1],
            data: WarmupData::Given(value.to_le_bytes().to_vec().into()),
        }],
        count: 1,
    };
    let loaded = load("gather.onnx", &ModelConfig { warmup: vec![index(3)], ..config(4) });
    let mut added = loaded.factory.make().unwrap_or_else(|error| panic!("{error}"));
    let input = common::tensor(DataType::Int64, &[1, 1], 2_i64.to_le_bytes().to_vec());
    let output = run(&mut *added, &[input]).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [4.0, 5.0], "nothing of the warm-up is left in it");
    let error = common::load_error("gather.onnx", &ModelConfig { warmup: vec![index(4)], ..config(4) });
    assert!(matches!(error, LoadError::Warmup { .. }), "{error:?}");
}
