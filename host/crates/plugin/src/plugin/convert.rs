//! Between the contract's generated types and the host's own. What goes in is borrowed; what comes out is checked: sizes
//! against the limits, tensors against their own shape, answers against HTTP.

use bytes::Bytes;
use model::{DataType, Tensor};

use super::answer::{self, check_size};
use crate::bindings::airlock::plugin::types;
use crate::bindings::exports::airlock::plugin::adapter;
use crate::failure::Place;
use crate::sandbox::data_type;
use crate::{
    Call, FieldError, Header, Inference, Limits, Parameter, ParameterValue, PluginFailure, Prepared, Response,
};

/// A call's headers as a guest gets them.
pub(super) fn headers(headers: &[Header]) -> Vec<types::HeaderParam<'_>> {
    headers.iter().map(|header| types::HeaderParam { name: &header.name, value: &header.value }).collect()
}

/// A call as a guest gets it; `model` and `version` are names it has on the host's side too.
pub(super) fn call<'a>(
    call: &'a Call,
    (model, version): (&'a str, &'a str),
    headers: &'a [types::HeaderParam<'a>],
    budget_ms: u32,
) -> types::Call<'a> {
    types::Call {
        request_id: &call.request_id,
        model,
        version,
        content_type: call.content_type.as_deref(),
        accept: call.accept.as_deref(),
        headers,
        budget_ms,
    }
}

/// Tensors as a guest gets them.
pub(super) fn tensors(tensors: &[Tensor]) -> Vec<types::TensorParam<'_>> {
    let one = |tensor| {
        let tensor: &Tensor = tensor;
        types::TensorParam {
            name: tensor.name(),
            data_type: data_type(tensor.data_type()),
            shape: tensor.shape(),
            data: tensor.data(),
        }
    };
    tensors.iter().map(one).collect()
}

/// What `preprocess` gave back, checked; the text says how it breaks the contract.
pub(super) fn prepared(prepared: adapter::Prepared, limits: &Limits) -> Result<Prepared, String> {
    match prepared {
        adapter::Prepared::Infer(inference) => checked_inference(inference, limits).map(Prepared::Infer),
        adapter::Prepared::Respond(given) => response(given, limits).map(Prepared::Respond),
    }
}

fn checked_inference(given: adapter::Inference, limits: &Limits) -> Result<Inference, String> {
    let bytes = given.inputs.iter().map(|tensor| tensor.data.len()).sum();
    check_size("the tensor data", bytes, limits.tensor_bytes_max, "output_mb")?;
    check_size("the carry", given.carry.len(), limits.carry_bytes_max, "carry_kb")?;
    let inputs = given.inputs.into_iter().map(tensor).collect::<Result<_, _>>()?;
    let parameters = given.parameters.into_iter().map(parameter).collect();
    Ok(Inference { inputs, outputs: given.outputs, parameters, carry: Bytes::from(given.carry) })
}

fn tensor(given: types::TensorResult) -> Result<Tensor, String> {
    let data_type = model_type(given.data_type);
    Tensor::new(given.name.into(), data_type, given.shape, Bytes::from(given.data)).map_err(|error| error.to_string())
}

fn parameter(given: types::Parameter) -> Parameter {
    let value = match given.value {
        types::ParameterValue::Boolean(value) => ParameterValue::Boolean(value),
        types::ParameterValue::Signed(value) => ParameterValue::Signed(value),
        types::ParameterValue::Unsigned(value) => ParameterValue::Unsigned(value),
        types::ParameterValue::Real(value) => ParameterValue::Real(value),
        types::ParameterValue::Text(value) => ParameterValue::Text(value),
    };
    Parameter { name: given.name, value }
}

/// An answer, checked; the text says how it breaks the contract.
pub(super) fn response(given: types::Response, limits: &Limits) -> Result<Response, String> {
    let header = |header: types::HeaderResult| Header { name: header.name, value: header.value };
    let response = Response {
        status: given.status,
        content_type: given.content_type,
        headers: given.headers.into_iter().map(header).collect(),
        body: Bytes::from(given.body),
    };
    answer::check(response, limits)
}

/// The plugin's own refusal, its texts cut to the limit.
pub(super) fn refusal(error: types::PluginError, limits: &Limits, place: impl FnOnce() -> Place) -> PluginFailure {
    let text = |text: String| shortened(text, limits.error_bytes_max);
    match error {
        types::PluginError::Malformed(message) => PluginFailure::Malformed(text(message)),
        types::PluginError::Invalid(fields) => {
            let field = |field: types::FieldError| FieldError {
                pointer: text(field.pointer),
                code: text(field.code),
                message: text(field.message),
            };
            PluginFailure::Invalid(fields.into_iter().take(limits.field_errors_max).map(field).collect())
        }
        types::PluginError::UnsupportedMedia(message) => PluginFailure::UnsupportedMedia(text(message)),
        types::PluginError::Rejected(message) => PluginFailure::Rejected(text(message)),
        types::PluginError::Unavailable(given) => {
            PluginFailure::Unavailable { retry_after_ms: given.retry_after_ms, message: text(given.message) }
        }
        types::PluginError::Internal(message) => PluginFailure::Internal { place: place(), message: text(message) },
    }
}

fn shortened(mut text: String, bytes_max: usize) -> String {
    text.truncate(cut(&text, bytes_max).len());
    text
}

/// The beginning of `text` that has at most `bytes_max` bytes.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

fn model_type(given: types::DataType) -> DataType {
    match given {
        types::DataType::Boolean => DataType::Bool,
        types::DataType::Uint8 => DataType::Uint8,
        types::DataType::Uint16 => DataType::Uint16,
        types::DataType::Uint32 => DataType::Uint32,
        types::DataType::Uint64 => DataType::Uint64,
        types::DataType::Int8 => DataType::Int8,
        types::DataType::Int16 => DataType::Int16,
        types::DataType::Int32 => DataType::Int32,
        types::DataType::Int64 => DataType::Int64,
        types::DataType::Fp16 => DataType::Fp16,
        types::DataType::Bf16 => DataType::Bf16,
        types::DataType::Fp32 => DataType::Fp32,
        types::DataType::Fp64 => DataType::Fp64,
        types::DataType::Bytes => DataType::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_types_survive_the_crossing() {
        for given in DataType::ALL {
            assert_eq!(model_type(data_type(given)), given);
        }
    }

    #[test]
    fn texts_and_fields_are_cut_to_their_limits() {
        let limits = Limits { error_bytes_max: 4, field_errors_max: 2, ..Limits::default() };
        let place = || unreachable!("only an internal error has a place");
        let error = types::PluginError::Malformed("12€45".to_owned());
        assert_eq!(refusal(error, &limits, place), PluginFailure::Malformed("12".to_owned()));
        let field =
            || types::FieldError { pointer: "/a".to_owned(), code: "c".to_owned(), message: "12345".to_owned() };
        let error = types::PluginError::Invalid(vec![field(), field(), field()]);
        let PluginFailure::Invalid(fields) = refusal(error, &limits, place) else { panic!("expected fields") };
        assert_eq!(fields.iter().map(|field| field.message.as_str()).collect::<Vec<_>>(), ["1234", "1234"]);
    }
}
