//! Libraries that are not ONNX Runtime, or too old, are refused without harm, and the right one still loads afterwards.

mod common;

use std::path::{Path, PathBuf};

use engine::{LibraryError, OrtRuntime, RuntimeOptions, find_library};

/// Builds a library that says it is ONNX Runtime of `version` and offers no interface.
fn build_stand_in(folder: &Path, version: &str) -> PathBuf {
    let source = folder.join(format!("stand_in_{}.rs", version.replace('.', "_")));
    let text = r#"
        #[repr(C)] pub struct Base { get_api: extern "C" fn(u32) -> *const u8, get_version: extern "C" fn() -> *const u8 }
        unsafe impl Sync for Base {}
        extern "C" fn get_api(_: u32) -> *const u8 { std::ptr::null() }
        extern "C" fn get_version() -> *const u8 { c"VERSION".as_ptr().cast() }
        static BASE: Base = Base { get_api, get_version };
        #[unsafe(no_mangle)] pub extern "C" fn OrtGetApiBase() -> &'static Base { &BASE }
    "#;
    std::fs::write(&source, text.replace("VERSION", version)).expect("written");
    common::compile_library(&source)
}

fn init(path: &Path) -> Result<OrtRuntime, LibraryError> {
    OrtRuntime::init(path, &RuntimeOptions::default())
}

#[test]
fn unusable_libraries_are_errors_and_the_right_one_loads_once() {
    let folder = tempfile::tempdir().expect("folder");
    let bogus = folder.path().join("libonnxruntime.so");
    std::fs::write(&bogus, b"no library").expect("written");
    let error = init(&bogus).expect_err("not a library");
    assert!(matches!(&error, LibraryError::Open { path, .. } if *path == bogus), "{error}");

    let absent = init(&folder.path().join("absent.so")).expect_err("absent");
    assert!(matches!(absent, LibraryError::Open { .. }), "{absent}");

    let foreign = init(Path::new(&foreign_library())).expect_err("another library");
    assert!(matches!(foreign, LibraryError::NotOnnxRuntime { .. }), "{foreign}");

    for version in ["1.17.3", "1.99.0"] {
        let error = init(&build_stand_in(folder.path(), version)).expect_err("no interface of ours");
        let text = error.to_string();
        assert!(
            matches!(error, LibraryError::TooOld { .. }) && text.contains(version) && text.contains("1.24"),
            "{text}"
        );
    }

    let location = find_library(None).unwrap_or_else(|error| panic!("{error}"));
    let runtime = init(&location.path).unwrap_or_else(|error| panic!("{error}"));
    assert!(runtime.version().starts_with("1."), "{}", runtime.version());
    assert!(runtime.path().is_absolute());
    let again = init(&bogus).expect("the process has its runtime");
    assert_eq!(again.path(), runtime.path());
}

/// The C library that this process itself uses.
fn foreign_library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let libraries = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    libraries
        .filter(|path| path.contains("libc.so") || path.contains("libc-"))
        .map(str::to_owned)
        .next()
        .expect("a C library")
}
