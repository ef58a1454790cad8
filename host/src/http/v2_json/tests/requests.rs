//! Requests that are taken, and what becomes of them.

use std::sync::Arc;

use bytes::Bytes;
use model::{DataType, Tensor};

use super::super::{
    Encoding, InferAnswer, InferContext, OutputForm, ParameterValue, RequestedOutput, parse_infer, render_infer,
};
use super::{context, encoded, json_body, parse, parse_one, render, signature};

/// Checks values as written against their bytes.
fn check(data_type: &str, data: &str, bytes: &[u8]) {
    let size = DataType::from_v2_name(data_type).and_then(DataType::element_size).expect("of fixed size");
    let tensor = parse_one(data_type, &format!("[{}]", bytes.len() / size), data).expect(data);
    assert_eq!(&tensor.data()[..], bytes, "{data_type} {data}");
}

#[test]
fn values_become_little_endian_bytes() {
    check("BOOL", "[true,false]", &[1, 0]);
    check("UINT8", "[0,255]", &[0, 255]);
    check("INT8", "[-128,127,-0]", &[0x80, 0x7f, 0]);
    check("UINT16", "[513]", &[1, 2]);
    check("INT16", "[-2]", &[0xfe, 0xff]);
    check("UINT32", "[4294967295]", &[0xff; 4]);
    check("INT32", "[-2147483648]", &[0, 0, 0, 0x80]);
    check("UINT64", "[18446744073709551615]", &[0xff; 8]);
    check("INT64", "[-9223372036854775808]", &[0, 0, 0, 0, 0, 0, 0, 0x80]);
    check("FP32", "[1,-0.0,1e0,10E-1]", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x80, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f]);
    check("FP64", "[-2]", &[0, 0, 0, 0, 0, 0, 0, 0xc0]);
    check("FP16", "[1.5,65519.999]", &[0, 0x3e, 0xff, 0x7b]);
    check("BF16", "[1.5]", &[0xc0, 0x3f]);
}

#[test]
fn decimals_are_rounded_as_every_neighbour_rounds_them() {
    let f64s = [
        "0.1",
        "123456789012345678901234567890",
        "9007199254740993",
        "9007199254740992e22",
        "1e22",
        "1e23",
        "5e-324",
        "2.5e-324",
        "1.7976931348623157e308",
        "0.000000000000000000000000000000000001",
        "1e-400",
        "0e999999999999999999999",
        "179769313486231570000000000000000000000000000000000000000000000000000000000000000",
        "4.35",
        "1e+2",
        "-0",
        "0.30000000000000004",
        "8.5e-23",
        "1E22",
        "12345678901234567890",
        "99999999999999999999.5",
        "1e-99999999999999999999",
    ];
    for text in f64s {
        let expected: f64 = text.parse().expect(text);
        check("FP64", &format!("[{text}]"), &expected.to_le_bytes());
        if expected.abs() < 1e38 {
            check("FP32", &format!("[{text}]"), &(expected as f32).to_le_bytes());
        }
    }
    // A tie of FP32 once rounded to FP64, and above the tie before.
    check("FP32", "[1.0000000596046448]", &1f32.to_le_bytes());
}

#[test]
fn half_precision_is_rounded_once() {
    // Halfway between 1 and the next FP16, and one FP64 step to each side of it.
    check("FP16", "[1.00048828125,1.0004882812500002,1.0004882812499998]", &[0, 0x3c, 1, 0x3c, 0, 0x3c]);
    check("FP16", "[-1.0004882812500002,1.00146484375]", &[1, 0xbc, 2, 0x3c]);
    // Half of the least FP16, and a little more.
    check("FP16", "[2.9802322387695312e-8,2.9802322387695316e-8,1e-300]", &[0, 0, 1, 0, 0, 0]);
}

#[test]
fn numbers_without_a_json_form_are_read_and_written_as_triton_does() {
    for data_type in ["FP16", "BF16", "FP32", "FP64"] {
        let tensor = parse_one(data_type, "[3]", "[NaN, Infinity,-Infinity]").expect(data_type);
        let text = render(&[tensor]).expect("renders");
        assert!(text.ends_with("\"data\":[NaN,Infinity,-Infinity]}]}"), "{text}");
    }
}

#[test]
fn strings_keep_their_bytes() {
    let tensor =
        parse_one("BYTES", "[2,2]", r#"[["","a\"\\\/\b\f\n\r\t"],["\u00e9\uD83D\ude00","模"]]"#).expect("parses");
    assert_eq!(
        &tensor.data()[..],
        b"\0\0\0\0\x09\0\0\0a\"\\/\x08\x0c\n\r\t\x06\0\0\0\xc3\xa9\xf0\x9f\x98\x80\x03\0\0\0\xe6\xa8\xa1"
    );
}

#[test]
fn members_come_in_any_order_and_strangers_are_ignored() {
    let body = r#" {
        "unknown": {"a": [null, true, -1.5e3, "s"]}, "id": "r\u0031",
        "outputs": [{"name": "w", "parameters": {"binary_data": false, "classification": 0, "other": []}}, {"name": "y"}],
        "inputs": [{"data": [[1], [2]], "extra": 1, "parameters": {"mine": [1]}, "shape": [2, 1], "datatype": "UINT8", "name": "q"}]
    } "#;
    let request = parse(body).expect("parses");
    assert_eq!(request.id.as_deref(), Some("r1"));
    let plain = |name: &str| RequestedOutput { name: name.to_owned(), form: OutputForm::Values(Encoding::Json) };
    assert_eq!(request.outputs, [plain("w"), plain("y")]);
    let expected = Tensor::new("q".into(), DataType::Uint8, vec![2, 1], Bytes::from_static(&[1, 2])).expect("fits");
    assert_eq!(request.inputs, [expected]);
}

#[test]
fn an_input_shares_the_models_name() {
    let signature = signature();
    let body = super::body("FP32", "[1]", "[1]");
    let context = InferContext { data_bytes_max: 4, ..context(&signature) };
    let request = parse_infer(&json_body(body.as_bytes()), &context).expect("parses");
    assert!(Arc::ptr_eq(request.inputs[0].name(), &signature.inputs[0].name));
}

#[test]
fn parameters_are_typed() {
    let body = r#"{"inputs":[],"parameters":{"sequence_id":7,"priority":0,"timeout":18446744073709551615,"sequence_start":true,
        "sequence_end":false,"binary_data_output":false,"a":-1,"b":9223372036854775808,"c":1.5,"d":"t","e":true,"f":1e3,
        "g":18446744073709551616}}"#;
    let expected = [
        ("sequence_id", ParameterValue::Unsigned(7)),
        ("priority", ParameterValue::Unsigned(0)),
        ("timeout", ParameterValue::Unsigned(u64::MAX)),
        ("sequence_start", ParameterValue::Boolean(true)),
        ("sequence_end", ParameterValue::Boolean(false)),
        ("a", ParameterValue::Signed(-1)),
        ("b", ParameterValue::Unsigned(1 << 63)),
        ("c", ParameterValue::Real(1.5)),
        ("d", ParameterValue::Text("t".to_owned())),
        ("e", ParameterValue::Boolean(true)),
        ("f", ParameterValue::Real(1000.0)),
        ("g", ParameterValue::Real(18_446_744_073_709_551_616.0)),
    ];
    assert_eq!(parse(body).expect("parses").parameters, expected.map(|(key, value)| (key.to_owned(), value)));
    let body = r#"{"inputs":[],"parameters":{"sequence_id":"s"}}"#;
    let text = ParameterValue::Text("s".to_owned());
    assert_eq!(parse(body).expect("parses").parameters, [("sequence_id".to_owned(), text)]);
}

#[test]
fn an_answer_has_tritons_shape() {
    let tensor = |name: &str, data_type, shape: &[u64], data: &'static [u8]| {
        Tensor::new(name.into(), data_type, shape.to_vec(), Bytes::from_static(data)).expect("fits")
    };
    let outputs = [
        tensor("la\"bel", DataType::Bytes, &[1, 2], b"\x02\0\0\0a\"\0\0\0\0"),
        tensor("score", DataType::Fp32, &[1, 2], b"\xcd\xcc\xcc\x3d\0\0\0\x80"),
        tensor("none", DataType::Int64, &[0], b""),
        tensor("flag", DataType::Bool, &[2], b"\0\x02"),
    ];
    let outputs = encoded(&outputs, Encoding::Json);
    let answer = InferAnswer { model: "m", version: "3", id: Some("7\n"), outputs: &outputs };
    assert_eq!(
        String::from_utf8_lossy(&render_infer(&answer).expect("renders").body),
        concat!(
            r#"{"id":"7\n","model_name":"m","model_version":"3","outputs":["#,
            r#"{"name":"la\"bel","datatype":"BYTES","shape":[1,2],"data":["a\"",""]},"#,
            r#"{"name":"score","datatype":"FP32","shape":[1,2],"data":[0.1,-0.0]},"#,
            r#"{"name":"none","datatype":"INT64","shape":[0],"data":[]},"#,
            r#"{"name":"flag","datatype":"BOOL","shape":[2],"data":[false,true]}]}"#
        )
    );
}
