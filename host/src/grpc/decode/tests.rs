//! Requests that are taken, and the text of every refusal.

mod shared_memory;

use model::TensorSpec;

use super::super::proto::inference::InferTensorContents;
use super::*;
use crate::shared_memory::DISABLED;

fn signature() -> Signature {
    let spec = |name: &str, data_type| TensorSpec { name: name.into(), data_type, shape: vec![-1, 2] };
    let inputs = vec![spec("x", DataType::Fp32), spec("s", DataType::Bytes)];
    Signature { inputs, outputs: vec![spec("y", DataType::Fp32)], ..Signature::default() }
}

fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    let (name, datatype, shape) = (name.to_owned(), datatype.to_owned(), shape.to_vec());
    InferInputTensor { name, datatype, shape, ..InferInputTensor::default() }
}

fn request(inputs: Vec<InferInputTensor>, raw: Vec<&'static [u8]>) -> ModelInferRequest {
    let raw_input_contents = raw.into_iter().map(Bytes::from_static).collect();
    ModelInferRequest { inputs, raw_input_contents, ..ModelInferRequest::default() }
}

fn decode(message: ModelInferRequest) -> Result<InferRequest, String> {
    let signature = signature();
    let context = DecodeContext { model: "m", signature: &signature, shared_memory: &DISABLED };
    decode_infer(message, &context).map_err(|failure| failure.text)
}

#[test]
fn raw_contents_are_not_copied() {
    let raw = Bytes::from(vec![0; 8]);
    let address = raw.as_ptr();
    let mut message = request(vec![input("x", "FP32", &[1, 2])], Vec::new());
    message.raw_input_contents = vec![raw];
    let request = decode(message).expect("a request");
    assert_eq!(request.inputs[0].data().as_ptr(), address);
}

#[test]
fn raw_contents_go_to_inputs_in_order_and_a_surplus_is_ignored() {
    let inputs = vec![input("s", "BYTES", &[1, 2]), input("x", "FP32", &[1, 2])];
    let request = decode(request(inputs, vec![b"\x01\0\0\0a\0\0\0\0", &[0; 8], b"surplus"])).expect("a request");
    assert_eq!(request.inputs.iter().map(|tensor| &**tensor.name()).collect::<Vec<_>>(), ["s", "x"]);
}

#[test]
fn refusals_have_tritons_texts() {
    let id = "[request id: <id_unknown>] ";
    let strings = |raw| request(vec![input("s", "BYTES", &[1, 2])], vec![raw]);
    let x = |shape: &[i64]| input("x", "FP32", shape);
    let mut both = request(vec![x(&[1, 2])], vec![&[0; 8]]);
    both.inputs[0].contents = Some(InferTensorContents::default());
    let cases = [
        (both, "contents field must not be specified when using raw_input_contents for 'x' for model 'm'".to_owned()),
        (
            request(vec![x(&[1, 2])], vec![]),
            "unable to find data for input tensor 'x' for model 'm' in request.".to_owned(),
        ),
        (
            request(vec![x(&[1, 2])], vec![&[0; 7]]),
            format!("{id}input byte size mismatch for input 'x' for model 'm'. Expected 8, got 7"),
        ),
        (
            request(vec![x(&[1, -2])], vec![&[0; 8]]),
            format!("{id}All input dimensions should be specified for input 'x' for model 'm', got [1,-2]"),
        ),
        (
            request(vec![x(&[1, 2]), x(&[1, 2])], vec![&[0; 8], &[0; 8]]),
            format!("{id}input 'x' already exists in request"),
        ),
        (
            request(vec![input("x", "FLOAT", &[1, 2])], vec![&[0; 8]]),
            format!("{id}inference input 'x' data-type is 'FLOAT', but model 'm' expects 'FP32'"),
        ),
        (
            request(vec![input("z", "FLOAT", &[1, 2])], vec![&[0; 8]]),
            "unexpected inference input 'z' for model 'm'".to_owned(),
        ),
        (
            strings(b"\x01\0\0\0a"),
            format!("{id}expected 2 string elements for inference input 's' for model 'm', got 1"),
        ),
        (
            strings(b"\0\0\0\0\0\0\0\0\0\0\0\0"),
            format!("{id}unexpected number of string elements 3 for inference input 's' for model 'm', expecting 2"),
        ),
        (
            strings(b"\x01\0\0\0a\0"),
            format!(
                "{id}incomplete string length indicator for inference input 's' for model 'm', expecting 4 bytes but only \
                 1 bytes available. Please make sure the string length indicator is in one buffer."
            ),
        ),
        (
            strings(b"\x09\0\0\0a"),
            format!(
                "{id}incomplete string data for inference input 's' for model 'm', expecting string of length 9 but only \
                 1 bytes available. Please make sure the string is in one buffer."
            ),
        ),
    ];
    for (message, expected) in cases {
        assert_eq!(decode(message), Err(expected));
    }
}
