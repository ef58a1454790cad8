//! Bodies with binary data, and those that are nothing else.

use bytes::Bytes;
use model::{DataType, ErrorCode, Signature, Tensor, TensorSpec};

use super::super::{
    EncodedOutput, Encoding, InferAnswer, InferBody, InferContext, InferRequest, OutputForm, RequestedOutput, V2Error,
    parse_infer, render_infer,
};
use super::{context, encoded, signature};

/// A request of `json` with `binary` behind it.
fn parse(json: &str, binary: &[u8]) -> Result<InferRequest, V2Error> {
    let body = [json.as_bytes(), binary].concat();
    let body = InferBody::split(body.into(), Some(&json.len().to_string()))?;
    parse_infer(&body, &context(&signature()))
}

fn input(name: &str, data_type: &str, shape: &str, size: usize) -> String {
    format!(
        r#"{{"name":"{name}","datatype":"{data_type}","shape":{shape},"parameters":{{"binary_data_size":{size}}}}}"#
    )
}

/// The input that a body alone becomes, with a batch dimension or without.
fn raw((spec, has_batch_dimension): (TensorSpec, bool), body: &[u8]) -> Result<Tensor, V2Error> {
    let signature = Signature { inputs: vec![spec], ..Signature::default() };
    let body = InferBody::split(Bytes::copy_from_slice(body), Some("0"))?;
    let context = InferContext { has_batch_dimension, ..context(&signature) };
    let mut request = parse_infer(&body, &context)?;
    assert_eq!((request.encoding, request.id, request.outputs.len()), (Encoding::Binary, None, 0));
    Ok(request.inputs.remove(0))
}

fn spec(data_type: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: "x".into(), data_type, shape: shape.to_vec() }
}

#[test]
fn blobs_follow_the_order_of_the_inputs_and_are_views() {
    let json = format!(
        r#"{{"inputs":[{},{{"name":"z","datatype":"UINT8","shape":[2],"data":[7,8]}},{},{}]}}"#,
        input("x", "FP32", "[1,2]", 8),
        input("s", "BYTES", "[2]", 11),
        input("none", "INT64", "[0]", 0),
    );
    let binary = b"\0\0\x80\x3f\0\0\0\xc0\x03\0\0\0\0\xff\x80\0\0\0\0";
    let body: Bytes = [json.as_bytes(), binary].concat().into();
    let start = body.as_ptr();
    let body = InferBody::split(body, Some(&json.len().to_string())).expect("within the body");
    let request = parse_infer(&body, &context(&signature())).expect("parses");
    let data: Vec<_> = request.inputs.iter().map(|input| &input.data()[..]).collect();
    assert_eq!(data, [&binary[..8], &[7, 8], &binary[8..], &[]]);
    assert_eq!(request.inputs[0].data().as_ptr(), start.wrapping_add(json.len()), "nothing is copied");
}

#[test]
fn every_fixed_type_is_taken_as_it_is() {
    for data_type in DataType::ALL {
        let Some(size) = data_type.element_size() else { continue };
        let bytes: Vec<u8> = (0..size as u8 * 2).map(|byte| byte % 2).collect();
        let json = format!(r#"{{"inputs":[{}]}}"#, input("x", data_type.v2_name(), "[2]", bytes.len()));
        assert_eq!(parse(&json, &bytes).expect("parses").inputs[0].data(), &bytes, "{data_type}");
    }
}

#[test]
fn lengths_that_do_not_agree() {
    let x = input("x", "FP32", "[1,2]", 8);
    let cases = [
        (
            format!(r#"{{"inputs":[{x}]}}"#),
            &[0; 5][..],
            "unexpected size for input 'x', expecting 3 additional bytes for model 'm'",
        ),
        (format!(r#"{{"inputs":[{x}]}}"#), &[0; 9], "unexpected additional input data for model 'm'"),
        (r#"{"inputs":[]}"#.to_owned(), &[0], "unexpected additional input data for model 'm'"),
        (
            format!(r#"{{"id":"7","inputs":[{}]}}"#, input("x", "FP32", "[1,3]", 8)),
            &[0; 8],
            "[request id: 7] input byte size mismatch for input 'x' for model 'm'. Expected 12, got 8",
        ),
        (
            format!(r#"{{"inputs":[{}]}}"#, input("x", "FP32", "[0,3]", 8)),
            &[0; 8],
            "[request id: <id_unknown>] input byte size mismatch for input 'x' for model 'm'. Expected 0, got 8",
        ),
        (
            format!(r#"{{"inputs":[{}]}}"#, input("x", "BYTES", "[1]", 8)),
            b"\x05\0\0\0abcd",
            "[request id: <id_unknown>] incomplete string data for inference input 'x' for model 'm', expecting string of length 5 but only 4 bytes available. Please make sure the string is in one buffer.",
        ),
        (
            format!(r#"{{"inputs":[{}]}}"#, input("x", "UINT8", "[4294967296,4294967296]", 0)),
            b"",
            "invalid shape for input 'x': shape [4294967296,4294967296] causes total element count to exceed maximum size of 9223372036854775807",
        ),
    ];
    for (json, binary, text) in cases {
        let error = parse(&json, binary).expect_err(text);
        assert_eq!((error.code, error.text.as_str()), (ErrorCode::InvalidTensors, text));
    }
    let huge = format!(r#"{{"inputs":[{}]}}"#, input("x", "FP32", "[1]", usize::MAX));
    let text = format!("unexpected size for input 'x', expecting {} additional bytes for model 'm'", u64::MAX - 4);
    assert_eq!(parse(&huge, &[0; 4]).expect_err("too long").text, text);
}

#[test]
fn where_the_json_ends() {
    let split = |length: &str| InferBody::split(Bytes::from_static(b"0123456789"), Some(length));
    assert!(matches!(split("10"), Ok(InferBody::Described { binary, .. }) if binary.is_empty()));
    assert!(matches!(split(" 4 "), Ok(InferBody::Described { json, binary }) if json == "0123" && binary == "456789"));
    assert!(matches!(split("0"), Ok(InferBody::Raw(data)) if data.len() == 10));
    let cases = [
        ("", "Unable to parse Inference-Header-Content-Length, got: "),
        ("ten", "Unable to parse Inference-Header-Content-Length, got: ten"),
        ("1.5", "Unable to parse Inference-Header-Content-Length, got: 1.5"),
        ("11", "inference header size should be in range (0, 10), got: 11"),
        ("-1", "inference header size should be in range (0, 10), got: -1"),
        ("18446744073709551617", "inference header size should be in range (0, 10), got: 18446744073709551617"),
    ];
    for (length, text) in cases {
        let error = split(length).expect_err(text);
        assert_eq!((error.code, error.text.as_str()), (ErrorCode::MalformedRequest, text));
    }
}

#[test]
fn outputs_are_asked_for_in_their_form() {
    let json = r#"{"inputs":[],"parameters":{"binary_data_output":true,"a":1},"outputs":[
        {"name":"y","parameters":{"binary_data":true}},{"name":"w","parameters":{"classification":2}},{"name":"v"}]}"#;
    let request = parse(json, b"").expect("parses");
    let output = |name: &str, form| RequestedOutput { name: name.to_owned(), form };
    let count = std::num::NonZeroU64::new(2).expect("not 0");
    let expected = [
        output("y", OutputForm::Values(Encoding::Binary)),
        output("w", OutputForm::Classes { count, encoding: Encoding::Json }),
        output("v", OutputForm::Values(Encoding::Json)),
    ];
    assert_eq!(request.outputs, expected, "an output that is listed says for itself");
    assert_eq!((request.encoding, request.parameters.len()), (Encoding::Binary, 1));
}

#[test]
fn a_body_alone_is_the_models_single_input() {
    let floats = [0; 24];
    for (shape, has_batch_dimension, expected) in [
        (&[-1, 6][..], true, &[1, 6][..]),
        (&[-1, -1, 3], true, &[1, 2, 3]),
        (&[-1], false, &[6]),
        (&[2, 3], false, &[2, 3]),
        (&[-1, 2], false, &[3, 2]),
    ] {
        let tensor = raw((spec(DataType::Fp32, shape), has_batch_dimension), &floats).expect("fits");
        assert_eq!((tensor.shape(), tensor.data().len()), (expected, 24), "{shape:?}");
    }
    let tensor = raw((spec(DataType::Bytes, &[-1, 1]), true), b"a\0\xff").expect("one string");
    assert_eq!((tensor.shape(), &tensor.data()[..]), (&[1, 1][..], &b"\x03\0\0\0a\0\xff"[..]));
    assert_eq!(raw((spec(DataType::Bytes, &[1]), false), b"").expect("an empty string").data(), &[0; 4][..]);
}

#[test]
fn bodies_alone_that_do_not_tell_their_shape() {
    let cases = [
        (
            spec(DataType::Fp32, &[-1, -1, -1]),
            "The shape of the raw input 'x' can not be deduced because there are more than one variable-sized dimension",
        ),
        (spec(DataType::Bytes, &[-1, 2]), "For BYTE datatype raw input 'x', the model must have input shape [1]"),
        (
            spec(DataType::Fp32, &[-1, 3]),
            "[request id: <id_unknown>] input byte size mismatch for input 'x' for model 'm'. Expected 12, got 10",
        ),
        (
            spec(DataType::Fp64, &[-1, -1]),
            "[request id: <id_unknown>] input byte size mismatch for input 'x' for model 'm'. Expected 8, got 10",
        ),
        (
            spec(DataType::Fp64, &[-1, 0, -1]),
            "[request id: <id_unknown>] input byte size mismatch for input 'x' for model 'm'. Expected 0, got 10",
        ),
    ];
    for (spec, text) in cases {
        assert_eq!(raw((spec, true), &[0; 10]).expect_err(text).text, text);
    }
    let body = InferBody::split(Bytes::from_static(b"1234"), Some("0")).expect("all of it");
    assert_eq!(
        parse_infer(&body, &context(&signature())).expect_err("two inputs").text,
        "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model configuration"
    );
}

#[test]
fn answers_with_binary_data() {
    let tensor = |name: &str, data_type, shape: &[u64], data: &'static [u8]| {
        Tensor::new(name.into(), data_type, shape.to_vec(), Bytes::from_static(data)).expect("fits")
    };
    let (y, w) =
        (tensor("y", DataType::Uint16, &[2], &[1, 0, 2, 0]), tensor("w", DataType::Bytes, &[1], b"\x01\0\0\0\xff"));
    let none = tensor("none", DataType::Fp32, &[0], b"");
    let outputs = [
        EncodedOutput { tensor: w, encoding: Encoding::Binary },
        EncodedOutput { tensor: y.clone(), encoding: Encoding::Json },
        EncodedOutput { tensor: none.clone(), encoding: Encoding::Binary },
        EncodedOutput { tensor: y, encoding: Encoding::Binary },
    ];
    let rendered =
        render_infer(&InferAnswer { model: "m", version: "3", id: None, outputs: &outputs }).expect("renders");
    let (json, binary) = rendered.body.split_at(rendered.json_length.expect("there is binary data"));
    assert_eq!(
        String::from_utf8_lossy(json),
        concat!(
            r#"{"model_name":"m","model_version":"3","outputs":["#,
            r#"{"name":"w","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}},"#,
            r#"{"name":"y","datatype":"UINT16","shape":[2],"data":[1,2]},"#,
            r#"{"name":"none","datatype":"FP32","shape":[0],"parameters":{"binary_data_size":0}},"#,
            r#"{"name":"y","datatype":"UINT16","shape":[2],"parameters":{"binary_data_size":4}}]}"#
        )
    );
    assert_eq!(binary, b"\x01\0\0\0\xff\x01\0\x02\0");
    let outputs = encoded(&[none], Encoding::Binary);
    let rendered =
        render_infer(&InferAnswer { model: "m", version: "3", id: None, outputs: &outputs }).expect("renders");
    assert_eq!(rendered.json_length, None, "nothing comes after the JSON");
}
