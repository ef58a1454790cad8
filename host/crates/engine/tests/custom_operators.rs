//! Operators of a native library: refused unless the server's operator allows that very file, and run where it does.

mod common;

use std::mem::offset_of;
use std::path::{Path, PathBuf};

use common::{config, fixture, floats, instance, run, to_floats};
use engine::{LoaderOptions, OrtLoader};
use model::{LoadError, LoadRequest, LoadedModel, ModelConfig, ModelLoader as _, VersionNumber};
use ort::sys::OrtApi;

fn build_library(folder: &Path) -> PathBuf {
    let offsets = [
        ("@AddCustomOpDomain", offset_of!(OrtApi, AddCustomOpDomain)),
        ("@CreateCustomOpDomain", offset_of!(OrtApi, CreateCustomOpDomain)),
        ("@CustomOpDomain_Add", offset_of!(OrtApi, CustomOpDomain_Add)),
        ("@GetDimensionsCount", offset_of!(OrtApi, GetDimensionsCount)),
        ("@GetDimensions", offset_of!(OrtApi, GetDimensions)),
        ("@GetTensorMutableData", offset_of!(OrtApi, GetTensorMutableData)),
        ("@GetTensorShapeElementCount", offset_of!(OrtApi, GetTensorShapeElementCount)),
        ("@GetTensorTypeAndShape", offset_of!(OrtApi, GetTensorTypeAndShape)),
        ("@KernelContext_GetInput", offset_of!(OrtApi, KernelContext_GetInput)),
        ("@KernelContext_GetOutput", offset_of!(OrtApi, KernelContext_GetOutput)),
        ("@ReleaseTensorTypeAndShapeInfo", offset_of!(OrtApi, ReleaseTensorTypeAndShapeInfo)),
    ];
    let text = offsets.iter().fold(include_str!("custom_operator/library.rs").to_owned(), |text, (name, offset)| {
        text.replace(name, &offset.to_string())
    });
    let source = folder.join("custom_operator.rs");
    std::fs::write(&source, text).expect("written");
    common::compile_library(&source)
}

fn load(allowed: &Path, named: &Path) -> Result<LoadedModel, LoadError> {
    let options = LoaderOptions { custom_op_libraries: vec![allowed.to_path_buf()] };
    let mut config = ModelConfig { ..config(4) };
    config.session.custom_op_libraries.push(named.to_path_buf());
    let (version, path) = (VersionNumber::new(1).expect("a version"), fixture("custom_operator.onnx"));
    OrtLoader::new(common::runtime(), options).load(&LoadRequest { config: &config, version, path: &path })
}

#[test]
fn a_library_is_loaded_only_where_the_operator_allows_that_file() {
    let folder = tempfile::tempdir().expect("folder");
    let library = build_library(folder.path());
    let loaded = load(&library, &library).unwrap_or_else(|error| panic!("{error}"));
    let output = run(&mut *instance(loaded), &[floats(&[2, 2], &[1.0, -2.0, 0.5, 4.0])]).expect("runs");
    assert_eq!(to_floats(output.tensors[0].data()), [2.0, -4.0, 1.0, 8.0]);

    let link = folder.path().join("link.so");
    std::os::unix::fs::symlink(&library, &link).expect("linked");
    assert!(load(&library, &link).is_ok(), "it is the same file by another name");

    let copy = folder.path().join("copy.so");
    std::fs::copy(&library, &copy).expect("copied");
    for other in [copy, folder.path().join("absent.so")] {
        let error = load(&library, &other).err().expect("another file").to_string();
        let shown = other.display();
        let expected = format!(
            "model 'm', model_operations: custom operator libraries are native code, and '{shown}' is not one that this \
             server allows; export the model with standard ONNX operators, or start the server with --custom-op-library \
             {shown}"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn a_file_that_is_no_library_of_operators_is_told() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("text.so");
    std::fs::write(&path, "no library").expect("written");
    let error = load(&path, &path).err().expect("not a library").to_string();
    let begin = format!("model 'm', model_operations: '{}': ", path.display());
    assert!(error.starts_with(&begin) && error.len() > begin.len(), "{error}");
}

#[test]
fn a_model_that_names_no_library_does_not_load() {
    let error = common::load_error("custom_operator.onnx", &config(4)).to_string();
    assert!(error.contains("airlock.tests"), "{error}");
}
