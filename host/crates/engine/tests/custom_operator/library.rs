//! A library with one operator, `airlock.tests:Twice`, which doubles every element. The test that compiles it puts the
//! offsets of ONNX Runtime's functions in the places of their names.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

type Pointer = *mut c_void;
type Status = Pointer;

const FLOAT: c_int = 1;

#[repr(C)]
struct ApiBase {
    get_api: unsafe extern "C" fn(u32) -> *const u8,
    get_version: unsafe extern "C" fn() -> *const c_char,
}

/// The interface's function at an offset, as a function of this type.
macro_rules! function {
    ($api:expr, $offset:expr, $type:ty) => {
        *$api.add($offset).cast::<$type>()
    };
}

#[repr(C)]
struct Operator {
    version: u32,
    create_kernel: extern "C" fn(*const Operator, *const u8, *const c_void) -> Pointer,
    name: extern "C" fn(*const Operator) -> *const c_char,
    provider: extern "C" fn(*const Operator) -> *const c_char,
    input_type: extern "C" fn(*const Operator, usize) -> c_int,
    input_count: extern "C" fn(*const Operator) -> usize,
    output_type: extern "C" fn(*const Operator, usize) -> c_int,
    output_count: extern "C" fn(*const Operator) -> usize,
    compute: unsafe extern "C" fn(Pointer, Pointer),
    destroy_kernel: extern "C" fn(Pointer),
    input_characteristic: extern "C" fn(*const Operator, usize) -> c_int,
    output_characteristic: extern "C" fn(*const Operator, usize) -> c_int,
    input_memory: extern "C" fn(*const Operator, usize) -> c_int,
    unused: [usize; 16],
}

static TWICE: Operator = Operator {
    version: 13,
    create_kernel,
    name,
    provider,
    input_type: float,
    input_count: one,
    output_type: float,
    output_count: one,
    compute,
    destroy_kernel,
    input_characteristic: default,
    output_characteristic: default,
    input_memory: default,
    unused: [0; 16],
};

/// The kernel is the interface that it calls.
extern "C" fn create_kernel(_: *const Operator, api: *const u8, _: *const c_void) -> Pointer {
    api.cast_mut().cast()
}

extern "C" fn name(_: *const Operator) -> *const c_char {
    c"Twice".as_ptr()
}

extern "C" fn provider(_: *const Operator) -> *const c_char {
    null()
}

extern "C" fn float(_: *const Operator, _: usize) -> c_int {
    FLOAT
}

extern "C" fn one(_: *const Operator) -> usize {
    1
}

extern "C" fn destroy_kernel(_: Pointer) {}

extern "C" fn default(_: *const Operator, _: usize) -> c_int {
    0
}

unsafe extern "C" fn compute(kernel: Pointer, context: Pointer) {
    type GetInput = unsafe extern "C" fn(Pointer, usize, *mut Pointer) -> Status;
    type GetOutput = unsafe extern "C" fn(Pointer, usize, *const i64, usize, *mut Pointer) -> Status;
    type Get = unsafe extern "C" fn(Pointer, *mut Pointer) -> Status;
    type GetSize = unsafe extern "C" fn(Pointer, *mut usize) -> Status;
    type GetDims = unsafe extern "C" fn(Pointer, *mut i64, usize) -> Status;
    let api: *const u8 = kernel.cast_const().cast();
    unsafe {
        let (mut input, mut output, mut info) = (null_mut(), null_mut(), null_mut());
        function!(api, @KernelContext_GetInput, GetInput)(context, 0, &mut input);
        function!(api, @GetTensorTypeAndShape, Get)(input, &mut info);
        let (mut rank, mut count) = (0, 0);
        function!(api, @GetDimensionsCount, GetSize)(info, &mut rank);
        function!(api, @GetTensorShapeElementCount, GetSize)(info, &mut count);
        let mut dims = vec![0; rank];
        function!(api, @GetDimensions, GetDims)(info, dims.as_mut_ptr(), rank);
        function!(api, @ReleaseTensorTypeAndShapeInfo, unsafe extern "C" fn(Pointer))(info);
        function!(api, @KernelContext_GetOutput, GetOutput)(context, 0, dims.as_ptr(), rank, &mut output);
        let (mut from, mut to) = (null_mut(), null_mut());
        function!(api, @GetTensorMutableData, Get)(input, &mut from);
        function!(api, @GetTensorMutableData, Get)(output, &mut to);
        let (from, to) = (from.cast::<f32>(), to.cast::<f32>());
        for i in 0..count {
            *to.add(i) = 2.0 * *from.add(i);
        }
    }
}

/// What ONNX Runtime calls once the library is loaded.
#[unsafe(no_mangle)]
unsafe extern "C" fn RegisterCustomOps(options: Pointer, base: *const ApiBase) -> Status {
    type Create = unsafe extern "C" fn(*const c_char, *mut Pointer) -> Status;
    type Add = unsafe extern "C" fn(Pointer, *const Operator) -> Status;
    type AddDomain = unsafe extern "C" fn(Pointer, Pointer) -> Status;
    unsafe {
        let api = ((*base).get_api)(16);
        let mut domain = null_mut();
        let status = function!(api, @CreateCustomOpDomain, Create)(c"airlock.tests".as_ptr(), &mut domain);
        if !status.is_null() {
            return status;
        }
        function!(api, @CustomOpDomain_Add, Add)(domain, &TWICE);
        function!(api, @AddCustomOpDomain, AddDomain)(options, domain)
    }
}
