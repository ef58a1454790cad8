//! What is served: one immutable map behind one atomic pointer. The reconciler is the only writer; a request takes one
//! snapshot, pins its release and never looks again, so whatever it answers comes from one model version and one plugin
//! generation. Publishing anything, a plugin, a version or both together, is a single store of a new map.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use batching::{BatchHandle, StartError};
use model::{
    Assembly, ErrorCode, InstanceFactory, LoadError, ModelConfig, ModelName, NonFinite, Signature, SignatureMismatch,
    Tensor, VersionNumber,
};
use prometheus::IntGauge;
use tokio::time::Instant;

use crate::failure::RequestFailure;
use crate::generation::PluginGeneration;
use crate::janitor::{Chore, ChoreSender};
use crate::metrics::VersionMetrics;
use crate::repository::declared_config::{DeclaredConfig, Labels};
use crate::repository::scan::Unit;
use crate::response_cache::VersionCache;

/// The served models, readable without a lock.
#[derive(Default)]
pub struct ModelRegistry {
    map: ArcSwap<ModelMap>,
}

/// One state of the registry.
#[derive(Clone, Default)]
pub struct ModelMap {
    models: HashMap<ModelName, Arc<ServedModel>>,
    /// Models that were unloaded on request.
    unloaded: HashMap<ModelName, Unloaded>,
    /// Models that are being loaded while nothing of them serves.
    loading: HashSet<ModelName>,
    /// Whether the first pass over the repositories is over.
    complete: bool,
    /// Whether, after that, every model has served at the same time.
    has_been_ready: bool,
}

/// What is remembered of a model that was unloaded on request.
#[derive(Clone)]
struct Unloaded {
    /// The versions that served.
    versions: Vec<VersionNumber>,
    since: Instant,
}

/// What is known and served of one model.
#[derive(Clone)]
pub struct ServedModel {
    /// The model's name.
    pub name: ModelName,
    /// Its configuration in force; `None` while none was readable.
    pub config: Option<Arc<DeclaredConfig>>,
    /// Served versions.
    pub releases: BTreeMap<VersionNumber, Arc<Release>>,
    /// Why parts of the desired state do not serve, by part (`config.pbtxt`, `plugin`, `version 2`).
    pub problems: BTreeMap<String, String>,
}

impl ServedModel {
    /// A model of which nothing serves.
    #[must_use]
    pub fn empty(name: ModelName) -> Self {
        Self { name, config: None, releases: BTreeMap::new(), problems: BTreeMap::new() }
    }

    /// Whether some release serves with this generation.
    #[must_use]
    pub fn serves(&self, generation: &Arc<PluginGeneration>) -> bool {
        let same = |release: &Arc<Release>| release.generation().is_some_and(|own| Arc::ptr_eq(own, generation));
        self.releases.values().any(same)
    }
}

/// A model version with the plugin generation that serves with it: what a request pins.
pub struct Release {
    /// The loaded version.
    pub version: Arc<LoadedVersion>,
    /// The plugin, or what predict should know about its absence.
    pub plugin: PluginSlot,
}

impl Release {
    /// The plugin generation that serves with the version.
    #[must_use]
    pub fn generation(&self) -> Option<&Arc<PluginGeneration>> {
        match &self.plugin {
            PluginSlot::Serving(generation) => Some(generation),
            PluginSlot::Absent | PluginSlot::Refused(_) => None,
        }
    }
}

/// The plugin of a release.
#[derive(Clone)]
pub enum PluginSlot {
    /// It serves.
    Serving(Arc<PluginGeneration>),
    /// The model's folder has none.
    Absent,
    /// The folder has one that cannot serve, for this reason.
    Refused(Arc<str>),
}

/// A version the engine has loaded. Its queue is stopped, and its memory freed, by the janitor once the last request
/// that pinned it is done.
pub struct LoadedVersion {
    /// The model.
    pub model: ModelName,
    /// The version.
    pub number: VersionNumber,
    /// The number as text, for answers and headers.
    pub number_text: Arc<str>,
    /// Content hash of what it was loaded from.
    pub digest: Arc<str>,
    /// Its configuration. It changes while it serves where the change needs no new session.
    config: ArcSwap<VersionConfig>,
    /// Most rows of a request; see [`ModelConfig::max_request_rows`].
    max_request_rows: u32,
    /// What becomes of outputs that are no numbers.
    pub non_finite: NonFinite,
    /// What it has answered before, where that is kept.
    pub answers: Option<VersionCache>,
    /// The labels of its outputs: of the configuration, else of the file.
    pub labels: Labels,
    /// Inputs and outputs.
    pub signature: Arc<Signature>,
    /// How its batches are put together; `None` where that is the requests' rows, one behind the other.
    pub assembly: Option<Assembly>,
    /// Makes further instances.
    pub factory: Arc<dyn InstanceFactory>,
    /// Its queue and instances.
    pub batch: BatchHandle,
    /// Its metric handles.
    pub metrics: Arc<VersionMetrics>,
    /// The execution provider that runs it.
    pub provider: &'static str,
    chores: ChoreSender,
    draining: OnceLock<IntGauge>,
}

/// Why instances could not be added to a version that serves.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// The warm-up of a new one failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It has no thread to run on.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The configuration of a loaded version.
#[derive(Clone)]
pub struct VersionConfig {
    /// As its folder declares it.
    pub declared: Arc<DeclaredConfig>,
    /// The same with what only the model's file could tell.
    pub completed: Arc<ModelConfig>,
}

/// What a [`LoadedVersion`] is made of.
#[expect(missing_docs, reason = "the fields of LoadedVersion")]
pub struct LoadedVersionParts {
    pub number: VersionNumber,
    pub digest: Arc<str>,
    pub config: VersionConfig,
    pub answers: Option<VersionCache>,
    pub labels: Labels,
    pub signature: Arc<Signature>,
    pub assembly: Option<Assembly>,
    pub factory: Arc<dyn InstanceFactory>,
    pub batch: BatchHandle,
    pub metrics: Arc<VersionMetrics>,
    pub provider: &'static str,
    pub chores: ChoreSender,
}

impl LoadedVersion {
    /// Puts a loaded version together.
    #[must_use]
    pub fn new(parts: LoadedVersionParts) -> Self {
        Self {
            model: parts.config.completed.name.clone(),
            number: parts.number,
            number_text: parts.number.to_string().into(),
            digest: parts.digest,
            max_request_rows: parts.config.completed.max_request_rows(),
            non_finite: parts.config.completed.non_finite,
            config: ArcSwap::from_pointee(parts.config),
            answers: parts.answers,
            labels: parts.labels,
            signature: parts.signature,
            assembly: parts.assembly,
            factory: parts.factory,
            batch: parts.batch,
            metrics: parts.metrics,
            provider: parts.provider,
            chores: parts.chores,
            draining: OnceLock::new(),
        }
    }

    /// Puts a request's inputs into the model's order and checks all that can be wrong with them. Returns them and their
    /// rows, as [`Signature::check_inputs`] does.
    ///
    /// # Errors
    /// The first [`SignatureMismatch`].
    pub fn check_inputs(&self, inputs: Vec<Tensor>) -> Result<(Vec<Tensor>, u64), SignatureMismatch> {
        let (inputs, rows) = self.signature.check_inputs(inputs, self.max_request_rows)?;
        self.assembly.as_ref().map_or(Ok(()), |assembly| assembly.check(&inputs))?;
        Ok((inputs, rows))
    }

    /// Whether the first dimension of its tensors counts rows.
    #[must_use]
    pub fn has_batch_dimension(&self) -> bool {
        self.max_request_rows > 0
    }

    /// Its configuration now.
    #[must_use]
    pub fn config(&self) -> Arc<VersionConfig> {
        self.config.load_full()
    }

    /// Takes over a configuration that differs only in how many instances run it, and makes or retires them. Blocks for as
    /// long as the warm-up of new ones takes.
    ///
    /// # Errors
    /// When an instance cannot be made; those that ran before run on.
    pub fn resize(&self, declared: &Arc<DeclaredConfig>) -> Result<(), ResizeError> {
        let wanted = declared.model.instance_count();
        let missing = wanted.get().saturating_sub(self.batch.instances());
        let instances = (0..missing).map(|_| self.factory.make()).collect::<Result<_, _>>()?;
        self.batch.add_instances(instances)?;
        self.batch.keep_instances(wanted);
        self.adopt(declared);
        Ok(())
    }

    /// Takes over a configuration that asks for this very version, but for its instances.
    pub fn adopt(&self, declared: &Arc<DeclaredConfig>) {
        let completed = ModelConfig {
            instance_groups: declared.model.instance_groups.clone(),
            version_policy: declared.model.version_policy.clone(),
            ..ModelConfig::clone(&self.config().completed)
        };
        self.config.store(Arc::new(VersionConfig { declared: Arc::clone(declared), completed: Arc::new(completed) }));
    }

    /// It has been replaced: `gauge` counts it until it is freed.
    pub fn start_draining(&self, gauge: &IntGauge) {
        if self.draining.set(gauge.clone()).is_ok() {
            gauge.inc();
        }
    }
}

impl Drop for LoadedVersion {
    fn drop(&mut self) {
        if let Some(gauge) = self.draining.get() {
            gauge.dec();
        }
        self.chores.send(Chore::StopQueue(self.batch.clone()));
        if let Some(answers) = self.answers.take() {
            self.chores.send(Chore::ForgetAnswers(answers));
        }
    }
}

impl ModelRegistry {
    /// The current state.
    #[must_use]
    pub fn snapshot(&self) -> Arc<ModelMap> {
        self.map.load_full()
    }

    /// Pins a release of `model`: `version`, or the highest served one.
    ///
    /// # Errors
    /// A [`RequestFailure`] with Triton's text: unknown model, unknown version, nothing served.
    pub fn pin(&self, model: &str, version: Option<&str>) -> Result<Arc<Release>, RequestFailure> {
        let map = self.map.load();
        map.model(model)?.release(version).map(Arc::clone)
    }

    /// Publishes `served` in one store and returns what it replaces.
    pub fn publish(&self, served: Arc<ServedModel>) -> Option<Arc<ServedModel>> {
        served.releases.values().for_each(|release| release.version.metrics.begin_serving());
        let mut map = ModelMap::clone(&self.map.load());
        map.unloaded.remove(&served.name);
        map.loading.remove(&served.name);
        let old = map.models.insert(served.name.clone(), served);
        self.store(map);
        old
    }

    /// Removes a model in one store, remembers that it was unloaded on request, and returns it.
    pub fn unload(&self, name: &ModelName) -> Option<Arc<ServedModel>> {
        let mut map = ModelMap::clone(&self.map.load());
        map.loading.remove(name);
        let old = map.models.remove(name);
        if let Some(old) = &old {
            let versions = old.releases.keys().copied().collect();
            map.unloaded.insert(name.clone(), Unloaded { versions, since: Instant::now() });
        }
        self.store(map);
        old
    }

    /// Forgets those models that were unloaded on request before `until` and that `is_gone` says nobody can load again.
    pub fn forget_unloaded(&self, until: Instant, is_gone: impl Fn(&ModelName) -> bool) {
        let map = self.map.load();
        let is_due = |name: &ModelName, unloaded: &Unloaded| unloaded.since <= until && is_gone(name);
        if !map.unloaded.iter().any(|(name, unloaded)| is_due(name, unloaded)) {
            return;
        }
        let mut map = ModelMap::clone(&map);
        map.unloaded.retain(|name, unloaded| !is_due(name, unloaded));
        self.store(map);
    }

    /// Records that a model of which nothing serves is being loaded.
    pub fn begin_loading(&self, name: &ModelName) {
        let mut map = ModelMap::clone(&self.map.load());
        map.loading.insert(name.clone());
        self.store(map);
    }

    /// Removes a model in one store and returns it.
    pub fn remove(&self, name: &ModelName) -> Option<Arc<ServedModel>> {
        let mut map = ModelMap::clone(&self.map.load());
        map.loading.remove(name);
        let old = map.models.remove(name);
        self.store(map);
        old
    }

    /// Records that the first pass over the repositories is over: from now on readiness speaks for every model.
    pub fn first_pass_done(&self) {
        let mut map = ModelMap::clone(&self.map.load());
        map.complete = true;
        self.store(map);
    }

    fn store(&self, mut map: ModelMap) {
        map.has_been_ready |= map.complete && map.models.values().all(|model| !model.releases.is_empty());
        self.map.store(Arc::new(map));
    }
}

impl ModelMap {
    /// Every model known.
    pub fn models(&self) -> impl Iterator<Item = &Arc<ServedModel>> {
        self.models.values()
    }

    /// Whether a model is known, if only as one that is being loaded.
    #[must_use]
    pub fn knows(&self, name: &ModelName) -> bool {
        self.models.contains_key(name) || self.loading.contains(name)
    }

    /// Finds a model.
    ///
    /// # Errors
    /// Triton's text for an unknown name, and for one that was unloaded or is loaded for the first time.
    pub fn model(&self, name: &str) -> Result<&Arc<ServedModel>, RequestFailure> {
        self.models.get(name).ok_or_else(|| {
            let is_known = self.unloaded.contains_key(name) || self.loading.contains(name);
            let (code, what) = match is_known {
                true => (ErrorCode::NoAvailableVersion, "has no available versions"),
                false => (ErrorCode::ModelNotFound, "is not found"),
            };
            RequestFailure::new(code, format!("Request for unknown model: '{name}' {what}"))
        })
    }

    /// Models that were unloaded on request and not loaded again, with the versions that served.
    pub fn unloaded(&self) -> impl Iterator<Item = (&ModelName, &[VersionNumber])> {
        self.unloaded.iter().map(|(name, unloaded)| (name, &unloaded.versions[..]))
    }

    /// Models that are being loaded while nothing of them serves.
    pub fn loading(&self) -> impl Iterator<Item = &ModelName> {
        self.loading.iter()
    }

    /// Whether the first pass over the repositories is over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether the first pass is over and every model has come to serve. From then on readiness stays: a failed reload
    /// leaves the old version serving, and a new model that does not load is not the other models' concern.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.has_been_ready
    }
}

impl ServedModel {
    /// The release of `version`, or of the highest version that serves.
    ///
    /// # Errors
    /// Triton's text for a version that is none or not served, and where nothing is.
    pub fn release(&self, version: Option<&str>) -> Result<&Arc<Release>, RequestFailure> {
        match version {
            None => self.releases.values().next_back().ok_or_else(|| self.not_available()),
            Some(text) => {
                let number = parse_version(text)?;
                self.releases.get(&number).ok_or_else(|| self.not_served(number))
            }
        }
    }

    fn not_available(&self) -> RequestFailure {
        let mut text = format!("Request for unknown model: '{}' has no available versions", self.name);
        for (part, problem) in &self.problems {
            text.push_str(&format!("; {part}: {problem}"));
        }
        RequestFailure::new(ErrorCode::NoAvailableVersion, text)
    }

    /// A version that is known and failed, or one that nobody knows.
    fn not_served(&self, number: VersionNumber) -> RequestFailure {
        let beginning = format!("Request for unknown model: '{}' version {number}", self.name);
        match self.problems.get(&Unit::Version(number).to_string()) {
            Some(problem) => {
                let text = format!("{beginning} is not at ready state; {problem}");
                RequestFailure::new(ErrorCode::ModelNotReady, text).retry_after(Duration::from_secs(1))
            }
            None => RequestFailure::new(ErrorCode::VersionNotFound, format!("{beginning} is not found")),
        }
    }
}

/// Reads a version out of a path.
///
/// # Errors
/// Triton's text for anything but a positive number.
fn parse_version(text: &str) -> Result<VersionNumber, RequestFailure> {
    VersionNumber::from_folder(text).ok_or_else(|| {
        RequestFailure::new(
            ErrorCode::MalformedRequest,
            format!(
                "failed to get model version from specified version string '{text}', \
                 version should be an integral value > 0"
            ),
        )
    })
}
