//! A request without JSON: the body is the values of the model's single input, whose type and shape are the model's own.
//! Source: Triton's "Raw Binary Request".

use std::sync::Arc;

use bytes::Bytes;
use model::{DataType, Tensor, TensorSpec};

use super::fault::{Fault, clipped};
use super::{Encoding, InferContext, InferRequest};
use crate::raw_tensor::RawInput;

/// Reads such a request; its answer is binary, too.
///
/// # Errors
/// Triton's text for a model whose input a body alone does not determine.
pub(super) fn read_raw(data: Bytes, context: &InferContext<'_>) -> Result<InferRequest, Fault> {
    let [spec] = &context.signature.inputs[..] else {
        return Err(Fault::tensor(format!(
            "Raw request must only have 1 input (found 1) to be deduced but got {} inputs in '{}' model configuration",
            context.signature.inputs.len(),
            context.model
        )));
    };
    let (shape, data) = match spec.data_type.element_size() {
        Some(size) => (deduced_shape(spec, data.len() as u64 / size as u64, context)?, data),
        None => (string_shape(spec, context)?, length_prefixed(&data)?),
    };
    let tensor = into_tensor(spec, shape, data, context)?;
    Ok(InferRequest {
        id: None,
        inputs: vec![tensor],
        outputs: Vec::new(),
        encoding: Encoding::Binary,
        parameters: Vec::new(),
    })
}

fn into_tensor(spec: &TensorSpec, shape: Vec<u64>, data: Bytes, context: &InferContext<'_>) -> Result<Tensor, Fault> {
    let (name, data_type) = (Arc::clone(&spec.name), spec.data_type);
    Ok(RawInput { model: context.model, name, data_type, shape, data }.into_tensor()?)
}

/// The dimensions of one row.
fn row_dims<'a>(spec: &'a TensorSpec, context: &InferContext<'_>) -> &'a [i64] {
    if context.has_batch_dimension { spec.shape.get(1..).unwrap_or_default() } else { &spec.shape }
}

/// The shape of a single row of `count` elements: what is left over goes into the one dimension that is free.
fn deduced_shape(spec: &TensorSpec, count: u64, context: &InferContext<'_>) -> Result<Vec<u64>, Fault> {
    let dims = row_dims(spec, context);
    if dims.iter().filter(|&&dim| dim < 0).count() > 1 {
        return Err(Fault::tensor(format!(
            "The shape of the raw input '{}' can not be deduced because there are more than one variable-sized dimension",
            clipped(&spec.name)
        )));
    }
    let fixed = dims.iter().filter_map(|&dim| u64::try_from(dim).ok()).fold(1, u64::saturating_mul);
    let free = count.checked_div(fixed).unwrap_or(0);
    let row = dims.iter().map(|&dim| u64::try_from(dim).unwrap_or(free));
    Ok(context.has_batch_dimension.then_some(1).into_iter().chain(row).collect())
}

/// The shape of a single string.
fn string_shape(spec: &TensorSpec, context: &InferContext<'_>) -> Result<Vec<u64>, Fault> {
    if row_dims(spec, context) != [1] {
        return Err(Fault::tensor(format!(
            "For BYTE datatype raw input '{}', the model must have input shape [1]",
            clipped(&spec.name)
        )));
    }
    Ok(if context.has_batch_dimension { vec![1, 1] } else { vec![1] })
}

/// The whole body as one BYTES element.
fn length_prefixed(data: &Bytes) -> Result<Bytes, Fault> {
    let length = u32::try_from(data.len()).map_err(|_| {
        Fault::tensor(format!("a {} element holds {} bytes at most, got {}", DataType::Bytes, u32::MAX, data.len()))
    })?;
    Ok([&length.to_le_bytes(), &data[..]].concat().into())
}
