//! The codec's tests: texts of refusals as tables, fixtures written by Python, and properties over random bodies.

mod binary;
mod fixtures;
mod generate;
mod metadata;
mod properties;
mod refusals;
mod requests;
mod shared_memory;

use bytes::Bytes;
use model::{DataType, Signature, Tensor, TensorSpec};

use super::{
    EncodedOutput, Encoding, InferAnswer, InferBody, InferContext, InferRequest, V2Error, parse_infer, render_infer,
};
use crate::shared_memory::DISABLED;

/// A model with inputs `x` and `z` and outputs `y` and `w`; the parser only takes names and counts from it.
fn signature() -> Signature {
    let spec = |name: &str| TensorSpec { name: name.into(), data_type: DataType::Fp32, shape: vec![-1, 2] };
    Signature { inputs: vec![spec("x"), spec("z")], outputs: vec![spec("y"), spec("w")], optional_inputs: 0 }
}

fn parse(body: &str) -> Result<InferRequest, V2Error> {
    parse_bytes(body.as_bytes())
}

fn parse_bytes(body: &[u8]) -> Result<InferRequest, V2Error> {
    parse_infer(&json_body(body), &context(&signature()))
}

/// A body that is all JSON.
fn json_body(json: &[u8]) -> InferBody {
    InferBody::split(Bytes::copy_from_slice(json), None).expect("nothing to split")
}

fn context(signature: &Signature) -> InferContext<'_> {
    InferContext {
        model: "m",
        signature,
        has_batch_dimension: true,
        data_bytes_max: 64 << 20,
        shared_memory: &DISABLED,
    }
}

/// A body with the single input `x`.
fn body(data_type: &str, shape: &str, data: &str) -> String {
    format!(r#"{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{data_type}","data":{data}}}]}}"#)
}

/// The tensor that the single input of a body becomes.
fn parse_one(data_type: &str, shape: &str, data: &str) -> Result<Tensor, V2Error> {
    let mut request = parse(&body(data_type, shape, data))?;
    assert_eq!(request.inputs.len(), 1);
    Ok(request.inputs.remove(0))
}

fn render(outputs: &[Tensor]) -> Result<String, V2Error> {
    let outputs = encoded(outputs, Encoding::Json);
    let rendered = render_infer(&InferAnswer { model: "m", version: "3", id: None, outputs: &outputs })?;
    assert_eq!(rendered.json_length, None);
    Ok(String::from_utf8(rendered.body).expect("answers are UTF-8"))
}

fn encoded(outputs: &[Tensor], encoding: Encoding) -> Vec<EncodedOutput> {
    outputs.iter().map(|tensor| EncodedOutput { tensor: tensor.clone(), encoding }).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
