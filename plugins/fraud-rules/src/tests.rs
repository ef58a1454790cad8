//! The plugin against an independent implementation of its contract: `tests/python/fraud_vectors.py` made the vectors.

use airlock_plugin::{Adapter, FieldError, PluginError, Prepared, Tensor, testing};
use serde::Deserialize;
use serde_json::Value;

use crate::FraudRules;
use crate::application::Application;

#[derive(Deserialize)]
struct Vectors {
    good: Vec<Good>,
    bad: Vec<Bad>,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Good {
    body: String,
    input: String,
    age: String,
}

#[derive(Deserialize)]
struct Bad {
    body: String,
    pointers: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Answer {
    y: String,
    age: String,
    answer: Value,
}

/// The committed vectors, or those of a longer run named by the environment's FRAUD_VECTORS.
fn vectors() -> Vectors {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/fraud/vectors.json");
    let path = std::env::var("FRAUD_VECTORS").unwrap_or_else(|_| committed.to_owned());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<char> = hexadecimal.chars().collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

fn refused(body: &str) -> PluginError {
    match FraudRules::preprocess(testing::request(body)) {
        Err(error) => error,
        Ok(_) => panic!("{body} was taken"),
    }
}

fn fields(body: &str) -> Vec<FieldError> {
    match refused(body) {
        PluginError::Invalid(errors) => errors,
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn good_bodies_lead_to_the_same_input() {
    let vectors = vectors();
    assert!(vectors.good.len() > 50);
    for Good { body, input, age } in vectors.good {
        let prepared = FraudRules::preprocess(testing::request(body.as_str()));
        let Ok(Prepared::Infer(inference)) = prepared else { panic!("{body}: {prepared:?}") };
        let [tensor] = inference.inputs.as_slice() else { panic!("{:?}", inference.inputs) };
        assert_eq!((tensor.name.as_str(), tensor.shape.as_slice()), ("input__0", [1, 128].as_slice()));
        assert_eq!(tensor.data, bytes(&input), "{body}");
        assert_eq!(inference.carry, bytes(&age), "{body}");
    }
}

#[test]
fn the_scan_takes_usual_bodies_and_only_good_ones() {
    let bits = |application: &Application| (application.age.to_bits(), application.features.map(f32::to_bits));
    let vectors = vectors();
    let mut taken = 0;
    for Good { body, .. } in &vectors.good {
        let expected = Application::deserialize(body.as_bytes()).unwrap();
        if let Some(scanned) = Application::scan(body.as_bytes()) {
            assert_eq!(bits(&scanned), bits(&expected), "{body}");
            taken += 1;
        } else {
            assert!(body.contains('\\'), "{body}");
        }
    }
    assert!(taken > 10);
    for Bad { body, .. } in &vectors.bad {
        assert!(Application::scan(body.as_bytes()).is_none(), "{body}");
    }
}

#[test]
fn bad_bodies_are_refused_with_every_wrong_field() {
    let vectors = vectors();
    assert!(vectors.bad.len() > 50);
    for Bad { body, pointers } in vectors.bad {
        match pointers {
            Some(pointers) => {
                let found: Vec<String> = fields(&body).into_iter().map(|error| error.pointer).collect();
                assert_eq!(found, pointers, "{body}");
            }
            None => assert!(matches!(refused(&body), PluginError::Malformed(_)), "{body}"),
        }
    }
}

#[test]
fn scores_lead_to_the_same_answers() {
    let vectors = vectors();
    assert!(vectors.answers.len() > 200);
    for Answer { y, age, answer } in vectors.answers {
        let output = Tensor { data: bytes(&y), ..Tensor::fp32("output__0", [1, 2], &[]) };
        let carry = age.parse::<f64>().unwrap().to_le_bytes().to_vec();
        let response = FraudRules::postprocess(testing::call(), vec![output], carry).unwrap();
        assert_eq!((response.status, response.content_type.as_str()), (200, "application/json"));
        assert_eq!(serde_json::from_slice::<Value>(&response.body).unwrap(), answer, "score {y}, age {age}");
    }
}

#[test]
fn refusals_name_stable_codes() {
    let ones = ["1"; 127].join(",");
    let body = format!(r#"{{"user_id": "", "age": "121", "features": [{ones}, 1e39], "more": 0}}"#);
    let codes: Vec<(String, String)> = fields(&body).into_iter().map(|e| (e.pointer, e.code)).collect();
    let expected = [
        ("/more", "unknown_field"),
        ("/user_id", "wrong_length"),
        ("/age", "out_of_range"),
        ("/features/127", "out_of_range"),
    ];
    assert_eq!(codes, expected.map(|(pointer, code)| (pointer.to_owned(), code.to_owned())));
}

#[test]
fn a_long_list_of_wrong_features_is_cut() {
    let body = format!(r#"{{"user_id": "u", "age": "1", "features": [{}]}}"#, vec!["null"; 10_000].join(","));
    let errors = fields(&body);
    assert_eq!(errors.len(), airlock_plugin::FIELD_ERRORS_MAX + 1);
    assert_eq!(errors.last().unwrap().code, "more_errors");
}

#[test]
fn other_content_types_are_refused() {
    let mut request = testing::request("{}");
    request.call.content_type = Some("text/plain".to_owned());
    assert!(matches!(FraudRules::preprocess(request), Err(PluginError::UnsupportedMedia(_))));
}

#[test]
fn what_the_model_should_not_answer_is_an_internal_error() {
    let age = 40f64.to_le_bytes().to_vec();
    let post = |outputs, carry| FraudRules::postprocess(testing::call(), outputs, carry);
    let cases = [
        (vec![], age.clone(), "no output `output__0`"),
        (vec![Tensor::fp32("output__0", [1, 1], &[0.5])], age.clone(), "has 1 elements"),
        (vec![Tensor::fp64("output__0", [1, 2], &[0.5, 0.5])], age.clone(), "is FP64"),
        (vec![Tensor::fp32("output__0", [1, 2], &[0.5, f32::NAN])], age, "score is NaN"),
        (vec![Tensor::fp32("output__0", [1, 2], &[0.5, 0.5])], vec![0; 4], "4 bytes were carried"),
    ];
    for (outputs, carry, expected) in cases {
        let error = post(outputs, carry).unwrap_err();
        assert!(matches!(&error, PluginError::Internal(text) if text.contains(expected)), "{error:?}");
    }
}
