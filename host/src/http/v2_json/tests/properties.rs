//! What holds for every body and every tensor.

use bytes::Bytes;
use model::{BytesElements, DataType, ErrorCode, Tensor};
use proptest::prelude::{Just, Strategy, any, prop, proptest};
use serde::de::IgnoredAny;

use super::super::{InferBody, V2Error, parse_infer};
use super::{body, context, parse_bytes, parse_one, render, signature};

/// Bodies near the valid ones.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let valid = prop::sample::select(vec![
        body("FP32", "[2,2]", "[[1.5,-2e3],[0,NaN]]"),
        body("BYTES", "[2]", "[\"a\\u00e9\",\"\"]"),
        body("INT64", "[1]", "[-9223372036854775808]"),
        concat!(r#"{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}}]}"#, "\u{1}\0\0\0a").to_owned(),
        r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]}"#
            .to_owned(),
        r#"{"id":"7","parameters":{"priority":1,"a":"b"},"inputs":[{"data":[[true]],"shape":[1],"name":"x","datatype":"BOOL"}],
            "outputs":[{"name":"y","parameters":{"binary_data":false}}]}"#
            .to_owned(),
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..6);
    (valid, edits).prop_map(|(valid, edits)| {
        let mut body = valid.into_bytes();
        for (index, byte, edit) in edits {
            let at = index.index(body.len() + 1);
            match edit {
                0 if at < body.len() => body[at] = byte,
                1 => body.insert(at, byte),
                2 => body.truncate(at),
                _ if at < body.len() => drop(body.remove(at)),
                _ => {}
            }
            if edit == 3 {
                let again = body[..at.min(body.len())].to_vec();
                body.extend_from_slice(&again);
            }
        }
        body
    })
}

/// Any tensor that has a JSON form.
fn tensors() -> impl Strategy<Value = Tensor> {
    let types = prop::sample::select(DataType::ALL.to_vec());
    (types, prop::collection::vec(0..4_u64, 0..4)).prop_flat_map(|(data_type, shape)| {
        let count = usize::try_from(shape.iter().product::<u64>()).expect("small");
        let data = match data_type.element_size() {
            Some(size) => prop::collection::vec(any::<u8>(), count * size).boxed(),
            None => prop::collection::vec(any::<String>(), count).prop_map(|texts| length_prefixed(&texts)).boxed(),
        };
        (Just(data_type), Just(shape), data).prop_map(|(data_type, shape, mut data)| {
            if data_type == DataType::Bool {
                data.iter_mut().for_each(|byte| *byte &= 1);
            }
            Tensor::new("x".into(), data_type, shape, Bytes::from(data)).expect("fits")
        })
    })
}

fn length_prefixed(texts: &[String]) -> Vec<u8> {
    let length = |text: &String| u32::try_from(text.len()).expect("short").to_le_bytes();
    texts.iter().flat_map(|text| length(text).into_iter().chain(text.bytes())).collect()
}

/// The bits, with all that are not a number made equal: JSON has one word for them.
fn comparable(tensor: &Tensor) -> Vec<u64> {
    let data = tensor.data();
    match tensor.data_type() {
        DataType::Fp16 => data.as_chunks().0.iter().map(|&b| half::f16::from_le_bytes(b).to_f64()).map(bits).collect(),
        DataType::Bf16 => data.as_chunks().0.iter().map(|&b| half::bf16::from_le_bytes(b).to_f64()).map(bits).collect(),
        DataType::Fp32 => data.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).map(bits).collect(),
        DataType::Fp64 => data.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).map(bits).collect(),
        _ => data.iter().map(|&byte| u64::from(byte)).collect(),
    }
}

fn bits(value: f64) -> u64 {
    if value.is_nan() { u64::MAX } else { value.to_bits() }
}

/// A refusal has a text, and it is the body that is wrong, unless it asks for the shared memory that is off here.
fn check_refusal(error: &V2Error) {
    let is_400 = error.code.http_status() == 400;
    assert!(!error.text.is_empty() && (is_400 || error.code == ErrorCode::SharedMemoryDisabled), "{error:?}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = parse_bytes(&body);
    }

    #[test]
    fn bodies_cut_anywhere_never_panic(body in mutated(), cut in any::<prop::sample::Index>()) {
        let length = cut.index(body.len() + 1).to_string();
        let split = InferBody::split(Bytes::from(body), Some(&length)).expect("within the body");
        if let Err(error) = parse_infer(&split, &context(&signature())) {
            check_refusal(&error);
        }
    }

    #[test]
    fn bodies_near_valid_ones_never_panic(body in mutated()) {
        match parse_bytes(&body) {
            Ok(request) => {
                // What is taken is JSON, but for the numbers without a JSON form, and its tensors are whole.
                let text = String::from_utf8(body).expect("what is taken is UTF-8");
                let text = text.replace("-Infinity", "0").replace("Infinity", "0").replace("NaN", "0");
                assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{text}");
                for input in request.inputs.iter().filter(|t| t.data_type() == DataType::Bytes) {
                    assert!(BytesElements::new(input.data()).all(|element| std::str::from_utf8(element).is_ok()));
                }
            }
            Err(error) => check_refusal(&error),
        }
    }

    #[test]
    fn tensors_survive_the_way_out_and_back(tensor in tensors()) {
        let text = render(std::slice::from_ref(&tensor)).expect("renders");
        let (_, data) = text.split_once("\"data\":").expect("there is data");
        let data = data.strip_suffix("}]}").expect("the answer ends there");
        let shape = model::display_shape(tensor.shape());
        let back = parse_one(tensor.data_type().v2_name(), &shape, data).expect(data);
        assert_eq!(back.shape(), tensor.shape());
        assert_eq!(comparable(&back), comparable(&tensor), "{data}");
    }
}
