//! A server in this process without sockets: the parts as the app joins them, and requests that go straight into the
//! router.
#![allow(unreachable_pub, dead_code, reason = "a module of several tests, each of which uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use airlock::http::v2_json::extensions;
use airlock::http::{metrics_text, router};
use airlock::janitor::{Janitor, chore_queue};
use airlock::metrics::Metrics;
use airlock::observed::Observer;
use airlock::registry::{ModelRegistry, PluginSlot, Release, ServedModel};
use airlock::repository::config_choice::ConfigChoice;
use airlock::repository::config_text::ConfigDefaults;
use airlock::repository::control::ModelControlQueue;
use airlock::repository::history::History;
use airlock::repository::overrides::OverridesFolder;
use airlock::repository::private_copy::LoadingFolder;
use airlock::repository::reconciler::{Reconciler, ReconcilerParts};
use airlock::repository::workshop::{Verification, Workshop};
use airlock::repository_api::RepositoryApi;
use airlock::serving::{ServerTraits, ServingParts, ServingState};
use airlock::settings::{ModelControl, RequestLimits, Rescan, RestrictedApis};
use airlock::shared_memory::{DISABLED, SharedMemory};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use engine::OrtLoader;
use plugin::SandboxRuntime;
use tokio::runtime::Handle;
use tower::ServiceExt as _;

/// How long anything may take that a test waits for; only a failure waits it out.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A request that is answered as far as it is polled.
pub type Asked = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// What serves of a model: by version, the generation and the tag of its plugin.
pub type Served = BTreeMap<u64, (u64, String)>;

/// One value in the metrics text.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    pub name: String,
    /// As they are written, in braces.
    pub labels: String,
    pub value: f64,
}

/// A server of one repository.
pub struct Host {
    state: Arc<ServingState>,
    router: Router,
    reconciler: Reconciler,
    janitor: Janitor,
}

impl Host {
    /// Starts it on the current tokio runtime.
    pub fn start(repository: &Path, state_dir: &Path, sandbox: &Arc<SandboxRuntime>, loader: OrtLoader) -> Self {
        Self::start_with(ConfigChoice::default(), (repository, state_dir), sandbox, loader)
    }

    /// The same, with named configurations.
    pub fn start_with(
        config_choice: ConfigChoice,
        (repository, state_dir): (&Path, &Path),
        sandbox: &Arc<SandboxRuntime>,
        loader: OrtLoader,
    ) -> Self {
        let (metrics, registry) = (Metrics::new(), Arc::new(ModelRegistry::default()));
        let limits =
            RequestLimits { body_bytes_max: 1 << 20, in_flight_max: 1 << 10, connections_max: 1, timeout: PATIENCE };
        let state = Arc::new(ServingState::new(ServingParts {
            registry: Arc::clone(&registry),
            limits,
            metrics: metrics.clone(),
            sandbox: Arc::clone(sandbox),
            server: ServerTraits {
                name: "airlock".to_owned(),
                extensions: extensions(&DISABLED),
                strict_readiness: true,
                restricted: RestrictedApis::default(),
                forwarded_headers: None,
            },
            repository: RepositoryApi {
                roots: vec![repository.to_path_buf()],
                requests: None,
                overrides: OverridesFolder::new(state_dir),
            },
            shared_memory: SharedMemory::new(None),
            observer: Observer::off(),
        }));
        let (chores, chore_receiver) = chore_queue();
        let janitor = Janitor::start(chores.clone(), chore_receiver, Arc::clone(&registry), metrics.clone());
        let workshop = Workshop {
            loader: Arc::new(loader),
            sandbox: Arc::clone(sandbox),
            runtime: Handle::current(),
            metrics,
            chores,
            history: History::new(state_dir, 2),
            loading: LoadingFolder::new(state_dir),
            rate_limiter: None,
            response_cache: None,
            config_choice,
            defaults: ConfigDefaults::default(),
            load_retries: 0,
            headroom_bytes: None,
            held_until: 0,
            verification: Verification::RunSamples,
            sample_timeout: PATIENCE,
            plugin_memory_bytes_max: sandbox.config().memory_bytes_max,
        };
        let janitor = janitor.expect("a thread");
        let reconciler = Reconciler::start(ReconcilerParts {
            roots: vec![repository.to_path_buf()],
            rescan: Rescan {
                settle: Duration::from_millis(2),
                settle_cap: PATIENCE,
                interval: Duration::from_millis(200),
                rehash: 60 * PATIENCE,
            },
            control: ModelControl::Files,
            requests: ModelControlQueue::default(),
            load_threads: 2,
            registry,
            workshop: Arc::new(workshop),
        });
        let reconciler = reconciler.expect("threads");
        Self { router: router(Arc::clone(&state)), state, reconciler, janitor }
    }

    /// A JSON request to `path`.
    pub fn post(&self, path: &str, body: String) -> Asked {
        let request = Request::post(path).header("content-type", "application/json").body(Body::from(body));
        let answer = self.router.clone().oneshot(request.expect("a request"));
        Box::pin(async { answer.await.unwrap_or_else(|never| match never {}) })
    }

    /// What serves of `model`; nothing where it is not known.
    pub fn served(&self, model: &str) -> Served {
        let map = self.state.registry.snapshot();
        let releases = map.model(model).into_iter().flat_map(|served| served.releases.values());
        releases.map(|release| (release.version.number.get(), generation(release))).collect()
    }

    /// What is known of `model`.
    pub fn model(&self, model: &str) -> Option<Arc<ServedModel>> {
        self.state.registry.snapshot().model(model).ok().cloned()
    }

    /// The value of a series of the metrics text; 0 where there is none.
    pub fn metric(&self, series: &str) -> usize {
        let text = metrics_text(&self.state).expect("encodes");
        let value = text.lines().find_map(|line| line.strip_prefix(series)).map(|value| value.trim().parse::<f64>());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        value.map_or(0, |value| value.expect("a number") as usize)
    }

    /// Every gauge of the metrics text.
    pub fn gauges(&self) -> Vec<Gauge> {
        let text = metrics_text(&self.state).expect("encodes");
        let (mut gauges, mut is_gauge) = (Vec::new(), false);
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                is_gauge = family.ends_with(" gauge");
            } else if is_gauge && !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a value");
                let (name, labels) = series.split_at(series.find('{').unwrap_or(series.len()));
                let (name, labels) = (name.to_owned(), labels.to_owned());
                gauges.push(Gauge { name, labels, value: value.parse().expect("a number") });
            }
        }
        gauges
    }

    /// Takes everything apart; the test hangs where that never ends.
    pub async fn stop(self) {
        let Self { state, router, reconciler, janitor } = self;
        let registry = Arc::clone(&state.registry);
        drop((state, router));
        let takedown = tokio::task::spawn_blocking(move || {
            reconciler.stop();
            let names: Vec<_> = registry.snapshot().models().map(|model| model.name.clone()).collect();
            for name in names {
                registry.remove(&name);
            }
            janitor.stop();
        });
        takedown.await.expect("no panic");
    }
}

fn generation(release: &Release) -> (u64, String) {
    let PluginSlot::Serving(generation) = &release.plugin else { panic!("the model has a plugin") };
    (generation.number, generation.plugin.spec().config["tag"].clone())
}
