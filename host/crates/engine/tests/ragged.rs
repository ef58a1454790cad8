//! A ragged batch on a real model: what every kind of generated input tells is what Python's ONNX Runtime was told, and
//! each request gets its part of the batch.

mod common;

use bytes::Bytes;
use common::{config, declared, instance, json, load, load_error, numbers, run_assembled, to_floats};
use model::{
    DataType, GeneratedInput, GeneratedKind, ModelConfig, RaggedConfig, Tensor, WarmupData, WarmupInput, WarmupSample,
};

fn ragged() -> ModelConfig {
    use GeneratedKind::*;
    let generated = [
        ("ends", AccumulatedElementCountWithZero, DataType::Int32),
        ("counts", ElementCount, DataType::Fp32),
        ("accumulated", AccumulatedElementCount, DataType::Int32),
        ("longest", MaxElementCountAsShape, DataType::Int32),
        ("shapes", ItemShape, DataType::Int32),
        ("shapes_flat", ItemShapeFlatten, DataType::Fp32),
    ];
    let input = |(name, kind, data_type): (&str, _, _)| {
        (std::sync::Arc::from(name), GeneratedInput { kind, data_type, source: "values".into() })
    };
    ModelConfig {
        inputs: vec![declared("bias", DataType::Fp32, &[1]), declared("values", DataType::Fp32, &[-1])],
        outputs: vec![
            declared("doubled", DataType::Fp32, &[-1]),
            declared("total", DataType::Fp32, &[1]),
            declared("told", DataType::Fp32, &[5]),
        ],
        ragged: RaggedConfig {
            inputs: ["values".into()].into(),
            generated: generated.into_iter().map(input).collect(),
            scattered: [("doubled".into(), "values".into())].into(),
        },
        ..config(64)
    }
}

fn floats(name: &str, values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::new(name.into(), DataType::Fp32, vec![1, values.len() as u64], Bytes::from(data)).expect("fits")
}

#[test]
fn each_request_gets_its_part_of_the_batch() {
    let loaded = load("ragged.onnx", &ragged());
    let (signature, assembly) = (loaded.signature.clone(), loaded.assembly.clone().expect("ragged"));
    let names: Vec<_> = signature.inputs.iter().map(|spec| (&*spec.name, &spec.shape[..])).collect();
    assert_eq!(names, [("values", &[-1, -1][..]), ("bias", &[-1, 1])], "what is generated is nothing a client sends");
    let (content, mut instance) = (json("ragged.expected.json"), instance(loaded));
    let expected = content["requests"].as_array().expect("requests");
    let request = |request: &serde_json::Value| {
        let tensors = vec![floats("bias", &numbers(&request["bias"])), floats("values", &numbers(&request["values"]))];
        signature.check_inputs(tensors, 64).expect("fits")
    };
    let requests: Vec<_> = expected.iter().map(request).collect();
    let answers = run_assembled(&mut *instance, &assembly, &requests).expect("runs");
    for (answer, expected) in answers.iter().zip(expected) {
        for (tensor, name) in answer.iter().zip(["doubled", "total", "told"]) {
            assert_eq!((&**tensor.name(), to_floats(tensor.data())), (name, numbers(&expected[name])), "{expected}");
        }
        assert_eq!(answer[0].shape(), [1, expected["values"].as_array().expect("values").len() as u64]);
    }
    // Alone, what depends on nobody else is the same.
    for (request, expected) in requests.into_iter().zip(expected) {
        let answers = run_assembled(&mut *instance, &assembly, &[request]).expect("runs");
        assert_eq!(to_floats(answers[0][0].data()), numbers(&expected["doubled"]));
        assert_eq!(to_floats(answers[0][1].data()), numbers(&expected["total"]));
    }
}

#[test]
fn a_warm_up_is_a_request_like_any_other() {
    let sample = |inputs: &[(&str, &[u64])]| WarmupSample {
        name: "w".to_owned(),
        batch_size: 1,
        inputs: inputs
            .iter()
            .map(|&(name, dims)| WarmupInput {
                name: name.into(),
                data_type: DataType::Fp32,
                dims: dims.to_vec(),
                data: WarmupData::Random,
            })
            .collect(),
        count: 2,
    };
    load("ragged.onnx", &ModelConfig { warmup: vec![sample(&[("values", &[6]), ("bias", &[1])])], ..ragged() });
    let both = sample(&[("values", &[6]), ("counts", &[1])]);
    assert_eq!(
        load_error("ragged.onnx", &ModelConfig { warmup: vec![both], ..ragged() }).to_string(),
        "failed to run warmup sample 'w': unexpected inference input 'counts' for model 'm'"
    );
}

#[test]
fn a_kind_that_the_file_takes_otherwise_is_refused() {
    let mut config = ragged();
    if let Some(counts) = config.ragged.generated.get_mut("counts") {
        counts.data_type = DataType::Int32;
    }
    assert_eq!(
        load_error("ragged.onnx", &config).to_string(),
        "model 'm', batch input 'counts' is TYPE_INT32, but model provides TYPE_FP32; write data_type: TYPE_FP32"
    );
}
