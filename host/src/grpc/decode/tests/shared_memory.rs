//! Requests that name parts of shared memory regions.

use std::collections::HashMap;

use super::super::super::proto::inference::infer_parameter::ParameterChoice;
use super::super::super::proto::inference::{InferParameter, InferTensorContents};
use super::super::*;
use super::{input, request, signature};
use crate::shared_memory::fixture::{ClientObject, memory};
use crate::shared_memory::{DISABLED, PartClaim};

/// A parameter of an input or output.
fn parameter(value: impl Into<ParameterChoice>) -> InferParameter {
    InferParameter { parameter_choice: Some(value.into()) }
}

impl From<&str> for ParameterChoice {
    fn from(text: &str) -> Self {
        Self::StringParam(text.to_owned())
    }
}

impl From<i64> for ParameterChoice {
    fn from(number: i64) -> Self {
        Self::Int64Param(number)
    }
}

/// What names `byte_size` bytes from `offset` on of the region `r`.
fn part(offset: i64, byte_size: i64) -> HashMap<String, InferParameter> {
    HashMap::from([
        ("shared_memory_region".to_owned(), parameter("r")),
        ("shared_memory_offset".to_owned(), parameter(offset)),
        ("shared_memory_byte_size".to_owned(), parameter(byte_size)),
    ])
}

/// Parameters without one of them, or with another value of it.
fn changed(key: &str, value: Option<ParameterChoice>) -> HashMap<String, InferParameter> {
    let mut parameters = part(0, 8);
    match value {
        Some(value) => drop(parameters.insert(key.to_owned(), parameter(value))),
        None => drop(parameters.remove(key)),
    }
    parameters
}

fn decode_with(memory: &SharedMemory, message: ModelInferRequest) -> Result<InferRequest, RequestFailure> {
    let signature = signature();
    decode_infer(message, &DecodeContext { model: "m", signature: &signature, shared_memory: memory })
}

fn shared() -> (ClientObject, SharedMemory) {
    let (object, memory) = (ClientObject::new(b"........ABCDEFGH"), memory());
    memory.register("r", object.place(0, 16)).expect("registered");
    (object, memory)
}

fn x_with(parameters: HashMap<String, InferParameter>) -> InferInputTensor {
    InferInputTensor { parameters, ..input("x", "FP32", &[1, 2]) }
}

fn y_with(parameters: HashMap<String, InferParameter>) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor { name: "y".to_owned(), parameters }
}

#[test]
fn inputs_in_regions_take_no_raw_contents() {
    let (_object, memory) = shared();
    let inputs = vec![x_with(part(8, 8)), input("s", "BYTES", &[1, 1])];
    let mut message = request(inputs, vec![b"\x01\0\0\0a"]);
    message.outputs = vec![y_with(part(0, 8))];
    let request = decode_with(&memory, message).expect("a request");
    assert_eq!(
        request.inputs.iter().map(|input| &input.data()[..]).collect::<Vec<_>>(),
        [b"ABCDEFGH", &b"\x01\0\0\0a"[..]]
    );
    let expected = memory.part(&PartClaim { region: "r".to_owned(), offset: 0, byte_size: 8 }).expect("within");
    assert_eq!(request.outputs[0].form, OutputForm::Region(expected));
}

#[test]
fn wrong_parts_are_refused_in_tritons_words() {
    let (_object, memory) = shared();
    let wrong = |key: &str, wanted: &str| {
        (
            ErrorCode::MalformedRequest,
            format!("invalid value type for '{key}' parameter for tensor 'x', expected {wanted}."),
        )
    };
    let stray = |key: &str| {
        let text = format!("'{key}' can not be specified without 'shared_memory_region' parameter for tensor 'x'");
        (ErrorCode::MalformedRequest, text)
    };
    let (region, offset, size) = ("shared_memory_region", "shared_memory_offset", "shared_memory_byte_size");
    let without_both = || HashMap::from([(size.to_owned(), parameter(8))]);
    let refused = |text: &str| (ErrorCode::InvalidRegion, text.to_owned());
    let cases = [
        (changed(region, Some(7.into())), wrong(region, "string_param")),
        (changed(offset, Some("0".into())), wrong(offset, "int64_param")),
        (changed(size, Some("8".into())), wrong(size, "int64_param")),
        (changed(region, None), stray(offset)),
        (without_both(), stray(size)),
        (
            changed(size, None),
            (
                ErrorCode::MalformedRequest,
                format!("'{size}' must be specified along with '{region}' parameter for tensor 'x'"),
            ),
        ),
        (
            changed(region, Some("s".into())),
            (ErrorCode::RegionNotFound, "Unable to find shared memory region: 's'".to_owned()),
        ),
        (part(16, 0), refused("Invalid offset for shared memory region: 'r' (offset 16 in 16 bytes)")),
        (
            part(-1, 8),
            refused("Invalid offset for shared memory region: 'r' (offset 18446744073709551615 in 16 bytes)"),
        ),
        (
            part(12, 8),
            refused("Invalid offset + byte size for shared memory region: 'r' (offset 12 and 8 bytes in 16)"),
        ),
        (
            part(1, -1),
            refused(
                "Integer overflow detected: byte_size (18446744073709551615) + offset (1) exceeds maximum value \
                 (18446744073709551615) for region 'r'",
            ),
        ),
        (
            part(0, 4),
            (
                ErrorCode::InvalidTensors,
                "[request id: <id_unknown>] input byte size mismatch for input 'x' for model 'm'. Expected 8, got 4"
                    .to_owned(),
            ),
        ),
    ];
    for (parameters, expected) in cases {
        let failure = decode_with(&memory, request(vec![x_with(parameters)], vec![])).expect_err(&expected.1);
        assert_eq!((failure.code, failure.text), expected);
    }
}

#[test]
fn a_part_goes_with_nothing_else_and_needs_the_flag() {
    let (_object, memory) = shared();
    let mut both = request(vec![x_with(part(0, 8))], vec![]);
    both.inputs[0].contents = Some(InferTensorContents::default());
    let text = "unexpected 'content' provided when using shared memory for input tensor 'x' for model 'm'";
    assert_eq!(decode_with(&memory, both).expect_err(text).text, text);
    let mut classes = request(vec![x_with(part(0, 8))], vec![]);
    let parameters = changed("classification", Some(1.into()));
    classes.outputs = vec![y_with(parameters)];
    let text = "output can't set both 'shared_memory_region' and 'classification'";
    assert_eq!(decode_with(&memory, classes).expect_err(text).text, text);
    let off = decode_with(&DISABLED, request(vec![x_with(part(0, 8))], vec![])).expect_err("off");
    assert_eq!(off.code, ErrorCode::SharedMemoryDisabled);
}
