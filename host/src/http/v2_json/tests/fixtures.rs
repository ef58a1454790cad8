//! Python's word against ours: requests as Python's json writes them with bytes from NumPy, and answers the other way
//! round. `tests/python/make_v2_fixtures.py` writes the files.

use bytes::Bytes;
use model::{DataType, Tensor};
use serde::Deserialize;

use super::super::{Encoding, InferAnswer, render_infer};
use super::{encoded, parse, render, unhex};

const REQUESTS: &str = include_str!("../../../../../tests/fixtures/v2/requests.json");
const ANSWERS: &str = include_str!("../../../../../tests/fixtures/v2/answers.json");
const DIGITS: &str = include_str!("../../../../../tests/fixtures/v2/digits.json");

#[derive(Deserialize)]
struct RequestCase {
    name: String,
    body: String,
    id: Option<String>,
    inputs: Vec<TensorCase>,
}

#[derive(Deserialize)]
struct AnswerCase {
    name: String,
    id: Option<String>,
    outputs: Vec<TensorCase>,
    text: String,
}

#[derive(Deserialize)]
struct TensorCase {
    name: String,
    datatype: String,
    shape: Vec<u64>,
    hex: String,
}

#[derive(Deserialize)]
struct DigitsCase {
    datatype: String,
    hex: String,
    decimal: String,
}

impl TensorCase {
    fn tensor(&self) -> Tensor {
        let data_type = DataType::from_v2_name(&self.datatype).expect("a v2 name");
        Tensor::new(self.name.as_str().into(), data_type, self.shape.clone(), unhex(&self.hex).into())
            .expect("NumPy's bytes fit")
    }
}

#[test]
fn requests_become_numpys_bytes() {
    let cases: Vec<RequestCase> = serde_json::from_str(REQUESTS).expect("the fixture reads");
    assert!(cases.len() >= 20);
    for case in cases {
        let request = parse(&case.body).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let expected: Vec<Tensor> = case.inputs.iter().map(TensorCase::tensor).collect();
        assert_eq!(request.inputs, expected, "{}", case.name);
        assert_eq!(request.id, case.id, "{}", case.name);
    }
}

#[test]
fn answers_are_pythons_text() {
    let cases: Vec<AnswerCase> = serde_json::from_str(ANSWERS).expect("the fixture reads");
    assert!(cases.len() >= 20);
    for case in cases {
        let outputs: Vec<Tensor> = case.outputs.iter().map(TensorCase::tensor).collect();
        let outputs = encoded(&outputs, Encoding::Json);
        let answer = InferAnswer { model: "m", version: "3", id: case.id.as_deref(), outputs: &outputs };
        let rendered = render_infer(&answer).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(String::from_utf8_lossy(&rendered.body), case.text, "{}", case.name);
    }
}

#[test]
fn extreme_floats_have_numpys_digits() {
    let cases: Vec<DigitsCase> = serde_json::from_str(DIGITS).expect("the fixture reads");
    assert!(cases.len() >= 300);
    for case in cases {
        let data_type = DataType::from_v2_name(&case.datatype).expect("a v2 name");
        let tensor = Tensor::new("y".into(), data_type, vec![1], Bytes::from(unhex(&case.hex))).expect("fits");
        let text = render(&[tensor]).expect("renders");
        let (_, data) = text.split_once("\"data\":[").expect("there is data");
        let number = data.trim_end_matches(['}', ']']);
        assert_eq!(normal_form(number), normal_form(&case.decimal), "{number} and {}", case.decimal);
    }
}

/// Sign, digits without zeros at either end, and the power of ten of the last digit.
fn normal_form(number: &str) -> (bool, String, i32) {
    let (negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = number.split_once('e').unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent: i32 = exponent.parse().expect("an exponent");
    let mut digits = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    exponent -= i32::try_from(fraction.len()).expect("short");
    while digits.ends_with('0') {
        digits.pop();
        exponent += 1;
    }
    (negative, digits, exponent)
}
