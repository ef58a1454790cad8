//! Loading a model version: open its file as one session, read and check the signature, make the instances, warm each
//! up. Whatever fails, nothing stays loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{
    Assembly, InstanceFactory, LoadError, LoadRequest, LoadedModel, ModelConfig, ModelInstance, ModelLoader, Signature,
};
use ort::session::Session;
use ort::session::builder::SessionBuilder;

use crate::accelerators;
use crate::check::{Served, check};
use crate::classifier::{Labels, rewritten};
use crate::file::FileSignature;
use crate::instance::{CpuInstance, LoadedVersion};
use crate::raw::{CpuSession, return_free_memory};
use crate::runtime::OrtRuntime;
use crate::served::served;
use crate::session_options::{self, message};
use crate::warmup::{self, Warmup};

/// The execution provider that versions without accelerators run on.
pub const CPU_PROVIDER: &str = "CPUExecutionProvider";

/// What the operator of the server says about every model.
#[derive(Clone, Debug, Default)]
pub struct LoaderOptions {
    /// Libraries with operators of their own that models may name in `model_operations`. They are native code, and must
    /// let several threads run one session at a time.
    pub custom_op_libraries: Vec<PathBuf>,
}

/// Loads model versions with ONNX Runtime.
///
/// A version is one session, whatever its number of instances, so its weights are in memory once. The file is read whole
/// while it loads; afterwards it may be replaced. Weights in external files are the exception: ONNX Runtime maps those, so
/// they must stay as they are for as long as the version is loaded; [`onnx_is_complete`](crate::onnx_is_complete) lists
/// them, and the host loads such a version from a copy of its own.
///
/// An output that is a list of maps from class labels to scores is served as the tensor of scores, and the labels are told
/// in [`LoadedModel::labels`].
#[derive(Clone, Debug)]
pub struct OrtLoader {
    runtime: OrtRuntime,
    options: LoaderOptions,
}

impl OrtLoader {
    /// A loader that uses this runtime.
    #[must_use]
    pub fn new(runtime: OrtRuntime, options: LoaderOptions) -> Self {
        Self { runtime, options }
    }

    fn open(&self, request: &LoadRequest<'_>) -> Result<(Session, Labels), LoadError> {
        let path = request.path;
        let failed = |message: String| LoadError::File { path: path.to_path_buf(), message };
        let metadata = std::fs::metadata(path)
            .map_err(|error| failed(format!("{error}; a version folder must hold its model under this name")))?;
        if !metadata.is_file() {
            return Err(failed("it is not a regular file; put the model itself there".to_owned()));
        }
        let builder = session_options::builder(&self.runtime, request.config, &self.options);
        let builder = builder.map_err(LoadError::Unsupported)?;
        let turn = accelerators::turn(&request.config.session.accelerators);
        let opened = commit(builder, path);
        drop(turn);
        opened.map_err(|message| {
            let advice =
                "copy the file again if it was cut short, or run onnx.checker.check_model on it where it was exported";
            let names: Vec<&str> = request.config.session.entries.iter().map(|(name, _)| name).collect();
            let doubt = if names.is_empty() {
                String::new()
            } else {
                format!(", or look at its parameters ort.session.{}", names.join(", ort.session."))
            };
            failed(format!("{message}; {advice}{doubt}"))
        })
    }
}

/// Makes the session, of rewritten bytes where the file is a classifier that needs it.
fn commit(mut builder: SessionBuilder, path: &Path) -> Result<(Session, Labels), String> {
    let Some(rewritten) = rewritten(path) else {
        return builder.commit_from_file(path).map(|session| (session, Labels::new())).map_err(message);
    };
    // Weights in files of their own lie beside the model, wherever its bytes come from.
    let folder = std::path::absolute(path).map_err(|error| error.to_string())?;
    let folder = folder.parent().and_then(Path::to_str).ok_or("its folder's name is not UTF-8; rename the folder")?;
    let builder = builder.with_config_entry("session.model_external_initializers_file_folder_path", folder);
    let session = builder.map_err(message)?.commit_from_memory(&rewritten.bytes).map_err(message)?;
    Ok((session, rewritten.labels))
}

impl ModelLoader for OrtLoader {
    fn load(&self, request: &LoadRequest<'_>) -> Result<LoadedModel, LoadError> {
        let loaded = self.load_or_free(request);
        if loaded.is_err() {
            // The session that was made before the failure is freed by now, and no queue is stopped after it.
            return_free_memory();
        }
        loaded
    }
}

impl OrtLoader {
    fn load_or_free(&self, request: &LoadRequest<'_>) -> Result<LoadedModel, LoadError> {
        let (session, mut labels) = self.open(request)?;
        let (config, version) = checked_version(request, &session)?;
        drop(session);
        let (signature, assembly) = served(&config, &version.signature)?;
        labels.retain(|output, _| signature.outputs.iter().any(|spec| spec.name == *output));
        let requests = (signature.clone(), assembly.clone());
        let factory = CpuInstances { version: Arc::new(version), config, requests };
        let instances = factory.make_all()?;
        let config = factory.config.clone();
        let provider = session_options::provider(&config.session);
        Ok(LoadedModel { config, signature, assembly, instances, factory: Arc::new(factory), labels, provider })
    }
}

/// Makes instances of a loaded version.
struct CpuInstances {
    version: Arc<LoadedVersion>,
    config: ModelConfig,
    /// What requests bring and get, and how batches are made of them.
    requests: (Signature, Option<Assembly>),
}

impl CpuInstances {
    fn warmups(&self) -> Result<Vec<Warmup<'_>>, LoadError> {
        let (signature, assembly) = &self.requests;
        warmup::prepare(&self.config, signature, assembly.as_ref())
    }

    fn make_all(&self) -> Result<Vec<Box<dyn ModelInstance>>, LoadError> {
        let warmups = self.warmups()?;
        (0..self.config.instance_count().get()).map(|_| self.warmed(&warmups)).collect()
    }

    fn warmed(&self, warmups: &[Warmup<'_>]) -> Result<Box<dyn ModelInstance>, LoadError> {
        let mut instance = CpuInstance::new(Arc::clone(&self.version));
        warmups.iter().try_for_each(|warmup| warmup.run(&mut instance))?;
        Ok(Box::new(instance))
    }
}

impl InstanceFactory for CpuInstances {
    fn make(&self) -> Result<Box<dyn ModelInstance>, LoadError> {
        self.warmed(&self.warmups()?)
    }
}

/// The configuration completed from the file, and the version that serves by it.
fn checked_version(request: &LoadRequest<'_>, session: &Session) -> Result<(ModelConfig, LoadedVersion), LoadError> {
    let failed = |message: String| LoadError::File { path: request.path.to_path_buf(), message };
    let file = FileSignature::of(session).map_err(failed)?;
    let mut config = request.config.clone();
    let tensors = file.tensors();
    let completed = config.complete(&tensors);
    completed
        .map_err(|error| LoadError::Mismatch { problems: vec![error.to_string()], file: Some(Box::new(tensors)) })?;
    let Served { signature, input_reshapes, output_reshapes, outputs_have_rows } = check(&config, &file)?;
    let run_options = session_options::run_options(&config.session).map_err(failed)?;
    let inputs = signature.inputs.iter().map(|spec| &*spec.name);
    let outputs = signature.outputs.iter().map(|spec| &*spec.name);
    let session = CpuSession::new(session, run_options, inputs, outputs).map_err(failed)?;
    let version = LoadedVersion { session, signature, input_reshapes, output_reshapes, outputs_have_rows };
    Ok((config, version))
}
