//! Requests that name parts of shared memory regions, and what becomes of their answers.

use model::{DataType, ErrorCode, Tensor};

use super::super::{
    EncodedOutput, Encoding, InferAnswer, InferBody, InferContext, InferRequest, OutputForm, V2Error, parse_infer,
    render_infer,
};
use super::{context, json_body, signature};
use crate::shared_memory::fixture::{ClientObject, memory};
use crate::shared_memory::{DISABLED, PartClaim, SharedMemory};

fn parse(memory: &SharedMemory, body: &InferBody) -> Result<InferRequest, V2Error> {
    let signature = signature();
    parse_infer(body, &InferContext { shared_memory: memory, ..context(&signature) })
}

/// An input with these members of `parameters`.
fn input(name: &str, data_type: &str, shape: &str, parameters: &str) -> String {
    format!(r#"{{"name":"{name}","datatype":"{data_type}","shape":{shape},"parameters":{{{parameters}}}}}"#)
}

fn request(inputs: &[String], outputs: &str) -> String {
    format!(r#"{{"inputs":[{}],"outputs":[{outputs}]}}"#, inputs.join(","))
}

fn output(parameters: &str) -> String {
    request(&[], &format!(r#"{{"name":"y","parameters":{{{parameters}}}}}"#))
}

/// The region `r`: two FP32 from 0 on, a string from 8 on, and a truth from 15 on.
fn shared() -> (ClientObject, SharedMemory) {
    let (object, memory) = (ClientObject::new(b"\0\0\x80\x3f\0\0\0\xc0\x03\0\0\0abc\x02"), memory());
    memory.register("r", object.place(0, 16)).expect("registered");
    (object, memory)
}

#[test]
fn inputs_come_from_regions_beside_others_in_binary_and_json() {
    let (_object, memory) = shared();
    let part = |offset: u64, size: u64| {
        format!(r#""shared_memory_region":"r","shared_memory_offset":{offset},"shared_memory_byte_size":{size}"#)
    };
    let inputs = [
        input("binary", "UINT8", "[1]", r#""binary_data_size":1"#),
        input("x", "FP32", "[1,2]", r#""shared_memory_byte_size":8,"shared_memory_region":"r""#),
        r#"{"name":"json","datatype":"UINT8","shape":[1],"data":[6]}"#.to_owned(),
        input("s", "BYTES", "[1]", &part(8, 7)),
        input("b", "BOOL", "[1]", &part(15, 1)),
        input("none", "INT64", "[0]", &part(0, 0)),
    ];
    let json = request(&inputs, "");
    let body = [json.as_bytes(), b"\x05"].concat();
    let body = InferBody::split(body.into(), Some(&json.len().to_string())).expect("within the body");
    let request = parse(&memory, &body).expect("parses");
    let data: Vec<_> = request.inputs.iter().map(|input| &input.data()[..]).collect();
    assert_eq!(data, [b"\x05", &b"\0\0\x80\x3f\0\0\0\xc0"[..], b"\x06", b"\x03\0\0\0abc", b"\x01", b""]);
}

#[test]
fn outputs_go_into_the_part_that_is_named() {
    let (_object, memory) = shared();
    let parameters = r#""shared_memory_region":"r","shared_memory_offset":4,"shared_memory_byte_size":8"#;
    let part = memory.part(&PartClaim { region: "r".to_owned(), offset: 4, byte_size: 8 }).expect("within");
    // Not to be in binary is what goes without saying.
    for parameters in [parameters.to_owned(), format!(r#"{parameters},"binary_data":false"#)] {
        let request = parse(&memory, &json_body(output(&parameters).as_bytes())).expect("parses");
        assert_eq!(request.outputs[0].form, OutputForm::Region(part.clone()));
    }
}

#[test]
fn answers_say_type_and_shape_of_what_is_in_a_region() {
    let tensor = |name: &str| Tensor::new(name.into(), DataType::Uint8, vec![1], vec![7].into()).expect("fits");
    let encoded = |name: &str, encoding| EncodedOutput { tensor: tensor(name), encoding };
    let outputs = [encoded("y", Encoding::Omitted), encoded("w", Encoding::Binary)];
    let answer = |outputs| InferAnswer { model: "m", version: "3", id: None, outputs };
    let rendered = render_infer(&answer(&outputs)).expect("renders");
    let json = r#"{"model_name":"m","model_version":"3","outputs":[{"name":"y","datatype":"UINT8","shape":[1]},"#;
    let binary = r#"{"name":"w","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":1}}]}"#;
    assert_eq!(String::from_utf8_lossy(&rendered.body), format!("{json}{binary}\u{7}"));
    let rendered = render_infer(&answer(&outputs[..1])).expect("renders");
    assert_eq!(rendered.json_length, None, "nothing comes after the JSON");
    assert!(rendered.body.ends_with(br#""shape":[1]}]}"#));
}

/// Checks what becomes of each body.
fn check_all(memory: &SharedMemory, cases: impl IntoIterator<Item = (String, ErrorCode, String)>) {
    for (body, code, text) in cases {
        let error = parse(memory, &json_body(body.as_bytes())).expect_err(&body);
        assert_eq!((error.code, error.text), (code, text), "{body}");
    }
}

#[test]
fn wrong_parts_of_inputs_are_refused_in_tritons_words() {
    let (_object, memory) = shared();
    let x = |parameters: &str| request(&[input("x", "FP32", "[1,2]", parameters)], "");
    let region = r#""shared_memory_region":"r""#;
    let unsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer";
    let size = "input byte size mismatch for input 'x' for model 'm'. Expected 8, got";
    let cases = [
        (
            x(r#""shared_memory_region":"s","shared_memory_byte_size":8"#),
            ErrorCode::RegionNotFound,
            "Unable to find shared memory region: 's'".to_owned(),
        ),
        (
            x(&format!(r#"{region},"shared_memory_byte_size":8,"shared_memory_offset":16"#)),
            ErrorCode::InvalidRegion,
            "Invalid offset for shared memory region: 'r' (offset 16 in 16 bytes)".to_owned(),
        ),
        (
            x(&format!(r#"{region},"shared_memory_byte_size":8,"shared_memory_offset":9"#)),
            ErrorCode::InvalidRegion,
            "Invalid offset + byte size for shared memory region: 'r' (offset 9 and 8 bytes in 16)".to_owned(),
        ),
        (
            x(&format!(r#"{region},"shared_memory_byte_size":7"#)),
            ErrorCode::InvalidTensors,
            format!("[request id: <id_unknown>] {size} 7"),
        ),
        (x(region), ErrorCode::InvalidTensors, format!("[request id: <id_unknown>] {size} 0")),
        (
            x(&format!(r#"{region},"shared_memory_byte_size":"8""#)),
            ErrorCode::MalformedRequest,
            format!("Unable to parse 'shared_memory_byte_size': {unsigned} (in inputs[0])"),
        ),
        (
            x(&format!(r#"{region},"shared_memory_byte_size":8,"shared_memory_offset":-1"#)),
            ErrorCode::MalformedRequest,
            format!("Unable to parse 'shared_memory_offset': {unsigned} (in inputs[0])"),
        ),
        (
            x(r#""shared_memory_region":1"#),
            ErrorCode::MalformedRequest,
            "Unable to parse 'shared_memory_region': attempt to access JSON non-string as string (in inputs[0])"
                .to_owned(),
        ),
        (
            x(&format!("{region},{region}")),
            ErrorCode::MalformedRequest,
            "Unable to parse 'shared_memory_region': it is given more than once (in inputs[0])".to_owned(),
        ),
    ];
    check_all(&memory, cases);
}

#[test]
fn wrong_parts_of_outputs_are_refused_in_tritons_words() {
    let (_object, memory) = shared();
    let region = r#""shared_memory_region":"r""#;
    let cases = [
        (
            output(r#""shared_memory_region":"s","shared_memory_byte_size":8"#),
            ErrorCode::RegionNotFound,
            "Unable to find shared memory region: 's'".to_owned(),
        ),
        (
            output(&format!(r#"{region},"shared_memory_byte_size":17"#)),
            ErrorCode::InvalidRegion,
            "Invalid offset + byte size for shared memory region: 'r' (offset 0 and 17 bytes in 16)".to_owned(),
        ),
        (
            output(&format!(r#"{region},"classification":1"#)),
            ErrorCode::MalformedRequest,
            "Output can't set both 'shared_memory_region' and 'classification'".to_owned(),
        ),
        (
            output(&format!(r#"{region},"binary_data":true"#)),
            ErrorCode::MalformedRequest,
            "Output can't set both 'shared_memory_region' and 'binary_data'".to_owned(),
        ),
    ];
    check_all(&memory, cases);
}

#[test]
fn inputs_of_one_request_take_no_more_than_it_may() {
    let (object, memory) = (ClientObject::new(&[0; 1_024]), memory());
    memory.register("r", object.place(0, 1_024)).expect("registered");
    let part = |name: &str, size: u64| {
        let parameters = format!(r#""shared_memory_region":"r","shared_memory_byte_size":{size}"#);
        input(name, "UINT8", &format!("[{size}]"), &parameters)
    };
    let parse = |other| parse(&memory, &json_body(request(&[part("x", 1_000), part("z", other)], "").as_bytes()));
    assert_eq!(parse(24).expect("within").inputs.len(), 2);
    assert_eq!(parse(25).expect_err("too much").code, ErrorCode::BodyTooLarge);
}

#[test]
fn where_it_is_off_the_flag_is_named() {
    let text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
    let x = input("x", "FP32", "[1,2]", r#""shared_memory_region":"r","shared_memory_byte_size":8"#);
    for body in [request(&[x], ""), output(r#""shared_memory_region":"r","shared_memory_byte_size":8"#)] {
        let error = parse(&DISABLED, &json_body(body.as_bytes())).expect_err("off");
        assert_eq!((error.code, error.text.as_str()), (ErrorCode::SharedMemoryDisabled, text));
    }
}
