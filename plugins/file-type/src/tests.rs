//! The plugin against Magika's own package: `tests/python/file_type_truth.py` wrote what it says of the corpus.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use airlock_plugin::{Adapter, PluginError, Prepared, Response, Tensor, testing};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::FileType;
use crate::answer::{Reason, Verdict, judge};
use crate::tables::{Mode, Tables};

#[derive(Deserialize)]
struct Expected {
    label: String,
    score: f32,
    mime_type: String,
    group: String,
    description: String,
    extensions: Vec<String>,
    is_text: bool,
    model_label: String,
    overwrite_reason: String,
    features_sha256: Option<String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus() -> Vec<(String, Vec<u8>, Expected)> {
    let folder = repository().join("tests/fixtures/file_type");
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: BTreeMap<String, Expected> = serde_json::from_str(&text).unwrap();
    assert!(expected.len() > 60);
    expected.into_iter().map(|(name, e)| (name.clone(), std::fs::read(folder.join(name)).unwrap(), e)).collect()
}

fn with_assets() {
    let assets = repository().join("model_repository/file_type/assets");
    for name in [crate::tables::MODEL_FILE, crate::tables::CONTENT_TYPES_FILE] {
        testing::set_asset(name, std::fs::read(assets.join(name)).unwrap());
    }
}

/// Scores that say nothing but one label with one score.
fn scores(tables: &Tables, label: &str, score: f32) -> Tensor {
    let labels = &tables.model.target_labels_space;
    let values: Vec<f32> = labels.iter().map(|other| if other == label { score } else { 0.0 }).collect();
    assert!(values.contains(&score), "the model has no label {label}");
    Tensor::fp32("target_label", [1, values.len() as u64], &values)
}

fn check_answer(name: &str, response: &Response, expected: &Expected) {
    let answer: Value = serde_json::from_slice(&response.body).unwrap();
    let wanted = json!({
        "label": expected.label,
        "score": answer["score"],
        "mime_type": expected.mime_type,
        "group": expected.group,
        "description": expected.description,
        "extensions": expected.extensions,
        "is_text": expected.is_text,
        "model_label": expected.model_label,
        "overwrite_reason": expected.overwrite_reason,
    });
    assert_eq!(answer, wanted, "{name}");
    let score = answer["score"].as_f64().unwrap();
    assert!((score - f64::from(expected.score)).abs() < 1e-6, "{name}: {score}");
}

#[test]
fn the_corpus_leads_to_the_same_features_and_answers() {
    with_assets();
    let tables = Tables::load().unwrap();
    for (name, content, expected) in corpus() {
        match (FileType::preprocess(testing::request(content)).unwrap(), &expected.features_sha256) {
            (Prepared::Respond(response), None) => check_answer(&name, &response, &expected),
            (Prepared::Infer(inference), Some(features_sha256)) => {
                let input = &inference.inputs[0];
                assert_eq!((input.name.as_str(), input.shape.as_slice()), ("bytes", [1, 2048].as_slice()));
                let found: String = Sha256::digest(&input.data).iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(&found, features_sha256, "{name}");
                let outputs = vec![scores(&tables, &expected.model_label, expected.score)];
                let response = FileType::postprocess(testing::call(), outputs, inference.carry).unwrap();
                check_answer(&name, &response, &expected);
            }
            (prepared, features) => panic!("{name}: {prepared:?}, expected features {features:?}"),
        }
    }
}

#[test]
fn a_mode_decides_how_sure_the_model_must_be() {
    with_assets();
    let mut tables = Tables::load().unwrap();
    assert_eq!(tables.mode, Mode::HighConfidence);
    // `markdown` is believed from 0.75 on, `png` has no threshold of its own, `randomtxt` always means `txt`.
    let cases = [
        (Mode::HighConfidence, "markdown", 0.74, "txt", Reason::LowConfidence),
        (Mode::HighConfidence, "markdown", 0.76, "markdown", Reason::None),
        (Mode::HighConfidence, "png", 0.5, "png", Reason::None),
        (Mode::HighConfidence, "png", 0.49, "unknown", Reason::LowConfidence),
        (Mode::HighConfidence, "randomtxt", 0.9, "txt", Reason::OverwriteMap),
        (Mode::HighConfidence, "txt", 0.1, "txt", Reason::None),
        (Mode::MediumConfidence, "markdown", 0.51, "markdown", Reason::None),
        (Mode::MediumConfidence, "markdown", 0.49, "txt", Reason::LowConfidence),
        (Mode::BestGuess, "markdown", 0.01, "markdown", Reason::None),
    ];
    for (mode, model_label, score, label, overwrite) in cases {
        tables.mode = mode;
        let tensor = scores(&tables, model_label, score);
        let verdict = judge(tensor.as_fp32().unwrap(), &tables).unwrap();
        assert_eq!(verdict, Verdict { label, model_label, score, overwrite }, "{mode:?}");
    }
}

#[test]
fn the_first_of_equal_scores_counts() {
    with_assets();
    let tables = Tables::load().unwrap();
    let labels = &tables.model.target_labels_space;
    let tensor = Tensor::fp32("target_label", [1, labels.len() as u64], &vec![0.6; labels.len()]);
    assert_eq!(judge(tensor.as_fp32().unwrap(), &tables).unwrap().model_label, labels[0]);
    let short = Tensor::fp32("target_label", [1, 2], &[0.6, 0.4]);
    let error = judge(short.as_fp32().unwrap(), &tables).unwrap_err();
    assert_eq!(error, PluginError::internal("the model answered 2 scores, there are 214 labels"));
}

#[test]
fn every_label_of_the_model_has_a_content_type() {
    with_assets();
    let tables = Tables::load().unwrap();
    let fixed = ["empty", "txt", "unknown", "undefined"];
    for label in tables.model.target_labels_space.iter().map(String::as_str).chain(fixed) {
        assert!(tables.content_type(label).is_ok(), "{label}");
    }
    assert!(matches!(tables.content_type("nothing"), Err(PluginError::Internal(_))));
}

#[test]
fn envelopes_are_refused_and_everything_else_is_read() {
    with_assets();
    for (content_type, is_taken) in [
        ("multipart/form-data; boundary=x", false),
        (" Multipart/Mixed", false),
        ("application/octet-stream", true),
        ("multi", true),
        ("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}", true),
    ] {
        let mut request = testing::request("abc");
        request.call.content_type = Some(content_type.to_owned());
        match FileType::preprocess(request) {
            Ok(_) => assert!(is_taken, "{content_type}"),
            Err(PluginError::UnsupportedMedia(text)) => assert!(!is_taken && text.contains(content_type), "{text}"),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn settings_and_assets_that_do_not_fit_are_named() {
    let internal = || match Tables::load() {
        Err(PluginError::Internal(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(internal(), "assets/config.min.json does not exist");
    with_assets();
    testing::set_config("prediction_mode", "lucky");
    assert!(internal().contains("`prediction_mode` under [config] in plugin.toml is `lucky`"));
    let assets = repository().join("model_repository/file_type/assets/config.min.json");
    let model = std::fs::read_to_string(assets).unwrap();
    testing::set_asset("config.min.json", model.replace("\"mid_size\":0", "\"mid_size\":512"));
    assert!(internal().contains("from the middle of files"));
    testing::set_asset("config.min.json", model.replace("\"min_file_size_for_dl\":8", "\"min_file_size_for_dl\":0"));
    assert!(internal().contains("min_file_size_for_dl is 0"));
}
