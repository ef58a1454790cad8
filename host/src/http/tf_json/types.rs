//! TensorFlow's names of data types. Source: tensorflow/core/framework/types.proto, and `DataTypeString`.

use model::DataType;

/// The name in metadata, such as `DT_FLOAT`.
pub(super) fn enum_name(data_type: DataType) -> &'static str {
    names(data_type).0
}

/// The name in texts, such as `float`.
pub(super) fn short_name(data_type: DataType) -> &'static str {
    names(data_type).1
}

fn names(data_type: DataType) -> (&'static str, &'static str) {
    match data_type {
        DataType::Bool => ("DT_BOOL", "bool"),
        DataType::Uint8 => ("DT_UINT8", "uint8"),
        DataType::Uint16 => ("DT_UINT16", "uint16"),
        DataType::Uint32 => ("DT_UINT32", "uint32"),
        DataType::Uint64 => ("DT_UINT64", "uint64"),
        DataType::Int8 => ("DT_INT8", "int8"),
        DataType::Int16 => ("DT_INT16", "int16"),
        DataType::Int32 => ("DT_INT32", "int32"),
        DataType::Int64 => ("DT_INT64", "int64"),
        DataType::Fp16 => ("DT_HALF", "half"),
        DataType::Bf16 => ("DT_BFLOAT16", "bfloat16"),
        DataType::Fp32 => ("DT_FLOAT", "float"),
        DataType::Fp64 => ("DT_DOUBLE", "double"),
        DataType::Bytes => ("DT_STRING", "string"),
    }
}
