//! Where candidates are built, beside what serves: versions through the engine, plugin generations through the sandbox.
//! Everything here blocks and runs on the load threads. Nothing built here serves until the reconciler publishes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use batching::{BatchHandle, BatcherSpec, RateLimiter, RateLimits};
use model::{AutoComplete, LoadError, LoadRequest, LoadedModel, ModelConfig, ModelLoader, ModelName, VersionNumber};
use plugin::{CompileError, Plugin, PluginSpec, SandboxRuntime};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::checksum::ChecksumError;
use super::config_choice::ConfigChoice;
use super::config_correction::Correction;
use super::config_json::parse_model_config_json;
use super::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use super::content::PluginContent;
use super::declared_config::DeclaredConfig;
use super::headroom;
use super::history::History;
use super::manifest;
use super::native_code::native_libraries;
use super::plugin_toml::{PluginKind, PluginManifest, parse_plugin_toml};
use super::private_copy::LoadingFolder;
use super::problem::{Problem, read_text};
use crate::generation::{GenerationParts, GenerationSink, PluginGeneration};
use crate::janitor::ChoreSender;
use crate::metrics::Metrics;
use crate::registry::{LoadedVersion, LoadedVersionParts, VersionConfig};
use crate::response_cache::{ResponseCache, VersionCache};

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
    /// Where the answers of models that ask for it are kept; `None` where the server keeps none.
    pub response_cache: Option<Arc<ResponseCache>>,
    /// Which file is a model's configuration.
    pub config_choice: ConfigChoice,
    /// Limits a config does not name.
    pub defaults: ConfigDefaults,
    /// How often a version that does not load is tried again.
    pub load_retries: usize,
    /// Bytes of memory that a load must leave free; `None` where nobody asked.
    pub headroom_bytes: Option<u64>,
    /// Requests that must wait for a version before the first of them runs; 0 where none need to.
    pub held_until: usize,
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

/// Why a version could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// A file is not what its checksum promises.
    #[error(transparent)]
    Checksum(#[from] ChecksumError),
    /// Configuration and file disagree; this would settle it.
    #[error("{0}")]
    Disagrees(Box<Correction>),
    /// The engine cannot load it.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl VersionError {
    /// The refusal of `declared` by the engine, with its correction where there is one.
    #[must_use]
    pub fn new(declared: &DeclaredConfig, error: LoadError) -> Self {
        let correction = match &error {
            LoadError::Mismatch { problems, file: Some(file) } => Correction::of(declared, problems, file),
            _ => None,
        };
        correction.map_or(Self::Load(error), |correction| Self::Disagrees(Box::new(correction)))
    }
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

    /// Reads a model's configuration; Triton's defaults where the folder has none and the model file may complete them.
    /// Warnings are logged.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read_config(&self, name: &ModelName, dir: &Path) -> Result<DeclaredConfig, Vec<Problem>> {
        let file = self.config_choice.file(dir);
        let Some(text) = read_text(&file)? else {
            if self.defaults.auto_complete == AutoComplete::Off {
                let message = "it is not there, and nothing is taken from the model file";
                return Err(vec![
                    Problem::of_file(&file, message)
                        .with_fix("write it, with every input and output, or leave --disable-auto-complete-config out"),
                ]);
            }
            return Ok(DeclaredConfig::undeclared(name, &self.defaults));
        };
        let context = ConfigContext { model: name, dir, defaults: &self.defaults };
        let (config, warnings) = parse_model_config(&file, &text, &context)?;
        for warning in warnings {
            tracing::warn!(model = %name, "{warning}");
        }
        Ok(config)
    }

    /// The same for a configuration that a load request gave as JSON in place of the file.
    ///
    /// # Errors
    /// Every problem of the text.
    pub fn read_config_json(&self, name: &ModelName, dir: &Path, json: &str) -> Result<DeclaredConfig, Vec<Problem>> {
        let context = ConfigContext { model: name, dir, defaults: &self.defaults };
        let (config, warnings) = parse_model_config_json(Path::new("config"), json, &context)?;
        for warning in warnings {
            tracing::warn!(model = %name, "{warning}");
        }
        Ok(config)
    }

    /// Loads a version and starts its queue.
    ///
    /// # Errors
    /// A file that is not what its checksum promises, or as the engine says; with what to write instead, where the
    /// configuration disagrees with the model's file.
    pub fn load_version(
        &self,
        declared: &Arc<DeclaredConfig>,
        dir: &Path,
        number: VersionNumber,
        digest: Arc<str>,
    ) -> Result<LoadedVersion, VersionError> {
        let checksums = declared.checksums.iter().filter(|checksum| checksum.version() == Some(number));
        checksums.into_iter().try_for_each(|checksum| checksum.verify(dir))?;
        for library in native_libraries(dir, number) {
            tracing::warn!(
                model = %declared.model.name, version = %number, library = %library.display(),
                "native code of a model's folder is never loaded; whatever it does in Triton does not happen here"
            );
        }
        let file = version_file(&declared.model, dir, number);
        let started = Instant::now();
        let loaded = self.load_with_retries(&declared.model, &file, number);
        let loaded = loaded.map_err(|error| VersionError::new(declared, error))?;
        let LoadedModel { config, signature, assembly, instances, provider, factory, labels } = loaded;
        self.metrics.engine_load(&config.name);
        let metrics = Arc::new(self.metrics.version(&config.name, number, &declared.metrics));
        metrics.inference().show_load(started.elapsed());
        let answers = self.answers(&config);
        metrics.inference().show_caching(answers.as_ref());
        let signature = Arc::new(signature);
        let batch = BatchHandle::start(BatcherSpec {
            name: format!("{}/{number}", config.name),
            signature: Arc::clone(&signature),
            assembly: assembly.clone(),
            max_batch_size: config.max_batch_size,
            config: config.batching.clone(),
            execution: config.execution,
            instances,
            rate_limits: self.rate_limits(&config),
            observer: Arc::clone(&metrics) as Arc<dyn batching::BatchObserver>,
            held_until: self.held_until,
        })
        .map_err(|error| {
            // The instances are dropped with the batcher that did not start.
            engine::return_free_memory();
            LoadError::Unsupported(error.to_string())
        })?;
        Ok(LoadedVersion::new(LoadedVersionParts {
            number,
            digest,
            config: VersionConfig { declared: Arc::clone(declared), completed: Arc::new(config) },
            answers,
            labels: declared.labels.over(labels),
            signature,
            assembly,
            factory,
            batch,
            metrics,
            provider,
            chores: self.chores.clone(),
        }))
    }

    /// Where the version's answers are kept, if the model asks for it and the server can.
    fn answers(&self, config: &ModelConfig) -> Option<VersionCache> {
        if config.has_response_cache && self.response_cache.is_none() {
            tracing::warn!(
                model = %config.name,
                "response_cache has no effect: this server keeps no answers; give it --cache-config=local,size=BYTES"
            );
        }
        let cache = self.response_cache.as_ref().filter(|_| config.has_response_cache)?;
        Some(VersionCache::new(Arc::clone(cache)))
    }

    /// What the version's instances need, where that is obeyed.
    fn rate_limits(&self, config: &ModelConfig) -> Option<RateLimits> {
        let limiter = self.rate_limiter.clone()?;
        Some(RateLimits { limiter, limits: config.rate_limits() })
    }

    /// Loads the model at `file`, again if it does not and the settings say so.
    fn load_with_retries(
        &self,
        declared: &ModelConfig,
        file: &Path,
        number: VersionNumber,
    ) -> Result<LoadedModel, LoadError> {
        let mut left = self.load_retries;
        loop {
            let loaded = self.check_headroom(file).and_then(|()| self.load_file(declared, file, number));
            match loaded {
                Err(error) if left > 0 => {
                    tracing::warn!(model = %declared.name, version = %number, left, %error, "not loaded; trying again");
                    left -= 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn check_headroom(&self, file: &Path) -> Result<(), LoadError> {
        let Some(headroom) = self.headroom_bytes.filter(|_| file.exists()) else { return Ok(()) };
        let external = match engine::onnx_is_complete(file) {
            Ok(engine::Completeness::Complete { external_files }) => external_files,
            // What is no model is for the loader to report.
            _ => Vec::new(),
        };
        let own = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        let bytes = external.iter().fold(own, |sum, file| sum.saturating_add(file.bytes_min));
        headroom::check(bytes, headroom, headroom::available_bytes())
            .map_err(|error| LoadError::File { path: file.to_path_buf(), message: error.to_string() })
    }

    /// Loads the model at `file`, or at a private copy of it; errors name `file`.
    fn load_file(&self, declared: &ModelConfig, file: &Path, number: VersionNumber) -> Result<LoadedModel, LoadError> {
        if !declared.backend.has_file() {
            return self.loader.load(&LoadRequest { config: declared, version: number, path: file });
        }
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

/// The model's file where a version has a folder in its place, with the weights beside it.
pub const MODEL_IN_FOLDER: &str = "model.onnx";

/// The model's file of a version, or the one in the folder that stands in its place, as Triton takes either.
#[must_use]
pub fn version_file(config: &ModelConfig, dir: &Path, number: VersionNumber) -> PathBuf {
    let file = dir.join(number.to_string()).join(&config.model_filename);
    if file.is_dir() { file.join(MODEL_IN_FOLDER) } else { file }
}
