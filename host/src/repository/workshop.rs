//! Where candidates are built, beside what serves: versions through the engine, plugin generations through the sandbox.
//! Everything here blocks and runs on the load threads. Nothing built here serves until the reconciler publishes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use batching::{BatchHandle, BatcherSpec, RateLimiter, RateLimits};
use model::{LoadError, LoadRequest, LoadedModel, ModelConfig, ModelLoader, ModelName, VersionNumber};
use plugin::{CompileError, Plugin, PluginSpec, SandboxRuntime};
use tokio::runtime::Handle;

use super::config_text::{ConfigDefaults, default_model_config, parse_model_config};
use super::content::PluginContent;
use super::history::History;
use super::manifest;
use super::plugin_toml::{PluginKind, PluginManifest, parse_plugin_toml};
use super::private_copy::LoadingFolder;
use super::problem::{Problem, read_text};
use crate::generation::{GenerationParts, GenerationSink, PluginGeneration};
use crate::janitor::ChoreSender;
use crate::metrics::Metrics;
use crate::registry::{LoadedVersion, LoadedVersionParts};

/// The tools of the load threads; shared and immutable.
pub struct Workshop {
    /// Loads model versions.
    pub loader: Arc<dyn ModelLoader>,
    /// Compiles and runs plugins.
    pub sandbox: Arc<SandboxRuntime>,
    /// The serving runtime, on which samples are awaited.
    pub runtime: Handle,
    /// Where versions and generations report to.
    pub metrics: Metrics,
    /// Where they end.
    pub chores: ChoreSender,
    /// Good generations on disk.
    pub history: History,
    /// Where versions are copied to that cannot be loaded in place.
    pub loading: LoadingFolder,
    /// What the instances of all models share; `None` where their limits are not obeyed.
    pub rate_limiter: Option<RateLimiter>,
    /// Limits a config does not name.
    pub defaults: ConfigDefaults,
    /// Whether candidates are held to their samples.
    pub verification: Verification,
    /// Time for one sample.
    pub sample_timeout: Duration,
    /// The most memory a plugin.toml may ask for.
    pub plugin_memory_bytes_max: usize,
}

/// Whether candidates are held to their samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// They are, before anything is published.
    RunSamples,
    /// Whoever builds them runs the samples themselves.
    Skip,
}

/// Why a plugin could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// `plugin.toml` is wrong; every problem.
    #[error("{}", texts(.0).join("; "))]
    Manifest(Vec<Problem>),
    /// It is of a kind that this version does not serve.
    #[error("plugin.toml says kind = \"pipeline\"; this version serves plugins of kind \"adapter\" only")]
    Kind,
    /// It asks for more memory than the operator allows.
    #[error(
        "plugin.toml: limits.memory_mb is {asked_mb} and may be at most {allowed_mb} here; lower it, or raise \
         --plugin-memory-mb"
    )]
    MemoryOverMaximum {
        /// MiB asked for.
        asked_mb: u64,
        /// MiB allowed.
        allowed_mb: u64,
    },
    /// The component does not compile or is not for this host.
    #[error("plugin.wasm: {0}")]
    Compile(#[from] CompileError),
    /// The sandbox cannot hold it.
    #[error(transparent)]
    Sandbox(#[from] plugin::PluginError),
}

/// Problems as texts.
#[must_use]
pub fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

impl Workshop {
    /// Largest component that is read.
    #[must_use]
    pub fn component_bytes_max(&self) -> u64 {
        self.sandbox.config().component_bytes_max as u64
    }

    /// Reads a model's configuration; Triton's defaults where the folder has none. Warnings are logged.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read_config(&self, name: &ModelName, dir: &Path) -> Result<ModelConfig, Vec<Problem>> {
        let file = dir.join("config.pbtxt");
        let Some(text) = read_text(&file)? else { return Ok(default_model_config(name, &self.defaults)) };
        let (config, warnings) = parse_model_config(&file, &text, name, &self.defaults)?;
        for warning in warnings {
            tracing::warn!(model = %name, "{warning}");
        }
        Ok(config)
    }

    /// Loads a version and starts its queue.
    ///
    /// # Errors
    /// As the engine says.
    pub fn load_version(
        &self,
        declared: &Arc<ModelConfig>,
        dir: &Path,
        number: VersionNumber,
        digest: Arc<str>,
    ) -> Result<LoadedVersion, LoadError> {
        let loaded = self.load_file(declared, &version_file(declared, dir, number), number)?;
        let LoadedModel { config, signature, padding, instances, provider } = loaded;
        self.metrics.engine_load(&config.name);
        let metrics = Arc::new(self.metrics.version(&config.name, number));
        let signature = Arc::new(signature);
        let batch = BatchHandle::start(BatcherSpec {
            name: format!("{}/{number}", config.name),
            signature: Arc::clone(&signature),
            padding: padding.clone(),
            max_batch_size: config.max_batch_size,
            config: config.batching.clone(),
            execution: config.execution,
            instances,
            rate_limits: self.rate_limits(&config),
            observer: Arc::clone(&metrics) as Arc<dyn batching::BatchObserver>,
        })
        .map_err(|error| LoadError::Unsupported(error.to_string()))?;
        Ok(LoadedVersion::new(LoadedVersionParts {
            number,
            digest,
            declared: Arc::clone(declared),
            config: Arc::new(config),
            signature,
            padding,
            batch,
            metrics,
            provider,
            chores: self.chores.clone(),
        }))
    }

    /// What the version's instances need, where that is obeyed.
    fn rate_limits(&self, config: &ModelConfig) -> Option<RateLimits> {
        let limiter = self.rate_limiter.clone()?;
        Some(RateLimits { limiter, limits: config.rate_limits.clone() })
    }

    /// Loads the model at `file`, or at a private copy of it; errors name `file`.
    fn load_file(&self, declared: &ModelConfig, file: &Path, number: VersionNumber) -> Result<LoadedModel, LoadError> {
        let source = self.loading.source(file)?;
        let request = LoadRequest { config: declared, version: number, path: source.path() };
        self.loader.load(&request).map_err(|error| match error {
            LoadError::File { message, .. } => LoadError::File { path: file.to_path_buf(), message },
            other => other,
        })
    }

    /// What a plugin asks for is given or refused, never cut down in silence.
    fn check_memory(&self, manifest: &PluginManifest) -> Result<(), BuildError> {
        let (asked, allowed) = (manifest.limits.memory_bytes(), self.plugin_memory_bytes_max as u64);
        if asked <= allowed {
            return Ok(());
        }
        Err(BuildError::MemoryOverMaximum { asked_mb: asked >> 20, allowed_mb: allowed >> 20 })
    }

    /// Compiles a plugin and makes a generation of it.
    ///
    /// # Errors
    /// A [`BuildError`] that says what is wrong and, where known, what to do.
    pub fn build_generation(
        &self,
        model: &ModelName,
        number: u64,
        content: &PluginContent,
        manifest_file: &Path,
    ) -> Result<PluginGeneration, BuildError> {
        let manifest = match &content.manifest {
            Some(text) => parse_plugin_toml(manifest_file, text).map_err(BuildError::Manifest)?,
            None => PluginManifest::default(),
        };
        if manifest.kind == PluginKind::Pipeline {
            return Err(BuildError::Kind);
        }
        self.check_memory(&manifest)?;
        if !manifest.grants.is_empty() {
            let asked = manifest.grants.to_string();
            tracing::warn!(model = %model, generation = number, asked, "this version grants nothing; calls are denied");
        }
        let compiled = self.sandbox.compile(&content.component)?;
        tracing::debug!(
            model = %model, generation = number, digest = compiled.digest(), cache_hit = compiled.cache_hit(),
            compile_ms = compiled.compile_time().as_millis(), "component compiled"
        );
        let sink = GenerationSink {
            model: model.clone(),
            generation: number,
            metrics: self.metrics.clone(),
            histograms: manifest.metrics.histograms.clone(),
        };
        let spec = PluginSpec {
            model: model.clone(),
            generation: number,
            limits: manifest::limits(&manifest.limits),
            reuse: manifest::reuse(manifest.reuse),
            placement: manifest::placement(manifest.execution),
            metrics: manifest::metrics(&manifest.metrics),
            config: manifest.config,
            assets: Arc::clone(&content.assets),
            sink: Arc::new(sink),
        };
        let plugin = Plugin::new(Arc::clone(&self.sandbox), compiled, spec)?;
        let parts = GenerationParts {
            model: model.clone(),
            number,
            digest: Arc::clone(&content.digest),
            metrics: self.metrics.clone(),
            chores: self.chores.clone(),
        };
        Ok(PluginGeneration::new(parts, plugin))
    }
}

/// The model's file of a version.
#[must_use]
pub fn version_file(config: &ModelConfig, dir: &Path, number: VersionNumber) -> PathBuf {
    dir.join(number.to_string()).join(&config.model_filename)
}
