//! The files that a configuration names, from the folder to what serves: labels, checksums, named configurations, and the
//! configuration itself as JSON. The real reconciler and engine in this process; models without plugins.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use airlock::registry::{LoadedVersion, ServedModel};
use airlock::repository::config_choice::ConfigChoice;
use airlock::repository::config_json::model_config_json;
use common::{Host, PATIENCE};
use engine::{LoaderOptions, OrtLoader, OrtRuntime, RuntimeOptions, find_library};
use md5::{Digest as _, Md5};
use plugin::{RuntimeConfig, SandboxRuntime};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Two models of one signature: x [batch, 4] to y [batch, 4].
const MODELS: [&str; 2] = ["scaler_v1.onnx", "scaler_v2.onnx"];

const LABELLED: &str = "max_batch_size: 8
input { name: \"x\" data_type: TYPE_FP32 dims: 4 }
output { name: \"y\" data_type: TYPE_FP32 dims: 4 label_filename: \"labels.txt\" }
";

fn onnx(model: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models").join(model);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn md5(content: &[u8]) -> String {
    Md5::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server of one model, `m`, and its folder.
struct Served {
    host: Host,
    repository: tempfile::TempDir,
    _state: tempfile::TempDir,
}

impl Served {
    /// Starts it with these files, and version 1.
    fn start(choice: ConfigChoice, files: &[(&str, &str)]) -> Self {
        let (repository, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let write = |path: &str, content: &[u8]| {
            let path = repository.path().join("m").join(path);
            fs::create_dir_all(path.parent().expect("a file has a folder")).expect("created");
            fs::write(path, content).expect("written");
        };
        write("1/model.onnx", &onnx(MODELS[0]));
        files.iter().for_each(|(path, content)| write(path, content.as_bytes()));
        let sandbox = SandboxRuntime::new(RuntimeConfig::new(state.path().join("cache"))).expect("a sandbox");
        let location = find_library(None).unwrap_or_else(|error| panic!("{error}"));
        let loader = OrtLoader::new(
            OrtRuntime::init(&location.path, &RuntimeOptions::default()).expect("the library"),
            LoaderOptions::default(),
        );
        let host = Host::start_with(choice, (repository.path(), state.path()), &sandbox, loader);
        Self { host, repository, _state: state }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.repository.path().join("m").join(relative)
    }

    /// Puts a whole file into place.
    fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let temporary = self.repository.path().join(".new");
        fs::write(&temporary, content).expect("written");
        fs::rename(&temporary, self.path(relative)).expect("renamed");
    }

    /// Waits until what is known of the model is so.
    async fn until(&self, what: &str, reached: impl Fn(&ServedModel) -> bool) -> Arc<ServedModel> {
        let deadline = Instant::now() + PATIENCE;
        let mut tick = tokio::time::interval(Duration::from_millis(2));
        loop {
            match self.host.model("m") {
                Some(model) if reached(&model) => return model,
                model => {
                    let problems = model.map(|model| model.problems.clone());
                    assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}; problems: {problems:?}");
                }
            }
            tick.tick().await;
        }
    }
}

/// The highest version that serves.
fn version(model: &ServedModel) -> Option<&LoadedVersion> {
    model.releases.values().next_back().map(|release| &*release.version)
}

fn has_labels(model: &ServedModel, labels: &[&str]) -> bool {
    version(model).and_then(|version| version.labels.of("y")).is_some_and(|own| own.iter().eq(labels))
}

fn config(model: &ServedModel) -> Value {
    let json = model_config_json(model, version(model).expect("a version serves"));
    serde_json::from_slice(&json).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_kept_with_the_version_and_follow_their_file() {
    let files = [("config.pbtxt", LABELLED), ("labels.txt", "cat\r\ndog\n\nbird")];
    let served = Served::start(ConfigChoice::default(), &files);
    let model = served.until("labels", |model| has_labels(model, &["cat", "dog", "", "bird"])).await;
    assert_eq!(config(&model)["output"][0]["label_filename"], "labels.txt");
    assert!(version(&model).expect("a version").labels.of("x").is_none());

    served.write("labels.txt", "hen\n");
    served.until("other labels", |model| has_labels(model, &["hen"])).await;

    fs::remove_file(served.path("labels.txt")).expect("removed");
    let names_it = |model: &ServedModel| {
        let problem = model.problems.get("config.pbtxt");
        problem.is_some_and(|problem| {
            problem.contains("label_filename") && problem.contains("m/labels.txt cannot be read")
        })
    };
    let model = served.until("a refusal that names the file", names_it).await;
    assert!(has_labels(&model, &["hen"]), "what served before serves on");

    served.write("labels.txt", "owl\n");
    let model = served.until("labels again", |model| has_labels(model, &["owl"])).await;
    assert!(model.problems.is_empty(), "{:?}", model.problems);
    served.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_whose_checksum_differs_is_refused_until_one_of_the_two_is_corrected() {
    let promise = |model: &str| {
        format!(
            "model_repository_agents {{ agents {{ name: \"checksum\" parameters {{ key: \"MD5:1/model.onnx\" value: \"{}\" }} }} }}",
            md5(&onnx(model))
        )
    };
    let served = Served::start(ConfigChoice::default(), &[("config.pbtxt", &promise(MODELS[0]))]);
    let model = served.until("version 1", |model| version(model).is_some()).await;
    let first = version(&model).expect("a version").digest.clone();

    served.write("1/model.onnx", onnx(MODELS[1]));
    let differs = format!("has the MD5 {}, but the checksum agent", md5(&onnx(MODELS[1])));
    let refused = |model: &ServedModel| model.problems.get("version 1").is_some_and(|text| text.contains(&differs));
    let model = served.until("a refusal with both checksums", refused).await;
    assert_eq!(version(&model).expect("serves on").digest, first);

    served.write("config.pbtxt", promise(MODELS[1]));
    let is_new = |model: &ServedModel| version(model).is_some_and(|version| version.digest != first);
    let model = served.until("the new file", is_new).await;
    assert!(model.problems.is_empty(), "{:?}", model.problems);
    served.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_configuration_outweighs_the_plain_one_while_it_is_there() {
    let files = [("config.pbtxt", "max_batch_size: 2"), ("configs/h100.pbtxt", "max_batch_size: 64")];
    let served = Served::start(ConfigChoice::named("h100").expect("a name"), &files);
    let batches = |size: u32| {
        move |model: &ServedModel| version(model).is_some_and(|v| v.config().completed.max_batch_size == size)
    };
    served.until("the named one", batches(64)).await;
    served.write("configs/h100.pbtxt", "max_batch_size: 32");
    served.until("the named one, changed", batches(32)).await;
    fs::remove_file(served.path("configs/h100.pbtxt")).expect("removed");
    served.until("the plain one", batches(2)).await;
    served.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_as_json_is_the_one_in_force() {
    let served =
        Served::start(ConfigChoice::default(), &[("config.pbtxt", "metric_tags { key: \"team\" value: \"a\" }")]);
    let model = served.until("version 1", |model| version(model).is_some()).await;
    let shown = config(&model);
    assert_eq!((&shown["name"], &shown["max_batch_size"]), (&json!("m"), &json!(4)));
    assert_eq!((&shown["input"][0]["dims"], &shown["metric_tags"]), (&json!([4]), &json!({"team": "a"})));
    assert_eq!(shown["version_policy"], json!({"latest": {"num_versions": 1}}));

    let loads = || served.host.metric("airlock_engine_loads_total{model=\"m\"}");
    let loaded = loads();
    served.write("config.pbtxt", "metric_tags { key: \"team\" value: \"a\" } version_policy { all { } }");
    let is_all =
        |model: &ServedModel| version(model).is_some() && config(model)["version_policy"] == json!({"all": {}});
    served.until("the new policy", is_all).await;
    assert_eq!(loads(), loaded, "a policy chooses among versions and loads none again");

    served.write("config.pbtxt", "metric_tags { key: \"team\" value: \"b\" }");
    let is_b = |model: &ServedModel| version(model).is_some() && config(model)["metric_tags"] == json!({"team": "b"});
    served.until("the new tags", is_b).await;
    served.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_says_what_to_write() {
    let wrong = "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 4 ] }";
    let served = Served::start(ConfigChoice::default(), &[("config.pbtxt", wrong)]);
    let model = served.until("a refusal", |model| model.problems.contains_key("version 1")).await;
    let problem = &model.problems["version 1"];
    for part in [
        "input 'x': dims repeats the batch dimension, which max_batch_size adds; write dims: [ 4 ]",
        "(fix: write input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] } ])",
    ] {
        assert!(problem.contains(part), "{part:?} is not in {problem:?}");
    }
    served.host.stop().await;
}
