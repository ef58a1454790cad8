//! Loading a model version: open its file as one session, read and check the signature, make the instances, warm each
//! up. Whatever fails, nothing stays loaded.

use std::path::Path;
use std::sync::Arc;

use model::{
    GraphOptimization, InstanceThreads, LoadError, LoadRequest, LoadedModel, ModelConfig, ModelInstance, ModelLoader,
};
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};

use crate::check::{Served, check};
use crate::file::FileSignature;
use crate::instance::{CpuInstance, LoadedVersion};
use crate::raw::CpuSession;
use crate::runtime::OrtRuntime;
use crate::served::served;
use crate::warmup;

/// The execution provider that this loader's versions run on.
pub const CPU_PROVIDER: &str = "CPUExecutionProvider";

/// Loads model versions with ONNX Runtime.
///
/// A version is one session, whatever its number of instances, so its weights are in memory once. The file is read whole
/// while it loads; afterwards it may be replaced. Weights in external files are the exception: ONNX Runtime maps those, so
/// they must stay as they are for as long as the version is loaded; [`onnx_is_complete`](crate::onnx_is_complete) lists
/// them, and the host loads such a version from a copy of its own.
///
/// Of the configuration's `parameters` these are obeyed: `execution_mode` (0 sequential, 1 parallel), `enable_mem_arena`
/// and `enable_mem_pattern` (0 or 1).
#[derive(Clone, Debug)]
pub struct OrtLoader {
    runtime: OrtRuntime,
}

impl OrtLoader {
    /// A loader that uses this runtime.
    #[must_use]
    pub fn new(runtime: OrtRuntime) -> Self {
        Self { runtime }
    }

    fn open(&self, path: &Path, options: Options) -> Result<Session, LoadError> {
        let failed = |message: String| LoadError::File { path: path.to_path_buf(), message };
        let metadata = std::fs::metadata(path)
            .map_err(|error| failed(format!("{error}; a version folder must hold its model under this name")))?;
        if !metadata.is_file() {
            return Err(failed("it is not a regular file; put the model itself there".to_owned()));
        }
        let mut builder = options.builder(&self.runtime).map_err(failed)?;
        builder.commit_from_file(path).map_err(|error| {
            failed(format!(
                "{}; copy the file again if it was cut short, or run onnx.checker.check_model on it where it was exported",
                error.message()
            ))
        })
    }
}

impl ModelLoader for OrtLoader {
    fn load(&self, request: &LoadRequest<'_>) -> Result<LoadedModel, LoadError> {
        let session = self.open(request.path, Options::of(request.config)?)?;
        let (config, version) = checked_version(request, &session)?;
        let version = Arc::new(version);
        drop(session);
        let (signature, padding) = served(&config, &version.signature)?;
        let warmups = warmup::prepare(&config, &version.signature)?;
        let mut instances: Vec<Box<dyn ModelInstance>> = Vec::with_capacity(config.instance_count.get());
        for _ in 0..config.instance_count.get() {
            let mut instance = CpuInstance::new(Arc::clone(&version));
            warmups.iter().try_for_each(|warmup| warmup.run(&mut instance))?;
            instances.push(Box::new(instance));
        }
        drop(warmups);
        Ok(LoadedModel { config, signature, padding, instances, provider: CPU_PROVIDER })
    }
}

/// The configuration completed from the file, and the version that serves by it.
fn checked_version(request: &LoadRequest<'_>, session: &Session) -> Result<(ModelConfig, LoadedVersion), LoadError> {
    let failed = |message: String| LoadError::File { path: request.path.to_path_buf(), message };
    let file = FileSignature::of(session).map_err(failed)?;
    let mut config = request.config.clone();
    let completed = config.complete(&file.tensors());
    completed.map_err(|error| LoadError::Mismatch { problems: vec![error.to_string()] })?;
    let Served { signature, input_reshapes, output_reshapes } = check(&config, &file)?;
    let inputs = signature.inputs.iter().map(|spec| &*spec.name);
    let outputs = signature.outputs.iter().map(|spec| &*spec.name);
    let session = CpuSession::new(session, inputs, outputs).map_err(failed)?;
    let batches = config.max_batch_size > 0;
    Ok((config, LoadedVersion { session, signature, input_reshapes, output_reshapes, batches }))
}

/// How a session runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Options {
    optimization: GraphOptimization,
    threads: InstanceThreads,
    parallel: bool,
    memory_arena: bool,
    memory_pattern: bool,
}

impl Options {
    fn of(config: &ModelConfig) -> Result<Self, LoadError> {
        let switch = |key: &str, default: bool| match config.parameters.get(key).map(String::as_str) {
            None => Ok(default),
            Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(LoadError::Mismatch {
                problems: vec![format!(
                    "model '{}', parameter '{key}' must be 0 or 1, got '{other}'; write \"0\" or \"1\"",
                    config.name
                )],
            }),
        };
        Ok(Self {
            optimization: config.graph_optimization,
            threads: config.threads,
            parallel: switch("execution_mode", false)?,
            memory_arena: switch("enable_mem_arena", true)?,
            memory_pattern: switch("enable_mem_pattern", true)?,
        })
    }

    fn builder(self, runtime: &OrtRuntime) -> Result<SessionBuilder, String> {
        let level = match self.optimization {
            GraphOptimization::Disabled => GraphOptimizationLevel::Disable,
            GraphOptimization::Basic => GraphOptimizationLevel::Level1,
            GraphOptimization::Extended => GraphOptimizationLevel::Level2,
            GraphOptimization::All => GraphOptimizationLevel::All,
        };
        let arena = ort::ep::CPU::default().with_arena_allocator(self.memory_arena).build().error_on_failure();
        let builder = Session::builder(runtime.environment()).map_err(message)?;
        let builder = builder.with_execution_providers([arena]).map_err(message)?;
        let builder = builder.with_optimization_level(level).map_err(message)?;
        let builder = builder.with_intra_threads(self.threads.intra_op.into()).map_err(message)?;
        let builder = builder.with_inter_threads(self.threads.inter_op.into()).map_err(message)?;
        let builder = builder.with_parallel_execution(self.parallel).map_err(message)?;
        builder.with_memory_pattern(self.memory_pattern).map_err(message)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` wants")]
fn message<R>(error: ort::Error<R>) -> String {
    error.message().to_owned()
}
