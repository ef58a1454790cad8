//! The v2 data types beside ONNX Runtime's element types. Those without a counterpart (complex numbers, eight bits and
//! fewer of floating point, four bits and fewer of integers) cannot be served.

use model::DataType;
use ort::sys::ONNXTensorElementDataType as ElementType;
use ort::value::TensorElementType;

/// ONNX Runtime's element type for a v2 data type.
pub(crate) fn element_type(data_type: DataType) -> ElementType {
    match data_type {
        DataType::Bool => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
        DataType::Uint8 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
        DataType::Uint16 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
        DataType::Uint32 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
        DataType::Uint64 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
        DataType::Int8 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
        DataType::Int16 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
        DataType::Int32 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
        DataType::Int64 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
        DataType::Fp16 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
        DataType::Bf16 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
        DataType::Fp32 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
        DataType::Fp64 => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
        DataType::Bytes => ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING,
    }
}

/// The v2 data type of an element type, where it has one.
pub(crate) fn data_type_of(element: TensorElementType) -> Option<DataType> {
    data_type_of_number(ElementType::from(element) as i32)
}

/// The v2 data type of an element type's number in the C interface, where it has one.
pub(crate) fn data_type_of_number(number: i32) -> Option<DataType> {
    DataType::ALL.into_iter().find(|&data_type| element_type(data_type) as i32 == number)
}
