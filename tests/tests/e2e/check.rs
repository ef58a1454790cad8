//! `airlock check`: every problem at once, with file and field, and an exit code for scripts.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use tests::command::{airlock, finish};
use tests::scaler::{self, Scaling, Weights};
use tests::{ModelFolder, Repository, component, fixtures, guests};

async fn check(repository: &Repository, arguments: &[&str], code: i32) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut command = airlock(&["check"])?;
    command.arg(repository.path()).args(arguments).current_dir(folder.path());
    finish(command).await?.expect_code(code)
}

#[tokio::test]
async fn a_good_repository_passes_and_is_left_as_it_was() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "good", &Scaling::new("one", 10.0))?;
    folder.write_folder("samples", &scaler::sample_of_shape())?;
    let before = repository.contents()?;
    let printed = check(&repository, &[], 0).await?;
    assert!(printed.ends_with("1 model checked, 0 errors, 0 warnings\n"), "{printed}");
    assert_eq!(repository.contents()?, before);
    Ok(())
}

#[tokio::test]
async fn every_problem_is_told_at_once() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "good", &Scaling::new("one", 10.0))?;
    let config = scaler::add(&repository, "bad_config", &Scaling::new("one", 10.0))?;
    let text = scaler::config("bad_config").replace("TYPE_FP32", "TYPE_FP33");
    config.write("config.pbtxt", text)?;
    config.write("plugin.toml", "[limit]\nmemory_mb = 1\n")?;
    let manifest = scaler::add(&repository, "bad_manifest", &Scaling::new("one", 10.0))?;
    manifest.write("plugin.toml", "kind = \"adaptor\"\n[limits]\ntime_ms = 0\n")?;
    let plugin = scaler::add(&repository, "bad_plugin", &Scaling::new("one", 10.0))?;
    plugin.write("plugin.wasm", component::core_module()?)?;
    let trap = scaler::add(&repository, "trapping", &Scaling::new("one", 10.0))?;
    trap.write("plugin.wasm", guests::guest("trap"))?;
    trap.write_folder("samples", &scaler::sample_of_shape())?;
    let sample = scaler::add(&repository, "bad_sample", &Scaling::new("one", 10.0))?;
    sample.write("samples/case/expected.json", "{}")?;
    let half = scaler::add(&repository, "half", &Scaling::new("one", 10.0))?;
    let weights = Weights::Double.onnx()?;
    half.write("1/model.onnx", &weights[..weights.len() / 2])?;

    let printed = check(&repository, &[], 1).await?;
    for part in [
        "bad_config/config.pbtxt:4:",
        "bad_config/config.pbtxt:5:",
        "bad_config/plugin.toml:1:",
        "did you mean 'limits'?",
        "bad_manifest/plugin.toml:1:",
        "did you mean 'adapter'?",
        "bad_manifest/plugin.toml:3:",
        "bad_plugin: plugin: ",
        "trapping: plugin: sample 'shape'",
        "bad_sample/samples/case",
        "half/1/model.onnx",
        "7 models checked",
    ] {
        assert!(printed.contains(part), "{part:?} is not in:\n{printed}");
    }
    assert!(!printed.contains("error: good") && !printed.contains("models/good"), "{printed}");
    Ok(())
}

/// Adds a model without a plugin.
fn add_plain(repository: &Repository, name: &str, model: &str, config: &str) -> Result<ModelFolder> {
    repository.add(name, |folder| {
        folder.write("config.pbtxt", config)?;
        folder.write("1/model.onnx", fixtures::model(model)?)
    })
}

#[tokio::test]
async fn what_is_printed_in_place_of_a_wrong_declaration_makes_the_model_load() -> Result<()> {
    let repository = Repository::new()?;
    let cases = [
        ("types", "add", "max_batch_size: 4\n", "input { name: \"a\" data_type: TYPE_INT8 dims: 2 }\n"),
        (
            "rows",
            "fraud_mlp",
            "max_batch_size: 4\n",
            "output { name: \"logit\" data_type: TYPE_FP32 dims: [ -1, 1 ] }\n",
        ),
        ("fixed", "fixed_batch", "", "max_batch_size: 4\n"),
    ];
    let mut folders = Vec::new();
    for (name, model, right, wrong) in cases {
        folders.push((add_plain(&repository, name, model, &format!("{right}{wrong}"))?, right));
    }
    let printed = check(&repository, &[], 1).await?;
    ensure!(printed.ends_with("3 models checked, 3 errors, 0 warnings\n"), "{printed}");
    for (folder, right) in &folders {
        let from = printed.find(&format!("/{}: version 1: ", folder.name())).context("told")?;
        let lines = printed[from..].lines().skip(2).take_while(|line| line.starts_with("    "));
        let lines: Vec<_> = lines.map(|line| &line[4..]).collect();
        ensure!(!lines.is_empty(), "{printed}");
        folder.write("config.pbtxt", format!("{right}{}\n", lines.join("\n")))?;
    }
    let printed = check(&repository, &[], 0).await?;
    ensure!(printed.ends_with("3 models checked, 0 errors, 0 warnings\n"), "{printed}");
    Ok(())
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_named() -> Result<()> {
    let printed = finish(airlock(&["check", "absent"])?).await?.expect_code(1)?;
    assert!(printed.contains("model repository absent is not a folder"), "{printed}");
    Ok(())
}

#[tokio::test]
async fn new_expectations_are_recorded_for_review() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    folder.write("samples/new/request.json", r#"{"x": [1, 2, 3, 4]}"#)?;
    folder.write("samples/refused/request.json", r#"{"x": [1]}"#)?;
    let printed = check(&repository, &[], 1).await?;
    assert!(printed.contains("sample 'new'") && printed.contains("--update-samples"), "{printed}");

    let printed = check(&repository, &["--update-samples"], 0).await?;
    assert_eq!(printed.matches("recorded: ").count(), 2, "{printed}");
    let expected: serde_json::Value = serde_json::from_slice(&fs::read(folder.path("samples/new/expected.json"))?)?;
    assert_eq!(expected, serde_json::json!({"tag": "one", "scale": 10.0, "y": [20.0, 40.0, 60.0, 80.0]}));
    let refused = fs::read_to_string(folder.path("samples/refused/expected.json"))?;
    assert!(refused.contains("invalid_fields"), "{refused}");
    check(&repository, &[], 0).await?;

    folder.write("plugin.toml", Scaling::new("one", 11.0).manifest())?;
    let printed = check(&repository, &[], 1).await?;
    assert!(printed.contains("/y/0: expected 20"), "{printed}");
    Ok(())
}

/// A model of the sample repository.
struct Shipped {
    name: &'static str,
    /// The package that its plugin is built from.
    package: &'static str,
    /// A sample, a field of its answer, the right value and a wrong one.
    sample: &'static str,
    field: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const SHIPPED: [Shipped; 2] = [
    Shipped {
        name: "file_type",
        package: "file-type",
        sample: "python_source",
        field: "label",
        right: "python",
        wrong: "perl",
    },
    Shipped {
        name: "fraud_v3",
        package: "fraud-rules",
        sample: "low_risk",
        field: "risk_level",
        right: "low",
        wrong: "high",
    },
];

#[tokio::test]
async fn samples_hold_the_committed_and_the_rebuilt_plugins_to_their_answers() -> Result<()> {
    let shipped = fixtures::root().join("model_repository");
    // The model of file_type is not committed: `cargo xtask setup` fetches it.
    let present: Vec<_> = SHIPPED.iter().filter(|m| shipped.join(m.name).join("1/model.onnx").is_file()).collect();
    ensure!(!present.is_empty(), "{} has no model", shipped.display());
    for build in ["committed", "rebuilt"] {
        let repository = Repository::new()?;
        let mut refusals = String::new();
        for model in &present {
            let folder = repository.copy(&shipped.join(model.name))?;
            if build == "rebuilt" {
                folder.write("plugin.wasm", fixtures::plugin(model.package)?)?;
            }
        }
        let checked = format!("{} model{} checked", present.len(), if present.len() == 1 { "" } else { "s" });
        let passed = format!("{checked}, 0 errors, 0 warnings\n");
        assert_eq!(check(&repository, &[], 0).await?, passed, "{build}");
        for Shipped { name, sample, field, right, wrong, .. } in present.iter().copied() {
            let answer = repository.path().join(name).join("samples").join(sample).join("expected.json");
            let expected = fs::read_to_string(&answer)?;
            let broken = expected.replacen(&format!("\"{right}\""), &format!("\"{wrong}\""), 1);
            ensure!(broken != expected, "{} has no {right:?}", answer.display());
            fs::write(&answer, broken)?;
            refusals += &format!(
                "error: {name}: plugin: sample '{sample}': /{field}: expected \"{wrong}\", got \"{right}\" (fix: correct the \
                 plugin or the sample, or record what it answers now with --update-samples)\n"
            );
        }
        let refused = format!("{refusals}{checked}, {} errors, 0 warnings\n", present.len());
        assert_eq!(check(&repository, &[], 1).await?, refused, "{build}");
    }
    Ok(())
}
