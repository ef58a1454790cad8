//! Files that are wrong, as a model's first and as a change of a model that serves: each leaves one clear record that
//! names the thing and the next step, what serves stays, nobody else notices, and mending the file is enough.

use std::fs;

use anyhow::{Context, Result, ensure};
use tests::log::Mark;
use tests::scaler::{self, Scaled, Scaling, Weights};
use tests::wait::PATIENCE;
use tests::{ModelFolder, Repository, Server, ServerOptions, component, eventually, fixtures, guests};

const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

/// What a bad input breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Config,
    Plugin,
    Version,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Config => "config.pbtxt",
            Self::Plugin => "plugin",
            Self::Version => "version 1",
        }
    }
}

/// A wrong file, and what the server must say of it.
struct BadInput {
    what: &'static str,
    file: &'static str,
    content: Vec<u8>,
    part: Part,
    outcome: &'static str,
    /// Pieces of the reason: the thing, and the next step.
    says: &'static [&'static str],
}

/// A configuration that leaves the name to the folder, so that it fits every model here.
fn config() -> String {
    scaler::config("m").replace("name: \"m\"\n", "")
}

fn config_with(from: &str, to: &str) -> Vec<u8> {
    let config = config();
    assert!(config.contains(from), "the configuration has no {from:?}");
    config.replace(from, to).into_bytes()
}

fn bad_configs() -> Vec<BadInput> {
    let case = |what, content, says| BadInput {
        what,
        file: "config.pbtxt",
        content,
        part: Part::Config,
        outcome: "failed_to_build",
        says,
    };
    vec![
        case("a syntax error", b"name: \"m\"\nmax_batch_size 16\n".to_vec(), &["config.pbtxt:2:"]),
        case(
            "an unknown field",
            config_with("max_batch_size", "max_batch_sise"),
            &["max_batch_sise", "max_batch_size"],
        ),
        case("an unknown data type", config_with("TYPE_FP32", "TYPE_FP33"), &["config.pbtxt:3:", "TYPE_FP33"]),
        case("a negative batch size", config_with("16", "-1"), &["max_batch_size", "-1"]),
        case("another model's name", config_with("backend", "name: \"other\"\nbackend"), &["other"]),
    ]
}

/// Configurations that are well formed and do not fit the model's file.
fn bad_signatures() -> Vec<BadInput> {
    let case = |what, from, to, says| BadInput {
        what,
        file: "config.pbtxt",
        content: config_with(from, to),
        part: Part::Version,
        outcome: "failed_to_build",
        says,
    };
    vec![
        case(
            "the wrong data type",
            "\"x\" data_type: TYPE_FP32",
            "\"x\" data_type: TYPE_INT32",
            &["'x'", "INT32", "FP32"],
        ),
        case("the wrong dims", "dims: [ 4 ]", "dims: [ 5 ]", &["x", "5", "4"]),
        case("an input that is not there", "name: \"x\"", "name: \"z\"", &["z", "x"]),
    ]
}

fn bad_models() -> Vec<BadInput> {
    let case = |what, content, outcome, says| BadInput {
        what,
        file: "1/model.onnx",
        content,
        part: Part::Version,
        outcome,
        says,
    };
    let whole = Weights::Double.onnx().expect("the fixture is there");
    let half = whole[..whole.len() / 2].to_vec();
    vec![
        case("half a model", half, "still_changing", &["model.onnx"]),
        case("no model", b"this is not protobuf at all, whatever it is".to_vec(), "failed_to_build", &["model.onnx"]),
        case("another model", fixtures::model("add").expect("the fixture is there"), "failed_to_build", &["x", "a"]),
    ]
}

fn bad_plugins() -> Vec<BadInput> {
    let case = |what, content, outcome, says| BadInput {
        what,
        file: "plugin.wasm",
        content,
        part: Part::Plugin,
        outcome,
        says,
    };
    let noted = |component: &[u8]| component::with_note(component, "bad");
    let half = scaler::component("half").expect("the plugin is built");
    let half = half[..half.len() / 2].to_vec();
    vec![
        case("half a component", half, "still_changing", &["plugin.wasm"]),
        case("text", b"(component)".to_vec(), "failed_to_build", &["not WebAssembly"]),
        case(
            "a core module",
            component::core_module().expect("constant"),
            "failed_to_build",
            &["core WebAssembly module"],
        ),
        case("another world", noted(&guests::text("pipeline")), "failed_to_build", &["airlock:plugin/adapter"]),
        case(
            "an empty contract",
            noted(&guests::text("wrong-contract")),
            "failed_to_build",
            &["does not fit the contract"],
        ),
        case("an unknown import", noted(&guests::text("unknown-import")), "failed_to_build", &["acme:vault/secrets"]),
        case("a trap", noted(&guests::guest("trap")), "failed_to_verify", &["sample 'shape'", "got 500"]),
        case(
            "a trap at the start",
            noted(&guests::guest("trap-at-start")),
            "failed_to_verify",
            &["sample 'shape'", "crash"],
        ),
        case("a loop", noted(&guests::guest("loop")), "failed_to_verify", &["sample 'shape'", "got 504", "1000 ms"]),
        case("endless memory", noted(&guests::guest("memory")), "failed_to_verify", &["sample 'shape'", "memory"]),
        case(
            "an answer that is too large",
            noted(&guests::guest("huge-output")),
            "failed_to_verify",
            &["sample 'shape'"],
        ),
        case(
            "wrong tensors",
            noted(&guests::guest("tensor")),
            "failed_to_verify",
            &["sample 'shape'", "got 500", "UINT8"],
        ),
        case(
            "a tensor too short",
            noted(&guests::guest("wrong-length")),
            "failed_to_verify",
            &["sample 'shape'", "got 500"],
        ),
        case("a wrong status", noted(&guests::guest("wrong-status")), "failed_to_verify", &["sample 'shape'", "99"]),
        case(
            "a wrong pointer",
            noted(&guests::guest("bad-pointer")),
            "failed_to_verify",
            &["sample 'shape'", "got 500"],
        ),
        case("another answer", noted(&guests::guest("echo")), "failed_to_verify", &["sample 'shape'", "content-type"]),
    ]
}

fn bad_manifests() -> Vec<BadInput> {
    let case = |what, content: &str, outcome, says| BadInput {
        what,
        file: "plugin.toml",
        content: content.as_bytes().to_vec(),
        part: Part::Plugin,
        outcome,
        says,
    };
    vec![
        case("a syntax error in plugin.toml", "[config\n", "failed_to_build", &["plugin.toml:1:"]),
        case("an unknown table", "[limit]\n", "failed_to_build", &["plugin.toml:1:", "did you mean 'limits'?"]),
        case(
            "a limit out of bounds",
            "[limits]\nmemory_mb = 0\n",
            "failed_to_build",
            &["limits.memory_mb", "from 1 to 4096"],
        ),
        case(
            "settings that are missing",
            "[config]\ntag = \"t\"\n",
            "failed_to_verify",
            &["sample 'shape'", "got 500", "the plugin's log has the reason"],
        ),
        case(
            "a wrong scale",
            "[config]\ntag = \"t\"\nscale = 1000\n",
            "failed_to_verify",
            &["/scale", "from 1 to 100"],
        ),
    ]
}

/// Fills a model's folder with good files.
fn fill(folder: &ModelFolder) -> Result<()> {
    folder.write("config.pbtxt", config())?;
    folder.write("1/model.onnx", Weights::Double.onnx()?)?;
    folder.write("plugin.toml", Scaling::new("good", 10.0).manifest())?;
    folder.write("plugin.wasm", scaler::component("first")?)?;
    folder.write_folder("samples", &scaler::sample_of_shape())
}

async fn start() -> Result<(Repository, Server)> {
    let repository = Repository::new()?;
    scaler::add(&repository, "other", &Scaling::new("other", 3.0))?;
    let server = ServerOptions::new(&repository).flag("--settle-cap-ms", "200").start().await?;
    Ok((repository, server))
}

async fn answers(server: &Server, model: &str, tag: &str) -> Result<()> {
    let answer = server.predict(model, scaler::body(X)).await?;
    let scaled = Scaled::read(&answer, X).with_context(|| format!("model {model}"))?;
    ensure!(scaled.scaling.tag == tag, "model {model} answers with {scaled:?}");
    Ok(())
}

/// The record of the refusal, with everything it must say.
async fn refusal(server: &Server, before: Mark, bad: &BadInput, model: &str) -> Result<()> {
    let (model, outcome) = (format!("model={model}"), format!("outcome={} ", bad.outcome));
    let part = format!("part={}", bad.part.name());
    let mut parts = vec!["level=ERROR", &model, &part, &outcome];
    parts.extend(bad.says);
    server.log().wait_for(before, &parts).await?;
    Ok(())
}

/// The refusal was the only one since `before`.
fn refused_once(server: &Server, before: Mark, bad: &BadInput, model: &str) -> Result<()> {
    let (model, part) = (format!("model={model} "), format!("part={} ", bad.part.name()));
    let records = server.log().count(before, &["level=ERROR", "outcome=", &model, &part]);
    ensure!(records == 1, "{records} records of one refusal:\n{}", server.log().tail(before));
    Ok(())
}

async fn published(server: &Server, before: Mark, model: &str, part: &str) -> Result<()> {
    let (model, part) = (format!("model={model}"), format!("part={part}"));
    server.log().wait_for(before, &["message=published", &model, &part]).await?;
    Ok(())
}

async fn check_as_change(repository: &Repository, server: &Server, bad: &BadInput, model: &str) -> Result<()> {
    let before = server.log().mark();
    let folder = repository.add(model, fill)?;
    published(server, before, model, "plugin").await?;
    answers(server, model, "good").await?;

    let good = fs::read(folder.path(bad.file))?;
    let before = server.log().mark();
    folder.write(bad.file, &bad.content)?;
    refusal(server, before, bad, model).await?;
    answers(server, model, "good").await.context("what served before")?;
    answers(server, "other", "other").await.context("another model")?;
    server.get("/v2/health/ready").await?.expect(200).context("readiness")?;

    let mending = server.log().mark();
    folder.write(bad.file, &good)?;
    folder.write("plugin.toml", Scaling::new("mended", 10.0).manifest())?;
    published(server, mending, model, "plugin").await.context("after mending")?;
    answers(server, model, "mended").await.context("after mending")?;
    refused_once(server, before, bad, model)
}

async fn check_as_first(repository: &Repository, server: &Server, bad: &BadInput, model: &str) -> Result<()> {
    let before = server.log().mark();
    let mut good = Vec::new();
    let folder = repository.add(model, |folder| {
        fill(folder)?;
        good = fs::read(folder.path(bad.file))?;
        folder.write(bad.file, &bad.content)
    })?;
    refusal(server, before, bad, model).await?;
    answers(server, "other", "other").await.context("another model")?;
    server.get("/v2/health/ready").await?.expect(200).context("readiness is not lost through a new model")?;
    let metadata = format!("/v2/models/{model}");
    if bad.part == Part::Plugin {
        let serves = async || (server.get(&metadata).await.ok()?.status == 200).then_some(());
        eventually("v2, which needs no plugin", PATIENCE, serves).await?;
    } else {
        server.get(&metadata).await?.expect_failure(404, "no_available_version").context("metadata")?;
    }
    let predicted = server.predict(model, scaler::body(X)).await?;
    let text = match bad.part {
        Part::Plugin => predicted.expect_failure(503, "model_not_ready"),
        _ => predicted.expect_failure(404, "no_available_version"),
    };
    let text = text.context("predict")?;
    let reason = if bad.part == Part::Plugin { "does not serve: " } else { bad.part.name() };
    ensure!(text.contains(model) && text.contains(reason), "predict answers {text}");

    folder.write(bad.file, &good)?;
    let mended = async || answers(server, model, "good").await.ok();
    eventually("the mended model to answer", PATIENCE, mended).await?;
    refused_once(server, before, bad, model)
}

/// Runs every case in both ways and tells of all that fail.
async fn check_all(cases: Vec<BadInput>) -> Result<()> {
    let (repository, server) = start().await?;
    let mut failures = Vec::new();
    for (index, bad) in cases.iter().enumerate() {
        // Names of their own: the history of a model's plugin outlives the model's folder.
        let (change, first) = (format!("m{index}-change"), format!("m{index}-first"));
        for (way, result) in [
            ("as a change", check_as_change(&repository, &server, bad, &change).await),
            ("as the first", check_as_first(&repository, &server, bad, &first).await),
        ] {
            if let Err(error) = result {
                failures.push(format!("{} {way}: {error:#}", bad.what));
            }
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn configurations() -> Result<()> {
    check_all(bad_configs()).await
}

#[tokio::test]
async fn configurations_that_do_not_fit_the_model() -> Result<()> {
    check_all(bad_signatures()).await
}

#[tokio::test]
async fn models() -> Result<()> {
    check_all(bad_models()).await
}

#[tokio::test]
async fn plugins() -> Result<()> {
    check_all(bad_plugins()).await
}

#[tokio::test]
async fn manifests() -> Result<()> {
    check_all(bad_manifests()).await
}

#[tokio::test]
async fn a_version_without_its_model_file_is_named() -> Result<()> {
    let (repository, server) = start().await?;
    let before = server.log().mark();
    let folder = repository.add("m", |folder| {
        fill(folder)?;
        fs::rename(folder.path("1/model.onnx"), folder.path("1/modell.onnx"))?;
        Ok(())
    })?;
    server.log().wait_for(before, &["not a version yet", "model=m", "version=1", "1/model.onnx is not there"]).await?;
    server.log().wait_for(before, &["level=ERROR", "model=m", "at least one version must be available"]).await?;
    let text = server.predict("m", scaler::body(X)).await?.expect_failure(404, "no_available_version")?;
    assert!(text.contains("1/model.onnx is not there"), "{text}");
    answers(&server, "other", "other").await?;
    fs::rename(folder.path("1/modell.onnx"), folder.path("1/model.onnx"))?;
    published(&server, before, "m", "version 1").await?;
    answers(&server, "m", "good").await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_model_without_versions_says_where_to_put_one() -> Result<()> {
    let (repository, server) = start().await?;
    let before = server.log().mark();
    let folder = repository.add("m", |folder| folder.write("config.pbtxt", scaler::config("m")))?;
    let says = ["level=ERROR", "model=m", "at least one version must be available", "1/model.onnx"];
    server.log().wait_for(before, &says).await?;
    folder.write_folder("1", &[("model.onnx", &Weights::Double.onnx()?)])?;
    server.log().wait_for(before, &["message=published", "model=m", "part=version 1"]).await?;
    server.get("/v2/models/m/ready").await?.expect(200)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_half_copied_model_is_loaded_once_it_is_whole_and_never_before() -> Result<()> {
    let (repository, server) = start().await?;
    let before = server.log().mark();
    let folder = repository.add("m", fill)?;
    server.log().wait_for(before, &["message=published", "model=m", "part=plugin"]).await?;
    fs::create_dir(folder.path("2"))?;
    let before = server.log().mark();
    let whole = Weights::Triple.onnx()?;
    let copy = folder.start_copy("2/model.onnx", &whole)?;
    server.log().wait_for(before, &["model=m", "part=version 2", "outcome=still_changing"]).await?;
    assert_eq!(server.get("/v2/models/m/versions/2").await?.status, 503, "it is known, and not whole");
    copy.finish()?;
    server.log().wait_for(before, &["message=published", "model=m", "part=version 2"]).await?;
    let answer = Scaled::read(&server.predict("m", scaler::body(X)).await?, X)?;
    assert_eq!((answer.version, answer.weights_factor), (2, 3.0));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_repository_that_cannot_be_listed_unloads_nothing() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "m", &Scaling::new("good", 10.0))?;
    let server = ServerOptions::new(&repository).rescan_ms(20).start().await?;
    let before = server.log().mark();
    let away = repository.beside("away");
    fs::rename(repository.path(), &away)?;
    server.log().wait_for(before, &["cannot be listed", "serve on as they are"]).await?;
    answers(&server, "m", "good").await?;
    server.get("/v2/health/ready").await?.expect(200)?;
    fs::rename(&away, repository.path())?;
    folder.write("plugin.toml", Scaling::new("back", 10.0).manifest())?;
    server.log().wait_for(before, &["message=published", "model=m", "part=plugin"]).await?;
    answers(&server, "m", "back").await?;
    assert_eq!(server.log().count(before, &["cannot be listed"]), 1, "said once, not at every scan");
    assert_eq!(server.log().count(before, &["model removed"]), 0);
    assert_eq!(server.metrics().await?.value("airlock_engine_loads_total", &[("model", "m")]), 1.0);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_model_is_left_alone() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "m", &Scaling::new("good", 10.0))?;
    fs::create_dir(repository.path().join("two\nlines"))?;
    fs::create_dir(repository.path().join("lost+found"))?;
    fs::create_dir(repository.path().join(".git"))?;
    fs::write(repository.path().join("README.md"), "notes")?;
    let server = Server::start(&repository).await?;
    let start = server.log().mark_of_start();
    server.log().wait_for(start, &["message=left alone", "two\nlines"]).await?;
    assert_eq!(server.log().count(start, &["message=left alone"]), 1, "the others are not worth a word");
    answers(&server, "m", "good").await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_folder_without_anything_to_serve_is_named_and_holds_nobody_up() -> Result<()> {
    for file in [None, Some("README.md")] {
        let repository = Repository::new()?;
        scaler::add(&repository, "m", &Scaling::new("good", 10.0))?;
        fs::create_dir(repository.path().join("empty"))?;
        if let Some(file) = file {
            fs::write(repository.path().join("empty").join(file), "notes")?;
        }
        let server = ServerOptions::new(&repository).not_ready().start().await.with_context(|| format!("{file:?}"))?;
        answers(&server, "m", "good").await?;
        let said = server.log().find(server.log().mark_of_start(), &["empty"]);
        assert!(said.is_some(), "nothing is said of the folder");
        server.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_server_is_not_ready_before_every_model_of_its_start_serves() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "other", &Scaling::new("other", 10.0))?;
    let folder = repository.add("m", |folder| {
        fill(folder)?;
        folder.write("config.pbtxt", "name: 7")
    })?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    server.get("/v2/health/ready").await?.expect(400)?;
    server.get("/v2/health/live").await?.expect(200)?;
    server.get("/v2/models/other/ready").await?.expect(200)?;
    let text = server.get("/v2/models/m/ready").await?.expect_failure(503, "model_not_ready")?;
    assert!(text.contains("config.pbtxt:1:"), "{text}");
    answers(&server, "other", "other").await?;
    folder.write("config.pbtxt", config())?;
    let ready = async || (server.get("/v2/health/ready").await.ok()?.status == 200).then_some(());
    eventually("readiness after mending", PATIENCE, ready).await?;
    server.stop().await?;
    Ok(())
}
