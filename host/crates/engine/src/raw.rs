//! All unsafe code of the crate: what ONNX Runtime's C interface offers and `ort` does not, behind types that are safe
//! to use from anywhere in it. `ort` runs a session through `&mut` only, takes strings as C strings and copies inputs;
//! here one session runs from many threads at once (which ONNX Runtime allows on CPU), strings are bytes, and tensors
//! lie over our own memory.
//!
//! What always holds: a [`Value`] is an `OrtValue` that we own; a tensor over our memory never outlives that memory,
//! because [`NumericTensor`] owns both; the bytes of an output keep its `OrtValue` and its session alive.
#![allow(unsafe_code)]

mod library;

use std::alloc::Layout;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

use bytes::Bytes;
use model::DataType;
use ort::AsPointer as _;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{RunOptions, Session, SharedSessionInner};
use ort::sys::{self, ONNXTensorElementDataType as ElementType};

use crate::element::{data_type_of_number, element_type};
pub use library::return_free_memory;
pub(crate) use library::{Probe, available_providers, probe_library, set_variable_while_single_threaded};

/// Alignment of input memory: a cache line, and enough for every vector instruction ONNX Runtime uses.
const ALIGNMENT: usize = 64;

/// Memory above which a tensor that is much too large for the next batch is given back.
const RETAINED_BYTES_MAX: usize = 16 << 20;

/// An owned `OrtValue`.
pub(crate) struct Value(NonNull<sys::OrtValue>);

// SAFETY: an `OrtValue` belongs to no thread.
unsafe impl Send for Value {}
// SAFETY: everything that takes `&Value` only reads it.
unsafe impl Sync for Value {}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: we own the value and nobody uses it after this.
        unsafe { (ort::api().ReleaseValue)(self.0.as_ptr()) }
    }
}

impl Value {
    /// Takes over what the interface has just handed out.
    ///
    /// # Safety
    /// `value` is null or an `OrtValue` that nobody else releases.
    unsafe fn from_raw(value: *mut sys::OrtValue) -> Result<Self, String> {
        NonNull::new(value).map(Self).ok_or_else(|| "ONNX Runtime returned no value".to_owned())
    }

    /// The element type, `None` where v2 has none for it, and the shape.
    pub(crate) fn type_and_shape(&self) -> Result<(Option<DataType>, Vec<u64>), String> {
        let mut element_type: i32 = 0;
        let (mut dims, mut rank): (*const i64, usize) = (null(), 0);
        // SAFETY: all three results point to live variables; the enum is read as the 32-bit integer that it is in C, so
        // that a number unknown here stays a number. The call fails for what is no tensor.
        unsafe {
            let element_type = (&raw mut element_type).cast::<ElementType>();
            let get = ort::api().GetTensorElementTypeAndShapeDataReference;
            check(get(self.0.as_ptr(), element_type, &raw mut dims, &raw mut rank))?;
        }
        // SAFETY: the call gave `rank` dimensions that live as long as the value, which is borrowed here.
        let dims = if rank == 0 { &[] } else { unsafe { std::slice::from_raw_parts(dims, rank) } };
        let shape = dims.iter().map(|&dim| u64::try_from(dim)).collect::<Result<_, _>>();
        Ok((
            data_type_of_number(element_type),
            shape.map_err(|_| format!("a dimension of the shape {dims:?} is negative"))?,
        ))
    }

    /// Where the elements of a tensor of numbers begin, for comparing with [`NumericTensor::holds`].
    pub(crate) fn address(&self) -> Result<usize, String> {
        Ok(self.data()?.addr())
    }

    fn data(&self) -> Result<*const u8, String> {
        let mut data: *mut c_void = null_mut();
        // SAFETY: the result points to a live variable; the data are only read through it.
        unsafe { check((ort::api().GetTensorMutableData)(self.0.as_ptr(), &raw mut data))? };
        Ok(data.cast_const().cast())
    }

    /// The elements of a tensor of `count` strings, as v2 encodes them.
    pub(crate) fn encoded_strings(&self, count: usize) -> Result<Vec<u8>, String> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut len = 0_usize;
        // SAFETY: the result points to a live variable.
        unsafe { check((ort::api().GetStringTensorDataLength)(self.0.as_ptr(), &raw mut len))? };
        let mut content = vec![0_u8; len];
        let mut starts = vec![0_usize; count];
        // SAFETY: both buffers are as long as stated; the call fails where the tensor has another number of elements.
        unsafe {
            let get = ort::api().GetStringTensorContent;
            check(get(self.0.as_ptr(), content.as_mut_ptr().cast(), len, starts.as_mut_ptr(), count))?;
        }
        let mut encoded = Vec::with_capacity(len + 4 * count);
        for (i, &start) in starts.iter().enumerate() {
            let end = starts.get(i + 1).copied().unwrap_or(len);
            let element = content.get(start..end).ok_or("ONNX Runtime returned strings out of order")?;
            let length = u32::try_from(element.len()).map_err(|_| "a string has more than 4 GiB".to_owned())?;
            encoded.extend_from_slice(&length.to_le_bytes());
            encoded.extend_from_slice(element);
        }
        Ok(encoded)
    }
}

/// An input tensor of numbers over memory of our own, kept from batch to batch.
pub(crate) struct NumericTensor {
    data_type: DataType,
    element_type: ElementType,
    shape: Vec<i64>,
    len: usize,
    /// Over `memory`; dropped before it.
    value: Option<Value>,
    memory: AlignedMemory,
}

impl NumericTensor {
    /// An empty tensor; `data_type` is not BYTES.
    pub(crate) fn new(data_type: DataType) -> Self {
        let memory = AlignedMemory { start: NonNull::dangling(), capacity: 0 };
        Self { data_type, element_type: element_type(data_type), shape: Vec::new(), len: 0, value: None, memory }
    }

    /// Makes room for `len` bytes as a tensor of `shape`. What the memory held before is still there.
    pub(crate) fn prepare(&mut self, session: &CpuSession, shape: &[i64], len: usize) -> Result<(), PrepareError> {
        if self.value.is_some() && self.shape == shape && self.len == len {
            return Ok(());
        }
        self.value = None;
        let wasteful = self.memory.capacity > RETAINED_BYTES_MAX && self.memory.capacity / 4 > len;
        if self.memory.capacity < len || self.memory.capacity == 0 || wasteful {
            self.memory = AlignedMemory::with_capacity(len).ok_or(PrepareError::Memory(len))?;
        }
        let mut value = null_mut();
        // SAFETY: the memory holds at least `len` bytes and stays where it is until the value is dropped: it is replaced
        // only above, after the value has gone. The call checks that `len` is enough for the shape.
        let made = unsafe {
            check((ort::api().CreateTensorWithDataAsOrtValue)(
                session.memory.ptr(),
                self.memory.start.as_ptr().cast(),
                len,
                shape.as_ptr(),
                shape.len(),
                self.element_type,
                &raw mut value,
            ))
            .and_then(|()| Value::from_raw(value))
        };
        self.value = Some(made.map_err(PrepareError::Refused)?);
        self.len = len;
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        Ok(())
    }

    /// Writes `bytes` at byte `at`. BOOL elements other than 0 become 1: anything else is no bool in C++.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len), "more rows than the layout has room for");
        // SAFETY: the memory is ours, initialised and at least `len` bytes long, and `at` and what follows lies inside.
        // ONNX Runtime reads it only during a run, and runs borrow the tensor.
        let target = unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr().add(at), bytes.len()) };
        if self.data_type == DataType::Bool {
            target.iter_mut().zip(bytes).for_each(|(to, &from)| *to = u8::from(from != 0));
        } else {
            target.copy_from_slice(bytes);
        }
    }

    /// Bytes of the prepared shape.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether an address lies in this tensor's memory.
    pub(crate) fn holds(&self, address: usize) -> bool {
        let start = self.memory.start.as_ptr().addr();
        (start..start + self.memory.capacity).contains(&address)
    }

    /// The tensor; `None` before the first [`prepare`](Self::prepare).
    pub(crate) fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }
}

/// Why a tensor could not be made.
pub(crate) enum PrepareError {
    /// So many bytes could not be had.
    Memory(usize),
    /// ONNX Runtime's words.
    Refused(String),
}

/// Zeroed memory of our own, aligned for vector instructions.
struct AlignedMemory {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for AlignedMemory {}

impl AlignedMemory {
    fn with_capacity(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), ALIGNMENT).ok()?.pad_to_align();
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { start, capacity: layout.size() })
    }
}

impl Drop for AlignedMemory {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated with this size and alignment, which `with_capacity` has checked to be a layout.
            unsafe {
                let layout = Layout::from_size_align_unchecked(self.capacity, ALIGNMENT);
                std::alloc::dealloc(self.start.as_ptr(), layout);
            }
        }
    }
}

/// An input tensor of strings, whose bytes ONNX Runtime holds.
pub(crate) struct StringTensor {
    value: Value,
}

impl StringTensor {
    /// A tensor of empty strings.
    pub(crate) fn new(shape: &[i64]) -> Result<Self, String> {
        let allocator = Allocator::default();
        let mut value = null_mut();
        // SAFETY: the shape is as long as stated and the default allocator lives as long as the library.
        let value = unsafe {
            let create = ort::api().CreateTensorAsOrtValue;
            let string = ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
            check(create(allocator.ptr().cast_mut(), shape.as_ptr(), shape.len(), string, &raw mut value))?;
            Value::from_raw(value)?
        };
        Ok(Self { value })
    }

    /// Sets element `index` to `bytes`, whatever they are. Fails when there is no such element.
    pub(crate) fn set(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let mut buffer: *mut c_char = null_mut();
        // SAFETY: the call checks the index and gives the element's own buffer of exactly that length; the two do not
        // overlap, since one is borrowed by the caller and the other belongs to the tensor.
        unsafe {
            let resize = ort::api().GetResizedStringTensorElementBuffer;
            check(resize(self.value.0.as_ptr(), index, bytes.len(), &raw mut buffer))?;
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>(), bytes.len());
        }
        Ok(())
    }

    /// The tensor.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }
}

/// Inputs or outputs of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// Whether a model file says how many dimensions an input or output has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShapeKnown {
    Yes,
    /// `ort` shows no dimensions then, just as for a scalar.
    No,
}

/// Whether a session knows the number of dimensions of its input or output `index`; what is no tensor counts as known.
pub(crate) fn has_shape(session: &Session, side: Side, index: usize) -> Result<ShapeKnown, String> {
    let api = ort::api();
    let get = match side {
        Side::Input => api.SessionGetInputTypeInfo,
        Side::Output => api.SessionGetOutputTypeInfo,
    };
    let mut type_info = null_mut();
    let mut tensor_info = null();
    // SAFETY: the calls check the index and write live variables. `tensor_info` belongs to `type_info`, is null for what
    // is no tensor, and is not used after `type_info` is released, which is ours to do once.
    unsafe {
        check(get(session.ptr(), index, &raw mut type_info))?;
        let cast = check((api.CastTypeInfoToTensorInfo)(type_info, &raw mut tensor_info));
        let known = tensor_info.is_null() || (api.TensorTypeAndShape_HasShape)(tensor_info);
        (api.ReleaseTypeInfo)(type_info);
        cast.map(|()| if known { ShapeKnown::Yes } else { ShapeKnown::No })
    }
}

/// A session on CPU with the names of its inputs and outputs, for running from several threads at once.
pub(crate) struct CpuSession {
    inner: Arc<SharedSessionInner>,
    memory: MemoryInfo<'static>,
    run_options: Option<RunOptions>,
    inputs: Names,
    outputs: Names,
}

struct Names {
    pointers: Vec<*const c_char>,
    _names: Vec<CString>,
}

// SAFETY: the pointers lead to the names beside them, which nobody changes.
unsafe impl Send for Names {}
// SAFETY: as above.
unsafe impl Sync for Names {}

impl Names {
    fn new<'n>(names: impl Iterator<Item = &'n str>) -> Result<Self, String> {
        let names = names.map(CString::new).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        Ok(Self { pointers: names.iter().map(|name| name.as_ptr()).collect(), _names: names })
    }
}

/// The pointer lists of a run, kept so that a run allocates none.
#[derive(Default)]
pub(crate) struct RunLists {
    names: Vec<*const c_char>,
    inputs: Vec<*const sys::OrtValue>,
    outputs: Vec<*mut sys::OrtValue>,
}

// SAFETY: all lists are empty between runs.
unsafe impl Send for RunLists {}

impl CpuSession {
    /// Takes the session, which must run on CPU, the options of its runs, and the names to feed and to fetch.
    pub(crate) fn new<'n>(
        session: &Session,
        run_options: Option<RunOptions>,
        inputs: impl Iterator<Item = &'n str>,
        outputs: impl Iterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let memory = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Device, MemoryType::Default)
            .map_err(|error| error.message().to_owned())?;
        let (inputs, outputs) = (Names::new(inputs)?, Names::new(outputs)?);
        Ok(Self { inner: session.inner(), memory, run_options, inputs, outputs })
    }

    /// Runs the model on this thread: one value per input name in, or `None` where the model is to use its own; one per
    /// output name appended to `outputs`, whose content means nothing after a failure.
    pub(crate) fn run<'v>(
        &self,
        inputs: impl Iterator<Item = Option<&'v Value>>,
        lists: &mut RunLists,
        outputs: &mut Vec<Value>,
    ) -> Result<(), String> {
        let names_out = &self.outputs.pointers;
        lists.names.clear();
        lists.inputs.clear();
        lists.outputs.clear();
        for (&name, value) in self.inputs.pointers.iter().zip(inputs) {
            if let Some(value) = value {
                lists.names.push(name);
                lists.inputs.push(value.0.as_ptr().cast_const());
            }
        }
        lists.outputs.resize(names_out.len(), null_mut());
        let run_options = self.run_options.as_ref().map_or(null(), |options| options.ptr());
        // SAFETY: all four lists are as long as stated. `OrtApi::Run` may be called for one session from several threads
        // at once, which holds for the CPU provider, and only reads the options; the values it reads are borrowed until
        // it returns, and each output it writes is ours to release. It refuses to run without a value for an input that has
        // none of its own.
        let outcome = unsafe {
            check((ort::api().Run)(
                self.inner.ptr().cast_mut(),
                run_options,
                lists.names.as_ptr(),
                lists.inputs.as_ptr(),
                lists.names.len(),
                names_out.as_ptr(),
                names_out.len(),
                lists.outputs.as_mut_ptr(),
            ))
        };
        lists.names.clear();
        lists.inputs.clear();
        let mut missing = Ok(());
        for value in lists.outputs.drain(..) {
            // SAFETY: each entry is null or an output handed out just now, and is taken over once.
            match unsafe { Value::from_raw(value) } {
                Ok(value) => outputs.push(value),
                Err(error) => missing = Err(error),
            }
        }
        outcome.and(missing)
    }

    /// The bytes of a tensor of numbers that this session has put out, without a copy.
    pub(crate) fn view(&self, value: Value) -> Result<Bytes, String> {
        let mut len = 0_usize;
        // SAFETY: the result points to a live variable.
        unsafe { check((ort::api().GetTensorSizeInBytes)(value.0.as_ptr(), &raw mut len))? };
        if len == 0 {
            return Ok(Bytes::new());
        }
        let start = NonNull::new(value.data()?.cast_mut()).ok_or("ONNX Runtime returned a tensor without data")?;
        Ok(Bytes::from_owner(OutputMemory { start, len, _value: value, _session: Arc::clone(&self.inner) }))
    }
}

/// The elements of an output. The session is held too: an output may be one of its weights.
struct OutputMemory {
    start: NonNull<u8>,
    len: usize,
    _value: Value,
    _session: Arc<SharedSessionInner>,
}

// SAFETY: the memory belongs to the value, which belongs to no thread, and is only read.
unsafe impl Send for OutputMemory {}

impl AsRef<[u8]> for OutputMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the value owns `len` initialised bytes from `start` on and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// The outcome a call of the interface reports.
///
/// # Safety
/// `status` has just been returned by the interface.
unsafe fn check(status: sys::OrtStatusPtr) -> Result<(), String> {
    // SAFETY: as required of the caller.
    unsafe { ort::Error::result_from_status(status) }.map_err(|error| error.message().to_owned())
}
