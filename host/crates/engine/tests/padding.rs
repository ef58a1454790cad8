//! What a padded model serves: requests see it without the inputs that the server fills in, and a batch laid out and
//! filled in by the padding's rules gives each request what Python's ONNX Runtime gave it alone.

mod common;

use bytes::Bytes;
use common::{completed, fixture, instance, load, load_error, run, to_floats};
use model::{
    Assembly, CutOutput, DataType, FilledInput, FilledKind, ModelConfig, PaddedInput, PaddingConfig, Signature, Tensor,
};

fn padding() -> PaddingConfig {
    let length = || "length".into();
    let filled = |kind| FilledInput { length: length(), kind };
    PaddingConfig {
        inputs: [("tokens".into(), PaddedInput { length: length(), axis: None, value: Some("55".to_owned()) })].into(),
        filled: [("mask".into(), filled(FilledKind::Mask)), ("count".into(), filled(FilledKind::Lengths))].into(),
        outputs: [("each".into(), CutOutput { length: length(), axis: None })].into(),
        buckets: [].into(),
    }
}

fn names(signature: &Signature) -> Vec<&str> {
    signature.inputs.iter().map(|spec| &*spec.name).collect()
}

fn tensor(data_type: DataType, shape: &[u64], data: Vec<u8>) -> Tensor {
    Tensor::new("t".into(), data_type, shape.to_vec(), Bytes::from(data)).expect("fits")
}

#[test]
fn inputs_that_the_server_fills_in_are_not_served_and_the_model_still_gets_them() {
    let text = std::fs::read_to_string(fixture("masked_mean.expected.json")).expect("the fixture is there");
    let content: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let loaded = load("masked_mean.onnx", &ModelConfig { padding: padding(), ..completed(8) });
    assert_eq!(names(&loaded.signature), ["tokens"]);
    let Some(Assembly::Padded(padded)) = loaded.assembly.clone() else { panic!("it pads") };
    assert_eq!(padded.inputs().len(), 3, "as the model has");

    let mut instance = instance(loaded);
    for request in content["requests"].as_array().expect("requests") {
        let row = request["tokens"][0].as_array().expect("a row");
        let (length, width) = (row.len(), row.len() + 3);
        let token = |at: usize| row.get(at).map_or(55, |token| token.as_i64().expect("a number"));
        let tokens = (0..width).flat_map(|at| token(at).to_le_bytes()).collect();
        let mask = (0..width).flat_map(|at| i64::from(at < length).to_le_bytes()).collect();
        let count = i32::try_from(length).expect("small").to_le_bytes().to_vec();
        let shape = [1, width as u64];
        let output = run(
            &mut *instance,
            &[
                tensor(DataType::Int64, &shape, tokens),
                tensor(DataType::Int64, &shape, mask),
                tensor(DataType::Int32, &[1, 1], count),
            ],
        )
        .expect("runs");
        let each = to_floats(output.tensors[0].cut(1, length as u64).data());
        let flat = |value: &serde_json::Value| -> Vec<f32> {
            let pair = |pair: &serde_json::Value| serde_json::from_value::<Vec<f32>>(pair.clone()).expect("numbers");
            value.as_array().expect("a list").iter().flat_map(pair).collect()
        };
        assert_eq!(each, flat(&request["each"][0]));
        assert_eq!(to_floats(output.tensors[1].data()), flat(&serde_json::json!([request["mean"][0]])));
    }
}

#[test]
fn padding_that_does_not_fit_the_file_is_a_load_error() {
    let mut padding = padding();
    padding.outputs.insert("mean".into(), CutOutput { length: "length".into(), axis: None });
    padding.filled.insert("masks".into(), FilledInput { length: "length".into(), kind: FilledKind::Mask });
    let error = load_error("masked_mean.onnx", &ModelConfig { padding, ..completed(8) });
    assert_eq!(
        error.to_string(),
        "model 'm', parameter 'airlock.padding.mask.masks': the model has no input 'masks'; it has 'tokens', 'mask', \
         'count'; name one of these; model 'm', parameter 'airlock.padding.output.mean': output 'mean' of shape [-1,2] has \
         0 free dimensions other than the batch's; remove the parameter"
    );
}
