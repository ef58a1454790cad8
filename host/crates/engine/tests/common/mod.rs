//! What the engine's tests share: the real library, found as the product finds it, the fixture models, and a way to run
//! one batch. Without a library every test fails with the text that says how to provide one.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use bytes::Bytes;
use engine::{LoaderOptions, OrtLoader, OrtRuntime, RuntimeOptions, find_library};
use model::{
    Assembly, AutoComplete, BatchLayout, BatchOutput, DataType, EngineError, LoadError, LoadRequest, LoadedModel,
    ModelConfig, ModelInstance, ModelLoader as _, ModelName, Tensor, TensorConfig, VersionNumber,
};

pub(crate) fn runtime() -> OrtRuntime {
    let location = find_library(None).unwrap_or_else(|error| panic!("{error}"));
    OrtRuntime::init(&location.path, &RuntimeOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn loader() -> OrtLoader {
    OrtLoader::new(runtime(), LoaderOptions::default())
}

/// Compiles a source file to a library beside it.
pub(crate) fn compile_library(source: &Path) -> PathBuf {
    let library = source.with_extension("so");
    let compiler =
        std::env::var_os("RUSTC").map_or_else(|| Path::new(env!("CARGO")).with_file_name("rustc"), PathBuf::from);
    let status = Command::new(compiler)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .args([&library, source])
        .status()
        .expect("the compiler starts");
    assert!(status.success());
    library
}

/// Threads of this process.
pub(crate) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux").count()
}

pub(crate) fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/models").join(file)
}

/// A configuration that declares nothing, and is not completed.
pub(crate) fn config(max_batch_size: u32) -> ModelConfig {
    let name = ModelName::new("m").expect("a name");
    ModelConfig { max_batch_size, auto_complete: AutoComplete::Off, ..ModelConfig::named(name) }
}

/// A configuration that declares nothing, and is completed from the file.
pub(crate) fn completed(max_batch_size: u32) -> ModelConfig {
    ModelConfig { auto_complete: AutoComplete::default(), ..config(max_batch_size) }
}

pub(crate) fn declared(name: &str, data_type: DataType, dims: &[i64]) -> TensorConfig {
    TensorConfig { name: name.into(), data_type, dims: dims.to_vec(), reshape: None }
}

pub(crate) fn load_path(path: &Path, config: &ModelConfig) -> Result<LoadedModel, LoadError> {
    let version = VersionNumber::new(1).expect("a version");
    loader().load(&LoadRequest { config, version, path })
}

pub(crate) fn load(file: &str, config: &ModelConfig) -> LoadedModel {
    load_path(&fixture(file), config).unwrap_or_else(|error| panic!("{file}: {error}"))
}

pub(crate) fn load_error(file: &str, config: &ModelConfig) -> LoadError {
    match load_path(&fixture(file), config) {
        Ok(_) => panic!("{file} should not load"),
        Err(error) => error,
    }
}

/// The only instance of a model.
pub(crate) fn instance(loaded: LoadedModel) -> Box<dyn ModelInstance> {
    let [instance] = <[_; 1]>::try_from(loaded.instances).ok().expect("one instance");
    instance
}

pub(crate) fn tensor(data_type: DataType, shape: &[u64], data: impl Into<Bytes>) -> Tensor {
    Tensor::new("x".into(), data_type, shape.to_vec(), data.into()).expect("fits")
}

pub(crate) fn floats(shape: &[u64], values: &[f32]) -> Tensor {
    tensor(DataType::Fp32, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

/// What a file of fixtures holds.
pub(crate) fn json(file: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(fixture(file)).expect("the fixture is there");
    serde_json::from_str(&text).expect("JSON")
}

/// Every number in nested lists, in order.
pub(crate) fn numbers(value: &serde_json::Value) -> Vec<f32> {
    match value {
        serde_json::Value::Array(values) => values.iter().flat_map(numbers).collect(),
        value => vec![serde_json::from_value(value.clone()).expect("a number")],
    }
}

pub(crate) fn to_floats(data: &[u8]) -> Vec<f32> {
    data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}

/// v2's encoding of strings.
pub(crate) fn strings<S: AsRef<[u8]>>(elements: &[S]) -> Vec<u8> {
    let encode = |element: &S| {
        let bytes = element.as_ref();
        [&u32::try_from(bytes.len()).expect("short").to_le_bytes()[..], bytes].concat()
    };
    elements.iter().flat_map(encode).collect()
}

/// Runs one batch whose inputs are in the signature's order, and checks that the answer came before `submit` returned.
pub(crate) fn run(instance: &mut dyn ModelInstance, inputs: &[Tensor]) -> Result<BatchOutput, EngineError> {
    run_rows(instance, inputs, None)
}

/// The same for a model that batches.
pub(crate) fn run_rows(
    instance: &mut dyn ModelInstance,
    inputs: &[Tensor],
    rows: Option<u64>,
) -> Result<BatchOutput, EngineError> {
    let shapes = inputs.iter().map(|tensor| tensor.shape().to_vec()).collect();
    let layout = BatchLayout { shapes, rows, ..BatchLayout::default() };
    let slot = instance.prepare(&layout)?;
    for (i, tensor) in inputs.iter().enumerate() {
        slot.append(i, tensor.data());
    }
    submit(instance)
}

/// Runs requests, each its inputs and rows, as one batch, and gives each its outputs.
pub(crate) fn run_assembled(
    instance: &mut dyn ModelInstance,
    assembly: &Assembly,
    requests: &[(Vec<Tensor>, u64)],
) -> Result<Vec<Vec<Tensor>>, EngineError> {
    let list = requests.iter().map(|(inputs, rows)| (&inputs[..], *rows));
    let rows: Vec<u64> = requests.iter().map(|(_, rows)| *rows).collect();
    let batch = assembly.batch(list.clone());
    let mut layout = BatchLayout::default();
    batch.write_layout(&mut layout, &list, rows.iter().sum());
    batch.write(instance.prepare(&layout)?, &list);
    let outputs = submit(instance)?.tensors;
    batch.check(&outputs)?;
    Ok(batch.split(outputs, &rows))
}

pub(crate) fn submit(instance: &mut dyn ModelInstance) -> Result<BatchOutput, EngineError> {
    let (sender, receiver) = mpsc::channel();
    instance.submit(Box::new(move |output| sender.send(output).expect("the test waits")));
    let output = receiver.try_recv().expect("a CPU instance completes inside submit");
    assert!(receiver.try_recv().is_err(), "exactly one answer");
    output
}
