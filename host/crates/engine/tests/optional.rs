//! Inputs that have values in the file: a request that leaves them out gets the file's, one that brings them its own, as
//! Python's ONNX Runtime gives them.

mod common;

use std::collections::BTreeSet;

use bytes::Bytes;
use common::{config, declared, instance, json, load, load_error, numbers, run_assembled, strings, to_floats};
use model::{Assembly, DataType, ModelConfig, Tensor, TensorConfig, WarmupData, WarmupInput, WarmupSample};

fn names(names: &[&str]) -> BTreeSet<std::sync::Arc<str>> {
    names.iter().map(|name| (*name).into()).collect()
}

fn inputs(optional: &[&str]) -> Vec<TensorConfig> {
    let of_name = |name: &str| match name {
        "x" => declared(name, DataType::Fp32, &[-1, 2]),
        "factor" => declared(name, DataType::Fp32, &[2]),
        "offset" => declared(name, DataType::Fp32, &[1]),
        _ => declared(name, DataType::Bytes, &[1]),
    };
    std::iter::once("x").chain(optional.iter().copied()).map(of_name).collect()
}

/// In another order than the file's.
fn affine() -> ModelConfig {
    let optional = ["unit", "factor", "offset"];
    ModelConfig { inputs: inputs(&optional), optional_inputs: names(&optional), ..config(0) }
}

fn tensor(name: &str, data_type: DataType, shape: &[u64], data: impl Into<Bytes>) -> Tensor {
    Tensor::new(name.into(), data_type, shape.to_vec(), data.into()).expect("fits")
}

fn floats(name: &str, shape: &[u64], values: &[f32]) -> Tensor {
    tensor(name, DataType::Fp32, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

#[test]
fn whatever_is_left_out_is_the_files_and_whatever_is_given_counts() {
    let loaded = load("affine.onnx", &affine());
    let (signature, assembly) = (loaded.signature.clone(), loaded.assembly.clone().expect("inputs may be left out"));
    assert_eq!(signature.inputs.iter().map(|spec| &*spec.name).collect::<Vec<_>>(), ["x", "factor", "offset", "unit"]);
    let (content, mut instance) = (json("affine.expected.json"), instance(loaded));
    for request in content["requests"].as_array().expect("requests") {
        let x = numbers(&request["x"]);
        let rows = x.len() as u64 / 2;
        let mut tensors = vec![floats("x", &[rows, 2], &x)];
        for name in request["given"].as_array().expect("names") {
            let name = name.as_str().expect("a name");
            let value = &content["values"][name];
            tensors.push(match name {
                "unit" => tensor(name, DataType::Bytes, &[1], strings(&[value[0].as_str().expect("a word")])),
                "offset" => floats(name, &[1], &numbers(value)),
                _ => floats(name, &[2], &numbers(value)),
            });
        }
        tensors.reverse();
        let checked = signature.check_inputs(tensors, 0).expect("fits");
        let answers = run_assembled(&mut *instance, &assembly, &[checked]).expect("runs");
        let [y, named] = &answers[0][..] else { panic!("two outputs") };
        assert_eq!((y.shape(), to_floats(y.data())), (&[rows, 2][..], numbers(&request["y"])), "{request}");
        assert_eq!(named.data()[..], strings(&[request["named"][0].as_str().expect("a word")]), "{request}");
    }
}

#[test]
fn a_model_whose_optional_inputs_are_not_declared_needs_none_of_them() {
    let loaded = load("affine.onnx", &ModelConfig { inputs: inputs(&[]), ..config(0) });
    assert_eq!((loaded.assembly.clone(), loaded.signature.optional_inputs), (None, 0));
    let output = common::run(&mut *instance(loaded), &[common::floats(&[1, 2], &[2.0, -1.5])]).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [6.25, 1.0]);
}

#[test]
fn a_warm_up_may_leave_them_out_too() {
    let input = |name: &str, dims: &[u64]| WarmupInput {
        name: name.into(),
        data_type: DataType::Fp32,
        dims: dims.to_vec(),
        data: WarmupData::Random,
    };
    for inputs in [vec![input("x", &[3, 2])], vec![input("factor", &[2]), input("x", &[3, 2])]] {
        let sample = WarmupSample { name: "w".to_owned(), batch_size: 1, inputs, count: 2 };
        assert!(matches!(
            load("affine.onnx", &ModelConfig { warmup: vec![sample], ..affine() }).assembly,
            Some(Assembly::Optional(_))
        ));
    }
    let sample = WarmupSample { name: "w".to_owned(), batch_size: 1, inputs: vec![input("factor", &[2])], count: 1 };
    assert_eq!(
        load_error("affine.onnx", &ModelConfig { warmup: vec![sample], ..affine() }).to_string(),
        "failed to run warmup sample 'w': expected number of inputs between 1 and 4 but got 1 inputs for model 'm'. Got \
         input(s) ['factor'], but missing required input(s) ['x']. Please provide all required input(s)."
    );
}

#[test]
fn what_the_file_cannot_leave_out_or_does_not_have_is_refused() {
    let with = |optional: &[&str]| ModelConfig { optional_inputs: names(optional), ..affine() };
    let other = |name: &str, data_type, dims: &[i64]| ModelConfig {
        inputs: vec![declared("x", DataType::Fp32, &[-1, 2]), declared(name, data_type, dims)],
        optional_inputs: names(&[name]),
        ..config(0)
    };
    let cases = [
        (
            with(&["x", "unit", "factor", "offset"]),
            "unable to load model 'm', configuration expects 0 inputs, model provides 1",
        ),
        (with(&["unit", "offset"]), "unable to load model 'm', configuration expects 2 inputs, model provides 1"),
        (
            other("scale", DataType::Fp32, &[2]),
            "unexpected inference input 'scale', allowed inputs are: x, factor, offset, unit",
        ),
        (
            other("factor", DataType::Fp64, &[2]),
            "unable to load model 'm', configuration expects datatype TYPE_FP64 for input 'factor', model provides TYPE_FP32",
        ),
        (
            other("factor", DataType::Fp32, &[3]),
            "model 'm', tensor 'factor': the model expects 1 dimensions (shape [2]) but the model configuration specifies \
             1 dimensions (shape [3])",
        ),
        (
            other("offset", DataType::Fp32, &[2]),
            "model 'm', scalar tensor 'offset', should only provide 1 in the model configuration when the model doesn't \
             support batching. Model configuration provided: [2]",
        ),
    ];
    for (config, expected) in cases {
        assert_eq!(load_error("affine.onnx", &config).to_string(), expected);
    }
}
