//! Typed tensors: made from slices, read through views that decode little-endian elements without copying first.

use std::marker::PhantomData;

use crate::{DataType, PluginError, Tensor, bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A fixed-size tensor element. Byte strings are read and made by [`Tensor::as_bytes`] and [`Tensor::bytes`].
pub trait Element: Copy + sealed::Sealed {
    /// The data type of a tensor of these.
    const DATA_TYPE: DataType;
    /// Bytes per element.
    const SIZE: usize;

    /// Reads one element from exactly [`Element::SIZE`] bytes.
    #[doc(hidden)]
    fn read(bytes: &[u8]) -> Self;

    /// Writes one element into exactly [`Element::SIZE`] bytes.
    #[doc(hidden)]
    fn write(self, bytes: &mut [u8]);
}

/// The elements of a tensor, row-major, decoded as they are read.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a, T> {
    data: &'a [u8],
    element: PhantomData<T>,
}

impl<'a, T: Element> Elements<'a, T> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len() / T::SIZE
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The element at a row-major position.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        let start = index.checked_mul(T::SIZE)?;
        let end = start.checked_add(T::SIZE)?;
        self.data.get(start..end).map(T::read)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + use<'a, T> {
        self.data.chunks_exact(T::SIZE).map(T::read)
    }

    /// A copy of all of them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }
}

impl Tensor {
    /// A tensor of fixed-size elements, row-major. The host checks that the shape and the number of elements agree.
    #[must_use]
    pub fn of<T: Element>(name: impl Into<String>, shape: impl Into<Vec<u64>>, values: &[T]) -> Self {
        let mut data = vec![0; values.len() * T::SIZE];
        for (bytes, value) in data.chunks_exact_mut(T::SIZE).zip(values) {
            value.write(bytes);
        }
        Self { name: name.into(), data_type: T::DATA_TYPE, shape: shape.into(), data }
    }

    /// The tensor's elements.
    ///
    /// # Errors
    /// `internal` where the tensor is of another data type, or where its bytes are no whole number of elements.
    pub fn elements<T: Element>(&self) -> Result<Elements<'_, T>, PluginError> {
        self.expect_type(T::DATA_TYPE)?;
        if !self.data.len().is_multiple_of(T::SIZE) {
            return Err(PluginError::internal(format!(
                "tensor `{}` has {} bytes, which is no multiple of the {} that one {} takes",
                self.name,
                self.data.len(),
                T::SIZE,
                T::DATA_TYPE.v2_name(),
            )));
        }
        Ok(Elements { data: &self.data, element: PhantomData })
    }

    pub(crate) fn expect_type(&self, wanted: DataType) -> Result<(), PluginError> {
        if self.data_type == wanted {
            return Ok(());
        }
        Err(PluginError::internal(format!(
            "tensor `{}` is {}, the plugin reads {}: the plugin and the model's version do not belong together",
            self.name,
            self.data_type.v2_name(),
            wanted.v2_name(),
        )))
    }
}

impl DataType {
    /// The name in the Open Inference Protocol v2, such as `FP32`.
    #[must_use]
    pub fn v2_name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOL",
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
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const DATA_TYPE: DataType = DataType::Boolean;
    const SIZE: usize = 1;

    fn read(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[0] = u8::from(self);
    }
}

/// Per numeric type: the element, `Tensor::<make>` and `Tensor::<read>`.
macro_rules! numbers {
    ($($type:ty, $data_type:ident, $make:ident, $read:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DATA_TYPE: DataType = DataType::$data_type;
            const SIZE: usize = size_of::<$type>();

            #[inline]
            fn read(bytes: &[u8]) -> Self {
                let mut exact = [0; size_of::<$type>()];
                exact.copy_from_slice(bytes);
                <$type>::from_le_bytes(exact)
            }

            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
        shorthands!($type, $make, $read);
    )*};
}

macro_rules! shorthands {
    ($type:ty, $make:ident, $read:ident) => {
        impl Tensor {
            #[doc = concat!("A tensor of `", stringify!($type), "`; see [`Tensor::of`].")]
            #[must_use]
            pub fn $make(name: impl Into<String>, shape: impl Into<Vec<u64>>, values: &[$type]) -> Self {
                Self::of(name, shape, values)
            }

            #[doc = concat!("The elements as `", stringify!($type), "`; see [`Tensor::elements`].")]
            ///
            /// # Errors
            /// `internal` where the tensor is of another data type.
            pub fn $read(&self) -> Result<Elements<'_, $type>, PluginError> {
                self.elements()
            }
        }
    };
}

shorthands!(bool, boolean, as_boolean);
numbers! {
    u8, Uint8, uint8, as_uint8;
    u16, Uint16, uint16, as_uint16;
    u32, Uint32, uint32, as_uint32;
    u64, Uint64, uint64, as_uint64;
    i8, Int8, int8, as_int8;
    i16, Int16, int16, as_int16;
    i32, Int32, int32, as_int32;
    i64, Int64, int64, as_int64;
    f16, Fp16, fp16, as_fp16;
    bf16, Bf16, bf16, as_bf16;
    f32, Fp32, fp32, as_fp32;
    f64, Fp64, fp64, as_fp64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Element + PartialEq + std::fmt::Debug>(values: &[T], bytes: &[u8]) {
        let tensor = Tensor::of("t", [values.len() as u64], values);
        assert_eq!((tensor.data_type, tensor.data.as_slice()), (T::DATA_TYPE, bytes));
        let elements = tensor.elements::<T>().unwrap();
        assert_eq!(elements.to_vec(), values);
        assert_eq!((elements.len(), elements.is_empty()), (values.len(), values.is_empty()));
        assert_eq!(elements.get(0), values.first().copied());
        assert_eq!(elements.get(values.len()), None);
        assert_eq!(elements.get(usize::MAX), None);
    }

    #[test]
    fn every_element_type_is_little_endian_and_reads_back() {
        check(&[true, false], &[1, 0]);
        check(&[7u8, 255], &[7, 255]);
        check(&[258u16], &[2, 1]);
        check(&[0x0403_0201u32], &[1, 2, 3, 4]);
        check(&[u64::MAX, 1], &[255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0]);
        check(&[-1i8], &[255]);
        check(&[-2i16], &[254, 255]);
        check(&[-2i32], &[254, 255, 255, 255]);
        check(&[i64::MIN], &[0, 0, 0, 0, 0, 0, 0, 128]);
        check(&[f16::from_f32(1.0)], &[0, 0x3c]);
        check(&[bf16::from_f32(1.0)], &[0x80, 0x3f]);
        check(&[1.0f32, -2.5], &[0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]);
        check(&[1.0f64], &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        check::<f32>(&[], &[]);
    }

    #[test]
    fn another_data_type_is_refused_and_both_are_named() {
        let error = Tensor::int32("ids", [1], &[1]).as_fp32().unwrap_err();
        let PluginError::Internal(text) = error else { panic!("{error:?}") };
        assert!(text.contains("`ids` is INT32") && text.contains("reads FP32"), "{text}");
    }

    #[test]
    fn half_an_element_is_refused() {
        let mut tensor = Tensor::fp32("x", [1], &[1.0]);
        tensor.data.pop();
        let error = tensor.as_fp32().unwrap_err();
        let PluginError::Internal(text) = error else { panic!("{error:?}") };
        assert!(text.contains("`x` has 3 bytes"), "{text}");
    }
}
