//! Bodies and answers of `generate`.

use bytes::Bytes;
use model::{DataType, ErrorCode, Signature, Tensor, TensorSpec};

use super::super::{
    Encoding, InferAnswer, InferContext, InferRequest, ParameterValue, V2Error, parse_generate, render_generate,
};
use super::{context, encoded};

fn signature() -> Signature {
    let spec =
        |name: &str, data_type, shape: &[i64]| TensorSpec { name: name.into(), data_type, shape: shape.to_vec() };
    Signature {
        inputs: vec![
            spec("text", DataType::Bytes, &[-1, 1]),
            spec("values", DataType::Fp32, &[-1, -1, 2]),
            spec("flag", DataType::Bool, &[1]),
            spec("none", DataType::Int64, &[-1, 0]),
        ],
        ..Signature::default()
    }
}

fn parse(body: &str) -> Result<InferRequest, V2Error> {
    parse_generate(body.as_bytes(), &context(&signature()))
}

#[test]
fn members_become_inputs_and_parameters() {
    let body = r#"{"id":"7","text":"a\u0000é","values":[1,2,3,4,5,6],"flag":[true],"none":[],"stream":false,"n":-3,
        "parameters":{"priority":2,"top":1.5,"binary_data_output":true}}"#;
    let request = parse(body).expect("parses");
    assert_eq!(request.id.as_deref(), Some("7"));
    let inputs: Vec<_> =
        request.inputs.iter().map(|input| (&**input.name(), input.shape(), input.data().len())).collect();
    let expected = [("text", &[1, 1][..], 8), ("values", &[1, 3, 2], 24), ("flag", &[1], 1), ("none", &[0, 0], 0)];
    assert_eq!(inputs, expected);
    let parameters = [
        ("stream", ParameterValue::Boolean(false)),
        ("n", ParameterValue::Signed(-3)),
        ("priority", ParameterValue::Unsigned(2)),
        ("top", ParameterValue::Real(1.5)),
    ];
    assert_eq!(request.parameters, parameters.map(|(name, value)| (name.to_owned(), value)));
    assert_eq!((request.outputs.len(), request.encoding), (0, Encoding::Json));
    let nested = parse(r#"{"parameters":{"text":["a","b"]}}"#).expect("parameters count as members");
    assert_eq!(nested.inputs[0].shape(), [2, 1]);
}

#[test]
fn bodies_that_do_not_read() {
    let cases = [
        ("[]", ErrorCode::MalformedRequest, "failed to parse the request JSON buffer: expected an object at 0"),
        (
            "{} 1",
            ErrorCode::MalformedRequest,
            "failed to parse the request JSON buffer: nothing may follow the outermost value at 3",
        ),
        (
            r#"{"text":1}"#,
            ErrorCode::InvalidTensors,
            "Unable to parse JSON bytes array: attempt to access JSON non-string as string (number at index 0 of input 'text' of type BYTES)",
        ),
        (
            r#"{"values":[1,2,3]}"#,
            ErrorCode::InvalidTensors,
            "Unable to parse 'data': Shape does not match true shape of 'data' field (input 'values' of shape [1,1,2] holds 2 values, 'data' has more)",
        ),
        (
            r#"{"flag":[]}"#,
            ErrorCode::InvalidTensors,
            "Failed to parse 'data' field: shape does not match true shape (input 'flag' of shape [1] holds 1 values, 'data' has 0)",
        ),
        (
            r#"{"text":"a","text":"b"}"#,
            ErrorCode::MalformedRequest,
            "Unable to parse 'text': it is given more than once (in the request)",
        ),
        (
            r#"{"text":"a","parameters":{"text":"b"}}"#,
            ErrorCode::MalformedRequest,
            "Unable to parse 'text': it is given more than once (in the request)",
        ),
        (
            r#"{"other":{"a":1}}"#,
            ErrorCode::MalformedRequest,
            "parameter 'other' has invalid type. It should be either 'int', 'bool', or 'string'.",
        ),
        (
            r#"{"triton_x":1}"#,
            ErrorCode::MalformedRequest,
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
        ),
        (r#"{"parameters":[1]}"#, ErrorCode::MalformedRequest, "Expected JSON object for keyword: 'parameters'"),
        (
            r#"{"id":1}"#,
            ErrorCode::MalformedRequest,
            "Unable to parse 'id': attempt to access JSON non-string as string (in the request)",
        ),
    ];
    for (body, code, text) in cases {
        let error = parse(body).expect_err(body);
        assert_eq!((error.code, error.text.as_str()), (code, text), "{body}");
    }
    let signature = signature();
    let context = InferContext { data_bytes_max: 8, ..context(&signature) };
    let error = parse_generate(br#"{"values":[1,2,3,4]}"#, &context).expect_err("too large");
    assert!(error.text.starts_with("JSON input 'values' has a byte_size (16 bytes) that exceeds"), "{}", error.text);
}

#[test]
fn a_single_value_comes_without_its_array() {
    let tensor = |name: &str, data_type, shape: &[u64], data: &'static [u8]| {
        Tensor::new(name.into(), data_type, shape.to_vec(), Bytes::from_static(data)).expect("fits")
    };
    let outputs = [
        tensor("one", DataType::Bytes, &[1, 1], b"\x04\0\0\0[a\"]"),
        tensor("two", DataType::Uint8, &[2], &[1, 2]),
        tensor("scalar", DataType::Bool, &[], &[1]),
        tensor("none", DataType::Fp32, &[0], b""),
    ];
    let outputs = encoded(&outputs, Encoding::Json);
    let text = |id| {
        let answer = InferAnswer { model: "m", version: "3", id, outputs: &outputs };
        String::from_utf8(render_generate(&answer).expect("renders")).expect("UTF-8")
    };
    assert_eq!(
        text(None),
        r#"{"model_name":"m","model_version":"3","one":"[a\"]","two":[1,2],"scalar":true,"none":[]}"#
    );
    assert!(text(Some("7")).starts_with(r#"{"id":"7","model_name""#));
}
