//! The library itself: the environment it is loaded in, what it is, and what it has.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use ort::sys;

use super::check;

/// Sets `name` to `value` in the environment, unless another thread could be reading it at the same time. Returns
/// whether it was set.
pub(crate) fn set_variable_while_single_threaded(name: &str, value: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return false;
    }
    // SAFETY: this thread is the only one, so that nobody reads or writes the environment meanwhile.
    #[expect(clippy::disallowed_methods, reason = "the one place that may; see above")]
    unsafe {
        std::env::set_var(name, value);
    }
    true
}

/// Gives memory that was freed, and that the allocator keeps for later, back to the system where that is possible. It can
/// take milliseconds: for a thread that serves nobody, after something large was freed.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` is safe to call at any time from any thread (glibc: MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What a library says of itself.
pub(crate) enum Probe {
    /// It cannot be opened, for this reason.
    Unopened(String),
    /// It is no ONNX Runtime.
    Foreign,
    /// It is ONNX Runtime of this version, and may have our version of the interface.
    Found { version: String, has_interface: bool },
}

/// Opens a library and asks for its version; the interface is asked for only when `wanted` says yes to the version.
pub(crate) fn probe_library(path: &CStr, wanted: impl Fn(&str) -> bool) -> Probe {
    // SAFETY: `path` is a C string. The library's initialisers run, as they would when `ort` opens it: whoever may name
    // the library may run code in this process anyway. The handle is never closed, since ONNX Runtime cannot be
    // unloaded safely.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: after a failure `dlerror` gives null or a C string that is valid until this thread's next `dl` call.
        let message = unsafe {
            let text = libc::dlerror();
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        return Probe::Unopened(message);
    }
    // SAFETY: the handle is open and the name is a C string.
    let symbol = unsafe { libc::dlsym(handle, c"OrtGetApiBase".as_ptr()) };
    if symbol.is_null() {
        return Probe::Foreign;
    }
    // SAFETY: a library that exports `OrtGetApiBase` exports it with this signature; it has had no other.
    let base = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> *const sys::OrtApiBase>(symbol)() };
    // SAFETY: the function returns null or a table that lives as long as the library, whose two members never changed.
    let Some(base) = (unsafe { base.as_ref() }) else { return Probe::Foreign };
    // SAFETY: the version is a static C string.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) }.to_string_lossy().into_owned();
    // SAFETY: asking for a version of the interface has no precondition; null means that it is not there.
    let has_interface = wanted(&version) && !unsafe { (base.GetApi)(sys::ORT_API_VERSION) }.is_null();
    Probe::Found { version, has_interface }
}

/// The execution providers that the loaded library has, by name.
pub(crate) fn available_providers() -> Result<Vec<String>, String> {
    let mut names: *mut *mut c_char = null_mut();
    let mut count = 0;
    // SAFETY: both results point to live variables.
    unsafe { check((ort::api().GetAvailableProviders)(&raw mut names, &raw mut count))? };
    let len = usize::try_from(count).unwrap_or(0);
    // SAFETY: the call gave `count` C strings, which are valid until they are given back below, once.
    unsafe {
        let listed = if len == 0 { &[] } else { std::slice::from_raw_parts(names.cast_const(), len) };
        let listed = listed.iter().map(|&name| CStr::from_ptr(name).to_string_lossy().into_owned()).collect();
        check((ort::api().ReleaseAvailableProviders)(names, count))?;
        Ok(listed)
    }
}
