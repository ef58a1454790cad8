//! The codec's tests: requests, texts of refusals and answers as tables. That results are right is compared with ONNX
//! Runtime in Python.

use bytes::Bytes;
use half::{bf16, f16};
use model::{DataType, Signature, Tensor, TensorSpec, VersionNumber};

use super::{Format, PredictContext, VersionState, parse_predict, render_metadata, render_predict, render_status};

const BYTES_MAX: usize = 64;

fn spec(name: &str, data_type: DataType) -> TensorSpec {
    TensorSpec { name: name.into(), data_type, shape: vec![-1, 2] }
}

fn read(inputs: &[(&str, DataType)], body: &[u8]) -> Result<(Format, Vec<Tensor>), String> {
    let inputs = inputs.iter().map(|&(name, data_type)| spec(name, data_type)).collect();
    let signature = Signature { inputs, ..Signature::default() };
    let context = PredictContext { signature: &signature, data_bytes_max: BYTES_MAX };
    let read = parse_predict(body, &context).map_err(|failure| {
        assert_eq!(failure.code.tf_serving_status(), 400, "{}", failure.text);
        failure.text
    })?;
    Ok((read.format, read.inputs))
}

fn one(data_type: DataType) -> [(&'static str, DataType); 1] {
    [("x", data_type)]
}

const TWO: [(&str, DataType); 2] = [("b", DataType::Int32), ("a", DataType::Bytes)];

#[test]
fn rows_and_columns_are_the_same_tensors() {
    let cases = [
        (&one(DataType::Uint8)[..], r#"{"instances": [[1, 2], [3, 4]]}"#, r#"{"inputs": [[1, 2], [3, 4]]}"#),
        (&one(DataType::Uint8), r#"{"instances": [{"x": [1]}, {"x": [2]}]}"#, r#"{"inputs": {"x": [[1], [2]]}}"#),
        (&one(DataType::Uint8), r#"{"instances": [1, 2]}"#, r#"{"inputs": {"x": [1, 2], "ignored": {"y": [null]}}}"#),
        (&one(DataType::Bytes), r#"{"instances": [{"b64": "AP8="}, "x"]}"#, r#"{"inputs": [{"b64": "AP8"}, "x"]}"#),
        (
            &TWO,
            r#"{"signature_name": "", "instances": [{"b": [1, 2], "a": "x"}, {"a": {"b64": "AP8="}, "b": [3, 4]}], "n": 0}"#,
            r#"{"inputs": {"a": ["x", {"b64": "AP\n8="}], "b": [[1, 2], [3, 4]]}, "signature_name": "serving_default"}"#,
        ),
        (&one(DataType::Int8), r#"{"instances": [[], []]}"#, r#"{"inputs": [[], []]}"#),
    ];
    for (inputs, rows, columns) in cases {
        let (by_row, by_column) = (read(inputs, rows.as_bytes()), read(inputs, columns.as_bytes()));
        let ((rows, by_row), (columns, by_column)) = (by_row.expect(rows), by_column.expect(columns));
        assert_eq!((rows, columns), (Format::Rows, Format::Columns));
        assert_eq!(by_row, by_column);
        let names: Vec<_> = by_row.iter().map(|tensor| &**tensor.name()).collect();
        assert_eq!(names, inputs.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "in the signature's order");
    }
}

#[test]
fn values_become_little_endian_bytes() {
    let cases = [
        (DataType::Bool, "[true, false]", vec![1, 0]),
        (DataType::Uint8, "[0, 255]", vec![0, 255]),
        (DataType::Uint16, "65535", vec![255; 2]),
        (DataType::Uint32, "4294967295", vec![255; 4]),
        (DataType::Uint64, "18446744073709551615", vec![255; 8]),
        (DataType::Int8, "[-128, 127]", vec![128, 127]),
        (DataType::Int16, "-2", vec![254, 255]),
        (DataType::Int32, "-2", vec![254, 255, 255, 255]),
        (DataType::Int64, "-9007199254740993", (-9_007_199_254_740_993_i64).to_le_bytes().to_vec()),
        (DataType::Fp16, "1.5", f16::from_f32(1.5).to_le_bytes().to_vec()),
        (DataType::Bf16, "-2", bf16::from_f32(-2.0).to_le_bytes().to_vec()),
        (DataType::Fp32, "[0.1, -Infinity]", [0.1, f32::NEG_INFINITY].map(f32::to_le_bytes).concat()),
        (DataType::Fp32, "16777217", 16_777_216_f32.to_le_bytes().to_vec()),
        (DataType::Fp64, "1e300", 1e300_f64.to_le_bytes().to_vec()),
        (DataType::Bytes, r#"["é", ""]"#, vec![2, 0, 0, 0, 0xc3, 0xa9, 0, 0, 0, 0]),
        (DataType::Bytes, r#"{"b64": "AA=="}"#, vec![1, 0, 0, 0, 0]),
    ];
    for (data_type, value, bytes) in cases {
        let (_, tensors) = read(&one(data_type), format!(r#"{{"inputs": {value}}}"#).as_bytes()).expect(value);
        assert_eq!(tensors[0].data()[..], bytes, "{value}");
    }
    let (_, tensors) = read(&one(DataType::Fp64), br#"{"instances": [NaN]}"#).expect("NaN is a number");
    assert_eq!(tensors[0].data()[..], f64::NAN.to_le_bytes());
    let (_, tensors) = read(&one(DataType::Int8), br#"{"inputs": [[[1], [2], [3]]]}"#).expect("nested");
    assert_eq!(tensors[0].shape(), [1, 3, 1]);
    read(&one(DataType::Int8), "\u{feff}{\"inputs\": 1}".as_bytes()).expect("a byte order mark");
}

#[test]
fn bodies_that_are_no_requests() {
    const ONE_OF: &str = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ";
    let deep = format!(r#"{{"inputs": {}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let cases = [
        ("", "JSON Parse error: The document is empty".to_owned()),
        (" \n", "JSON Parse error: The document is empty".to_owned()),
        ("{\"inputs\": [1,]}", "JSON Parse error: expected a value at offset: 14".to_owned()),
        ("{\"inputs\": 1} x", "JSON Parse error: nothing may follow the outermost value at offset: 14".to_owned()),
        (&deep, "JSON nesting depth exceeds maximum allowed limit (100)".to_owned()),
        (" [1] ", "JSON Value: [1] Is not object".to_owned()),
        ("{}", "Missing 'inputs' or 'instances' key".to_owned()),
        (r#"{"inputs": 1, "inputs": 1}"#, "'inputs' is given more than once".to_owned()),
        (
            r#"{"inputs": 1, "instances": [1]}"#,
            format!(r#"JSON Value: {{"inputs": 1, "instances": [1]}} {ONE_OF}"#),
        ),
        (
            r#"{"instances": {}}"#,
            r#"JSON Value: {"instances": {}} Excepting 'instances' to be an list/array"#.to_owned(),
        ),
        (r#"{"instances": []}"#, r#"JSON Value: {"instances": []} No values in 'instances' array"#.to_owned()),
        (
            r#"{"inputs": 1, "signature_name": 1}"#,
            r#"JSON Value: {"inputs": 1, "signature_name": 1} not formatted correctly. 'signature_name' key must be a string value."#.to_owned(),
        ),
        (
            r#"{"inputs": {"other": 1}, "signature_name": "s"}"#,
            r#"Serving signature name: "s" not found in signature def"#.to_owned(),
        ),
    ];
    for (body, text) in cases {
        assert_eq!(read(&one(DataType::Int8), body.as_bytes()).expect_err(body), text);
    }
    let invalid = read(&one(DataType::Int8), b"{\"inputs\": \"\xff\"}").expect_err("no UTF-8");
    assert_eq!(invalid, "JSON Parse error: Invalid encoding in string. at offset: 12");
    let none = read(&[], br#"{"inputs": {}}"#).expect_err("no inputs");
    assert_eq!(none, "Failed to get input map for signature: DEFAULT");
    let long = format!(r#"{{"instances": "{}"}}"#, "é".repeat(1000));
    assert!(
        read(&one(DataType::Int8), long.as_bytes()).expect_err("long").len() < 256,
        "what is repeated is cut short"
    );
}

#[test]
fn values_that_are_no_tensors() {
    let cases = [
        (DataType::Int8, "[300]", "JSON Value: 300 Type: Number is not of expected type: int8"),
        (DataType::Uint8, "[-1]", "JSON Value: -1 Type: Number is not of expected type: uint8"),
        (DataType::Int32, "[1.5]", "JSON Value: 1.5 Type: Number is not of expected type: int32"),
        (DataType::Fp32, r#"["1"]"#, r#"JSON Value: "1" Type: String is not of expected type: float"#),
        (DataType::Fp32, "null", "JSON Value: null Type: Null is not of expected type: float"),
        (DataType::Fp32, "[1e39]", "Cannot convert JSON value: 1e39 to float without loss of precision."),
        (DataType::Fp16, "[65520]", "Cannot convert JSON value: 65520 to half without loss of precision."),
        (DataType::Fp64, "1e400", "Cannot convert JSON value: 1e400 to double without loss of precision."),
        (DataType::Bool, "[1]", "JSON Value: 1 Type: Number is not of expected type: bool"),
        (DataType::Int64, "true", "JSON Value: true Type: True is not of expected type: int64"),
        (DataType::Int64, "false", "JSON Value: false Type: False is not of expected type: int64"),
        (
            DataType::Fp32,
            r#"{"b64": "AA=="}"#,
            r#"JSON Value: {"b64": "AA=="} Type: Object is not of expected type: float"#,
        ),
        (DataType::Bytes, "[1]", "JSON Value: 1 Type: Number is not of expected type: string"),
        (DataType::Bytes, r#"[{"b64": "?"}]"#, "Unable to base64 decode"),
        (
            DataType::Bytes,
            r#"[{"b64": "AA==", "c": 1}]"#,
            r#"JSON Value: {"b64": "AA==", "c": 1} not formatted correctly for base64 data"#,
        ),
        (DataType::Bytes, r#"[{"b64": 1}]"#, r#"JSON Value: {"b64": 1} not formatted correctly for base64 data"#),
        (DataType::Int8, "[[1, 2], [3]]", "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
        (DataType::Int8, "[[1], [2, 3]]", "Encountered list at unexpected size: 2 at level: 1 expected size: 1"),
        (DataType::Int8, "[[], [1]]", "Encountered list at unexpected size: 1 at level: 1 expected size: 0"),
        (DataType::Int8, "[1, [2]]", "Encountered list at unexpected level: 1 expected < 1"),
        (DataType::Int8, "[[1], 2]", "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        (DataType::Int8, r#"{"y": 1}"#, "Missing named input: x in 'inputs' object."),
        (DataType::Int8, r#"{"x": 1, "x": 1}"#, "JSON object: has named input more than once: x"),
    ];
    for (data_type, value, text) in cases {
        let body = format!(r#"{{"inputs": {value}}}"#);
        assert_eq!(read(&one(data_type), body.as_bytes()).expect_err(value), text);
    }
    let too_large = "JSON input 'x' has a byte_size (72 bytes) that exceeds the maximum allowed value of 64 bytes. Use \
                     --http-max-input-size to increase the limit.";
    let body = format!(r#"{{"inputs": [{}0]}}"#, "0,".repeat(100));
    assert_eq!(read(&one(DataType::Fp64), body.as_bytes()).expect_err("too large"), too_large);
    let body = format!(r#"{{"inputs": ["{}"]}}"#, "x".repeat(68));
    assert_eq!(read(&one(DataType::Bytes), body.as_bytes()).expect_err("too large"), too_large);
}

#[test]
fn rows_that_do_not_go_together() {
    const FAILED: &str = "Failed to process element: ";
    let single = [
        ("[[1, 2], [3]]", "1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor size: 2 but got: 1"),
        (
            "[[[1, 2]], [[1], [2]]]",
            "1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting shape [1,2] but got: [2,1]",
        ),
        (
            "[1, true]",
            "1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: true Type: True is not of expected type: int8",
        ),
        (
            r#"[{"y": 1}]"#,
            "0 key: y of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not have named input: y",
        ),
        (
            r#"[{"x": 1, "x": 1}]"#,
            "0 key: x of 'instances' list. Error: INVALID_ARGUMENT: JSON object: has named input more than once: x",
        ),
        (r#"[{"x": 1}, {}]"#, "1 of 'instances' list. JSON object: {} keys must be equal to: x"),
    ];
    for (rows, text) in single {
        let body = format!(r#"{{"instances": {rows}}}"#);
        assert_eq!(read(&one(DataType::Int8), body.as_bytes()).expect_err(rows), format!("{FAILED}{text}"));
    }
    let cases = [
        (&one(DataType::Int8)[..], r#"[{"x": 1}, [1]]"#, "Expecting object but got list at item 1 of input list"),
        (&one(DataType::Int8), r#"[1, {"x": 1}]"#, "Expecting value/list but got object at item 1 of input list"),
        (
            &TWO,
            "[1]",
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per \
             tensorinfo_map",
        ),
        (
            &TWO,
            r#"[{"b": 1}]"#,
            r#"Failed to process element: 0 of 'instances' list. JSON object: {"b": 1} keys must be equal to: a,b"#,
        ),
    ];
    for (inputs, rows, text) in cases {
        let body = format!(r#"{{"instances": {rows}}}"#);
        assert_eq!(read(inputs, body.as_bytes()).expect_err(rows), text);
    }
    let plain = read(&TWO, br#"{"inputs": [1]}"#).expect_err("a plain list");
    let text = "inputs is a plain value/list, but expecting an object as multiple input tensors required as per \
                tensorinfo_map";
    assert_eq!(plain, text);
}

fn tensor(name: &str, data_type: DataType, shape: &[u64], data: &[u8]) -> Tensor {
    Tensor::new(name.into(), data_type, shape.to_vec(), Bytes::copy_from_slice(data)).expect("fits")
}

fn render(outputs: &[Tensor], format: Format) -> Result<String, String> {
    let rendered = render_predict(outputs, format).map_err(|failure| failure.text)?;
    Ok(String::from_utf8(rendered).expect("UTF-8"))
}

#[test]
fn answers_have_the_form_of_their_request() {
    use Format::{Columns, Rows};
    let numbers = || tensor("n", DataType::Uint8, &[2, 2], &[1, 2, 3, 4]);
    let strings = || tensor("s", DataType::Bytes, &[2], &[1, 0, 0, 0, b'x', 1, 0, 0, 0, 255]);
    let special = [f32::NAN, 0.1, f32::NEG_INFINITY, 1.0].map(f32::to_le_bytes).concat();
    let cases = [
        (vec![numbers()], Rows, r#"{"predictions":[[1,2],[3,4]]}"#),
        (vec![numbers()], Columns, r#"{"outputs":[[1,2],[3,4]]}"#),
        (vec![numbers(), strings()], Rows, r#"{"predictions":[{"n":[1,2],"s":"x"},{"n":[3,4],"s":{"b64":"/w=="}}]}"#),
        (vec![numbers(), strings()], Columns, r#"{"outputs":{"n":[[1,2],[3,4]],"s":["x",{"b64":"/w=="}]}}"#),
        (
            vec![tensor("e_bytes", DataType::Bytes, &[2], &[0, 0, 0, 0, 1, 0, 0, 0, b'x'])],
            Rows,
            r#"{"predictions":[{"b64":""},{"b64":"eA=="}]}"#,
        ),
        (vec![tensor("n_bytes", DataType::Int8, &[1], &[7])], Rows, r#"{"predictions":[7]}"#),
        (vec![tensor("f", DataType::Fp32, &[4], &special)], Columns, r#"{"outputs":[NaN,0.1,-Infinity,1.0]}"#),
        (vec![tensor("f", DataType::Bool, &[], &[1])], Columns, r#"{"outputs":true}"#),
        (vec![tensor("z", DataType::Uint8, &[0, 3], &[])], Rows, r#"{"predictions":[]}"#),
        (vec![tensor("z", DataType::Uint8, &[2, 0], &[])], Rows, r#"{"predictions":[[],[]]}"#),
        (vec![tensor("d", DataType::Uint8, &[1, 2, 1], &[5, 6])], Columns, r#"{"outputs":[[[5],[6]]]}"#),
    ];
    for (outputs, format, expected) in cases {
        assert_eq!(render(&outputs, format).as_deref(), Ok(expected));
    }
}

#[test]
fn answers_that_cannot_be_written() {
    let scalar = tensor("n", DataType::Uint8, &[], &[1]);
    let text = "Tensor name: n has no shape information ";
    assert_eq!(render(&[scalar], Format::Rows), Err(text.to_owned()));
    let (two, three) = (tensor("a", DataType::Int8, &[2], &[1, 2]), tensor("b", DataType::Int8, &[3], &[1, 2, 3]));
    let text = "Tensor name: b has inconsistent batch size: 3 expecting: 2";
    assert_eq!(render(&[two, three], Format::Rows), Err(text.to_owned()));
    let empty = tensor("e", DataType::Int8, &[1 << 40, 0], &[]);
    let text = "output 'e' of shape [1099511627776,0] would be 1099511627776 empty lists; at most 1048576 are written";
    assert_eq!(render(&[empty], Format::Columns), Err(text.to_owned()));
}

#[test]
fn what_the_other_routes_answer() {
    let version = |number, state, failure: Option<&str>| VersionState {
        version: VersionNumber::new(number),
        state,
        failure: failure.map(str::to_owned),
    };
    let versions =
        [version(2, "END", Some("cut \"short\"")), version(1, "AVAILABLE", None), version(0, "LOADING", None)];
    let status = String::from_utf8(render_status(&versions)).expect("UTF-8");
    let signature = Signature {
        optional_inputs: 0,
        inputs: vec![TensorSpec { name: "x".into(), data_type: DataType::Fp32, shape: vec![-1, 2] }],
        outputs: vec![TensorSpec { name: "y".into(), data_type: DataType::Bytes, shape: Vec::new() }],
    };
    let metadata = String::from_utf8(render_metadata("m", "3", &signature)).expect("UTF-8");
    insta::assert_snapshot!(format!("{status}\n{metadata}"), @r#"
    {"model_version_status":[{"version":"2","state":"END","status":{"error_code":"UNKNOWN","error_message":"cut \"short\""}},{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":""}},{"version":"0","state":"LOADING","status":{"error_code":"OK","error_message":""}}]}
    {"model_spec":{"name":"m","signature_name":"","version":"3"},"metadata":{"signature_def":{"signature_def":{"serving_default":{"inputs":{"x":{"dtype":"DT_FLOAT","tensor_shape":{"dim":[{"size":"-1","name":""},{"size":"2","name":""}],"unknown_rank":false},"name":"x:0"}},"outputs":{"y":{"dtype":"DT_STRING","tensor_shape":{"dim":[],"unknown_rank":false},"name":"y:0"}},"method_name":"tensorflow/serving/predict"}}}}}
    "#);
}
