//! Every refusal, with its exact text and its code.

use bytes::Bytes;
use model::{DataType, ErrorCode, Tensor};

use super::super::data::room;
use super::super::{InferContext, parse_infer};
use super::{body, context, json_body, parse, parse_bytes, parse_one, render, signature};

fn check(body: &str, code: ErrorCode, text: &str) {
    let error = parse(body).expect_err(body);
    assert_eq!((error.code, error.text.as_str()), (code, text), "{body}");
    assert_eq!(error.code.http_status(), 400);
}

fn check_all(code: ErrorCode, cases: &[(&str, &str)]) {
    for (body, text) in cases {
        check(body, code, text);
    }
}

#[test]
fn text_that_is_not_json() {
    let cases = [
        ("", "the document is empty at 0"),
        (" ", "the document is empty at 1"),
        ("[]", "expected an object at 0"),
        ("nope", "expected an object at 0"),
        ("{", "expected a member's name in quotes at 1"),
        ("{\"inputs\"", "expected ':' after a member's name at 9"),
        ("{\"inputs\":", "the text ends where a value is expected at 10"),
        ("{\"a\":1,}", "expected a member's name in quotes at 7"),
        ("{\"a\":1 \"b\":2}", "expected ',' or '}' after a member at 7"),
        ("{\"a\":[1 2]}", "expected ',' or ']' after an element at 8"),
        ("{\"a\":tru}", "expected a value at 5"),
        ("{\"a\":01}", "a number has a superfluous leading zero at 7"),
        ("{\"a\":1.}", "expected a digit after the point of a number at 7"),
        ("{\"a\":1e}", "expected a digit in the exponent of a number at 7"),
        ("{\"a\":-}", "expected a digit at 6"),
        ("{\"a\":-NaN}", "expected a digit at 6"),
        ("{\"a\":\"b}", "a string has no closing quote at 8"),
        ("{\"a\":\"\n\"}", "a control character in a string must be escaped at 6"),
        ("{\"a\":\"\\x\"}", "unknown escape in a string at 7"),
        ("{\"a\":\"\\u12g4\"}", "expected 'u' and four hexadecimal digits after a backslash at 7"),
        ("{\"a\":\"\\ud800\"}", "half of a surrogate pair in a string at 7"),
        ("{\"a\":\"\\ud800\\u0041\"}", "half of a surrogate pair in a string at 7"),
        ("{\"a\":\"\\udc00\"}", "half of a surrogate pair in a string at 7"),
        ("{\"inputs\":[]} x", "nothing may follow the outermost value at 14"),
    ];
    for (body, what) in cases {
        let text = format!("failed to parse the request JSON buffer: {what}");
        check(body, ErrorCode::MalformedRequest, &text);
    }
    let error = parse_bytes(b"{\"a\":\"\xff\"}").expect_err("not UTF-8");
    assert_eq!(error.text, "failed to parse the request JSON buffer: invalid UTF-8 at 6");
}

#[test]
fn members_that_are_missing_repeated_or_of_another_type() {
    let cases = [
        ("{}", "Unable to parse 'inputs': attempt to access non-existing object member 'inputs' (in the request)"),
        (r#"{"inputs":{}}"#, "Unable to parse 'inputs': attempt to access JSON non-array as array (in the request)"),
        (r#"{"inputs":[],"inputs":[]}"#, "Unable to parse 'inputs': it is given more than once (in the request)"),
        (
            r#"{"inputs":[],"id":7}"#,
            "Unable to parse 'id': attempt to access JSON non-string as string (in the request)",
        ),
        (
            r#"{"inputs":[],"outputs":null}"#,
            "Unable to parse 'outputs': attempt to access JSON non-array as array (in the request)",
        ),
        (r#"{"inputs":["x"]}"#, "Unable to parse 'inputs': attempt to access JSON non-object as object (in inputs[0])"),
        (
            r#"{"inputs":[{"datatype":"FP32","shape":[1],"data":[1]}]}"#,
            "Unable to parse 'name': attempt to access non-existing object member 'name' (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"name":"x","shape":[1],"data":[1]}]}"#,
            "Unable to parse 'datatype': attempt to access non-existing object member 'datatype' (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"name":"x","datatype":"FP32","data":[1]}]}"#,
            "Unable to parse 'shape': attempt to access non-existing object member 'shape' (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"name":1}]}"#,
            "Unable to parse 'name': attempt to access JSON non-string as string (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"name":"x","name":"x"}]}"#,
            "Unable to parse 'name': it is given more than once (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"shape":7}]}"#,
            "Unable to parse 'shape': attempt to access JSON non-array as array (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"shape":[2,-5]}]}"#,
            "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"shape":[1.0]}]}"#,
            "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"shape":["1"]}]}"#,
            "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"parameters":[]}]}"#,
            "Unable to parse 'parameters': attempt to access JSON non-object as object (in inputs[0])",
        ),
        (
            r#"{"inputs":[{"parameters":{"binary_data_size":-1}}]}"#,
            "Unable to parse 'binary_data_size': attempt to access JSON non-unsigned-integer as unsigned-integer (in inputs[0])",
        ),
        (
            r#"{"inputs":[],"outputs":[{}]}"#,
            "Unable to parse 'name': attempt to access non-existing object member 'name' (in outputs[0])",
        ),
        (
            r#"{"inputs":[],"outputs":[{"name":"y","parameters":{"binary_data":1}}]}"#,
            "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean (in outputs[0])",
        ),
    ];
    check_all(ErrorCode::MalformedRequest, &cases);
    let rank = format!(r#"{{"inputs":[{{"shape":[{}1]}}]}}"#, "1,".repeat(64));
    check(&rank, ErrorCode::MalformedRequest, "Unable to parse 'shape': it has more than 64 dimensions (in inputs[0])");
}

#[test]
fn values_that_come_by_no_way_or_by_several() {
    let start = "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', \
                 'shared_memory_region' in 'parameters'. But";
    let cases = [
        ("", "no field is set (in inputs[0])"),
        (r#","data":[],"parameters":{"binary_data_size":4}"#, "set 'data' 'binary_data_size' (in inputs[0])"),
        (
            r#","parameters":{"shared_memory_region":"r","binary_data_size":4}"#,
            "set 'binary_data_size' 'shared_memory_region' (in inputs[0])",
        ),
    ];
    for (members, end) in cases {
        let body = format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[0]{members}}}]}}"#);
        check(&body, ErrorCode::MalformedRequest, &format!("{start} {end}"));
    }
}

#[test]
fn request_parameters() {
    let unsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer (in the request's parameters)";
    let cases = [
        ("[]", "failed to get request params.: attempt to get members for non-object ('parameters')".to_owned()),
        (
            r#"{"triton_x":1}"#,
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.".to_owned(),
        ),
        (
            r#"{"a":[1]}"#,
            "parameter 'a' has invalid type. It should be either 'int', 'bool', or 'string'.".to_owned(),
        ),
        (
            r#"{"a":null}"#,
            "parameter 'a' has invalid type. It should be either 'int', 'bool', or 'string'.".to_owned(),
        ),
        (r#"{"a":1e999}"#, "parameter 'a' is 1e999, which no 64-bit number holds".to_owned()),
        (r#"{"a":1,"a":2}"#, "Unable to parse 'a': it is given more than once (in the request's parameters)".to_owned()),
        (r#"{"priority":-1}"#, format!("Unable to parse 'priority': {unsigned}")),
        (r#"{"timeout":"1"}"#, format!("Unable to parse 'timeout': {unsigned}")),
        (
            r#"{"sequence_id":-1}"#,
            "Unable to parse 'sequence_id': attempt to access JSON non-string as string (in the request's parameters)".to_owned(),
        ),
        (
            r#"{"sequence_start":1}"#,
            "Unable to parse 'sequence_start': attempt to access JSON non-boolean as boolean (in the request's parameters)".to_owned(),
        ),
    ];
    for (parameters, text) in cases {
        let body = format!(r#"{{"inputs":[],"parameters":{parameters}}}"#);
        check(&body, ErrorCode::MalformedRequest, &text);
    }
    let many: Vec<String> = (0..257).map(|i| format!("\"p{i}\":{i}")).collect();
    let body = format!(r#"{{"inputs":[],"parameters":{{{}}}}}"#, many.join(","));
    check(&body, ErrorCode::MalformedRequest, "a request has at most 256 parameters");
}

#[test]
fn values_that_do_not_fit_their_type() {
    let range = |value: &str, index: u32, data_type: &str, bounds: &str| {
        format!(
            "Unable to parse 'data': value {value} at index {index} of input 'x' is out of range for {data_type}, which holds {bounds}"
        )
    };
    let cases = [
        ("UINT8", "[0,256]", range("256", 1, "UINT8", "0 to 255")),
        ("UINT8", "[-1,0]", range("-1", 0, "UINT8", "0 to 255")),
        ("UINT16", "[0,65536]", range("65536", 1, "UINT16", "0 to 65535")),
        ("UINT32", "[0,4294967296]", range("4294967296", 1, "UINT32", "0 to 4294967295")),
        ("UINT64", "[0,18446744073709551616]", range("18446744073709551616", 1, "UINT64", "0 to 18446744073709551615")),
        ("INT8", "[[127],[128]]", range("128", 1, "INT8", "-128 to 127")),
        ("INT8", "[[-129],[1]]", range("-129", 0, "INT8", "-128 to 127")),
        ("INT16", "[0,32768]", range("32768", 1, "INT16", "-32768 to 32767")),
        ("INT32", "[0,2147483648]", range("2147483648", 1, "INT32", "-2147483648 to 2147483647")),
        ("INT64", "[0,9223372036854775808]", range("9223372036854775808", 1, "INT64", "-9223372036854775808 to 9223372036854775807")),
        ("FP16", "[65520,0]", range("65520", 0, "FP16", "-65504.0 to 65504.0")),
        ("BF16", "[3.4e38,0]", range("3.4e38", 0, "BF16", "-3.3895314e38 to 3.3895314e38")),
        ("FP32", "[0,1e39]", range("1e39", 1, "FP32", "-3.4028235e38 to 3.4028235e38")),
        ("FP64", "[0,-1e999]", range("-1e999", 1, "FP64", "-1.7976931348623157e308 to 1.7976931348623157e308")),
        ("INT32", "[0,1.0]", "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer (value 1.0 at index 1 of input 'x' of type INT32)".to_owned()),
        ("UINT8", "[1e2,0]", "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer (value 1e2 at index 0 of input 'x' of type UINT8)".to_owned()),
        ("INT8", "[NaN,0]", "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer (value NaN at index 0 of input 'x' of type INT8)".to_owned()),
        ("INT8", "[true,0]", "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer (boolean at index 0 of input 'x' of type INT8)".to_owned()),
        ("FP32", "[0,\"1\"]", "Unable to parse 'data': attempt to access JSON non-number as double (string at index 1 of input 'x' of type FP32)".to_owned()),
        ("FP32", "[null,0]", "Unable to parse 'data': attempt to access JSON non-number as double (null at index 0 of input 'x' of type FP32)".to_owned()),
        ("FP32", "[{},0]", "Unable to parse 'data': attempt to access JSON non-number as double (object at index 0 of input 'x' of type FP32)".to_owned()),
        ("BOOL", "[1,0]", "Unable to parse 'data': attempt to access JSON non-boolean as boolean (number at index 0 of input 'x' of type BOOL)".to_owned()),
        ("BYTES", "[\"a\",1]", "Unable to parse JSON bytes array: attempt to access JSON non-string as string (number at index 1 of input 'x' of type BYTES)".to_owned()),
    ];
    for (data_type, data, text) in cases {
        check(&body(data_type, "[2]", data), ErrorCode::InvalidTensors, &text);
    }
    check(
        &body("FP32", "[1]", "1.5"),
        ErrorCode::MalformedRequest,
        "Unable to parse 'data': attempt to access JSON non-array as array (in inputs[0])",
    );
    check(
        &body("FP32", "[1]", "[1.5.2]"),
        ErrorCode::MalformedRequest,
        "failed to parse the request JSON buffer: expected ',' or ']' after an element at 64",
    );
}

#[test]
fn data_of_another_length_than_its_shape() {
    let cases = [
        (
            body("FP32", "[1,2]", "[1,2,3]"),
            "Unable to parse 'data': Shape does not match true shape of 'data' field (input 'x' of shape [1,2] holds 2 values, 'data' has more)",
        ),
        (
            body("FP32", "[0,2]", "[1]"),
            "Unable to parse 'data': Shape does not match true shape of 'data' field (input 'x' of shape [0,2] holds 0 values, 'data' has more)",
        ),
        (
            body("FP32", "[2,2]", "[[1,2],[3]]"),
            "Failed to parse 'data' field: shape does not match true shape (input 'x' of shape [2,2] holds 4 values, 'data' has 3)",
        ),
        (
            body("BOOL", "[]", "[]"),
            "Failed to parse 'data' field: shape does not match true shape (input 'x' of shape [] holds 1 values, 'data' has 0)",
        ),
        (
            body("BYTES", "[1]", r#"["a","b"]"#),
            "[request id: <id_unknown>] unexpected number of string elements 2 for inference input 'x' for model 'm', expecting 1",
        ),
        (
            body("BYTES", "[3]", r#"["a","b"]"#),
            "[request id: <id_unknown>] expected 3 string elements for inference input 'x' for model 'm', got 2",
        ),
    ];
    for (body, text) in cases {
        check(&body, ErrorCode::InvalidTensors, text);
    }
}

#[test]
fn shapes_and_types_that_cannot_be() {
    let cases = [
        (
            body("FP32", "[4294967296,4294967296]", "[1]"),
            "invalid shape for input 'x': shape [4294967296,4294967296] causes total element count to exceed maximum size of 9223372036854775807",
        ),
        (
            body("FP32", "[4,1152921504606846978]", "[1]"),
            "byte size overflow for input 'x': element count (4611686018427387912) * data type size (4) exceeds maximum allowed size (9223372036854775807)",
        ),
        (
            body("float", "[1]", "[1]"),
            "invalid datatype for input x ('float' is none of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES)",
        ),
    ];
    for (body, text) in cases {
        check(&body, ErrorCode::InvalidTensors, text);
    }
}

#[test]
fn an_input_larger_than_the_limit() {
    let limit = |body: &str| {
        let signature = signature();
        parse_infer(&json_body(body.as_bytes()), &InferContext { data_bytes_max: 8, ..context(&signature) })
    };
    let text = |bytes: u32| {
        format!(
            "JSON input 'x' has a byte_size ({bytes} bytes) that exceeds the maximum allowed value of 8 bytes. Use --http-max-input-size to increase the limit."
        )
    };
    for (body, bytes) in [(body("FP32", "[3]", "[1,2,3]"), 12), (body("BYTES", "[1]", r#"["abcde"]"#), 9)] {
        let error = limit(&body).expect_err("too large");
        assert_eq!((error.code, error.text), (ErrorCode::InvalidTensors, text(bytes)));
    }
    assert!(limit(&body("FP32", "[2]", "[1,2]")).is_ok());
    assert!(limit(&body("BYTES", "[1]", r#"["abcd"]"#)).is_ok());
}

#[test]
fn names_that_come_twice_carry_the_requests_id_wherever_it_stands() {
    let x = r#"{"name":"x","datatype":"BOOL","shape":[1],"data":[true]}"#;
    let cases = [
        (format!(r#"{{"inputs":[{x},{x}]}}"#), "[request id: <id_unknown>] input 'x' already exists in request"),
        (format!(r#"{{"id":"7","inputs":[{x},{x}]}}"#), "[request id: 7] input 'x' already exists in request"),
        (format!(r#"{{"inputs":[{x},{x}],"id":"7"}}"#), "[request id: 7] input 'x' already exists in request"),
        (format!(r#"{{"inputs":[{x},{x}],"id":7}}"#), "[request id: <id_unknown>] input 'x' already exists in request"),
        (
            r#"{"id":"","inputs":[],"outputs":[{"name":"y"},{"name":"y"}]}"#.to_owned(),
            "[request id: <id_unknown>] output 'y' already exists in request",
        ),
    ];
    for (body, text) in cases {
        check(&body, ErrorCode::InvalidTensors, text);
    }
}

#[test]
fn lists_far_longer_than_the_models() {
    let inputs: Vec<String> =
        (0..67).map(|i| format!(r#"{{"name":"n{i}","datatype":"BOOL","shape":[1],"data":[true]}}"#)).collect();
    let body = |count: usize| format!(r#"{{"inputs":[{}]}}"#, inputs[..count].join(","));
    assert_eq!(parse(&body(66)).expect("the signature refuses these").inputs.len(), 66);
    check(&body(67), ErrorCode::InvalidTensors, "request lists more than 66 inputs, but model 'm' has 2");
    let outputs: Vec<String> = (0..67).map(|i| format!(r#"{{"name":"n{i}"}}"#)).collect();
    let body = format!(r#"{{"inputs":[],"outputs":[{}]}}"#, outputs.join(","));
    check(&body, ErrorCode::InvalidTensors, "request lists more than 66 outputs, but model 'm' has 2");
}

#[test]
fn nesting_beyond_the_limit() {
    let nested = |depth: usize, value: &str| format!("{}{value}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse_one("INT64", "[1]", &nested(99, "1")).is_ok());
    assert!(parse_one("INT64", "[0]", &nested(100, "")).is_ok());
    let text = "JSON nesting depth exceeds maximum allowed limit (100)";
    let in_data = format!("Unable to parse 'data': {text}");
    let malformed = ErrorCode::MalformedRequest;
    check(&body("INT64", "[1]", &nested(100, "1")), malformed, &in_data);
    check(&body("BYTES", "[1]", &nested(100, "\"a\"")), malformed, text);
    check(&body("FP32", "[1]", &"[".repeat(1 << 20)), malformed, &in_data);
    check(&format!(r#"{{"ignored":{}}}"#, nested(100, "1")), malformed, text);
    check(&format!(r#"{{"ignored":{}}}"#, "[{\"a\":".repeat(1 << 20)), malformed, text);
}

#[test]
fn long_values_are_cut_in_texts() {
    let long = "é".repeat(1000);
    let error = parse_one(&long, "[1]", "[1]").expect_err("no such type");
    assert!(error.text.starts_with(&format!("invalid datatype for input x ('{}…' is none of", "é".repeat(64))));
    let digits = "9".repeat(1000);
    let error = parse_one("INT8", "[1]", &format!("[{digits}]")).expect_err("too large");
    assert!(error.text.len() < 300, "{}", error.text);
}

#[test]
fn claimed_shapes_reserve_no_more_than_the_body_can_hold() {
    assert_eq!(room(16 << 20, 10), 5);
    assert_eq!(room(u64::MAX, 0), 0);
    assert_eq!(room(3, 1000), 3);
}

#[test]
fn bytes_that_json_cannot_hold() {
    let data = Bytes::from_static(b"\x01\0\0\0a\x01\0\0\0\xff");
    let tensor = Tensor::new("y".into(), DataType::Bytes, vec![2], data).expect("fits");
    let error = render(&[tensor]).expect_err("not UTF-8");
    assert_eq!(error.code, ErrorCode::NotSupported);
    assert_eq!(
        error.text,
        "output 'y' has bytes that are not UTF-8 at index 1, and JSON strings cannot hold them; ask for it with \
         \"binary_data\": true, or for all outputs with \"binary_data_output\": true"
    );
}
