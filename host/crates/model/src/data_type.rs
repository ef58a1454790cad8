//! The data types of the Open Inference Protocol v2, with the names each neighbour uses for them.

use std::fmt;

/// A tensor's element type. Source: Open Inference Protocol v2, "Tensor Data Types", with BF16 as Triton adds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned, 8 bits.
    Uint8,
    /// Unsigned, 16 bits.
    Uint16,
    /// Unsigned, 32 bits.
    Uint32,
    /// Unsigned, 64 bits.
    Uint64,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// IEEE 754 half precision.
    Fp16,
    /// The upper half of an IEEE 754 single.
    Bf16,
    /// IEEE 754 single precision.
    Fp32,
    /// IEEE 754 double precision.
    Fp64,
    /// Byte strings: per element a little-endian `u32` length, then the bytes.
    Bytes,
}

impl DataType {
    /// Every data type, once.
    pub const ALL: [Self; 14] = [
        Self::Bool,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Fp16,
        Self::Bf16,
        Self::Fp32,
        Self::Fp64,
        Self::Bytes,
    ];

    /// The name in v2 requests and answers, such as `FP32`.
    #[must_use]
    pub fn v2_name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Uint8 => "UINT8",
            Self::Uint16 => "UINT16",
            Self::Uint32 => "UINT32",
            Self::Uint64 => "UINT64",
            Self::Int8 => "INT8",
            Self::Int16 => "INT16",
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Fp32 => "FP32",
            Self::Fp64 => "FP64",
            Self::Bytes => "BYTES",
        }
    }

    /// The type a v2 name stands for; names are upper case.
    #[must_use]
    pub fn from_v2_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.v2_name() == name)
    }

    /// The name in `config.pbtxt`, such as `TYPE_FP32`; byte strings are `TYPE_STRING` there.
    #[must_use]
    pub fn config_name(self) -> &'static str {
        match self {
            Self::Bool => "TYPE_BOOL",
            Self::Uint8 => "TYPE_UINT8",
            Self::Uint16 => "TYPE_UINT16",
            Self::Uint32 => "TYPE_UINT32",
            Self::Uint64 => "TYPE_UINT64",
            Self::Int8 => "TYPE_INT8",
            Self::Int16 => "TYPE_INT16",
            Self::Int32 => "TYPE_INT32",
            Self::Int64 => "TYPE_INT64",
            Self::Fp16 => "TYPE_FP16",
            Self::Bf16 => "TYPE_BF16",
            Self::Fp32 => "TYPE_FP32",
            Self::Fp64 => "TYPE_FP64",
            Self::Bytes => "TYPE_STRING",
        }
    }

    /// The type a `config.pbtxt` name stands for.
    #[must_use]
    pub fn from_config_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.config_name() == name)
    }

    /// Bytes per element; `None` for [`DataType::Bytes`], whose elements have lengths of their own.
    #[must_use]
    pub fn element_size(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => Some(1),
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Fp32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Fp64 => Some(8),
            Self::Bytes => None,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.v2_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_type() {
        for data_type in DataType::ALL {
            assert_eq!(DataType::from_v2_name(data_type.v2_name()), Some(data_type));
            assert_eq!(DataType::from_config_name(data_type.config_name()), Some(data_type));
        }
        assert_eq!(DataType::from_v2_name("fp32"), None);
        assert_eq!(DataType::from_config_name("TYPE_INVALID"), None);
    }
}
