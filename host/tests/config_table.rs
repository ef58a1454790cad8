//! The table of configurations: what becomes of each, accepted or refused, and of those with a model file also what
//! loading it makes of them. The cases lie in `config_cases/`, a file per part of the rules; a new one is a few lines
//! there:
//!
//! ```text
//! rule: §2 dims                       holds until the next one
//! case: a dimension of no size        its name
//! model: add.onnx                     a file of tests/fixtures/models; left out: nothing is loaded
//! file: labels.txt                    a file of the model's folder, with the lines below it
//!     first
//! config:                             protobuf text; `json:` for JSON
//!     input { name: "a" data_type: TYPE_FP32 dims: 0 }
//! expect:                             all errors, or `accepted`, all warnings, and fields of the normal form
//!     error 1:41: input[0].dims: …
//! fixed:                              optional: the same with the fixes made, which is accepted and loads
//!     input { name: "a" data_type: TYPE_FP32 dims: 2 }
//! ```
//!
//! Where a correction is offered it is pasted, and the model must load.

#[path = "config_table/case.rs"]
mod case;
#[path = "config_table/paste.rs"]
mod paste;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use airlock::repository::config_json::{normal_json, parse_model_config_json};
use airlock::repository::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use airlock::repository::declared_config::DeclaredConfig;
use airlock::repository::problem::{Problem, Severity};
use airlock::repository::workshop::VersionError;
use case::{Case, Form};
use engine::{LoaderOptions, OrtLoader, OrtRuntime, RuntimeOptions, find_library};
use model::{LoadRequest, ModelConfig, ModelLoader as _, ModelName, VersionNumber};
use serde_json::Value;

/// What the rules ask of a configuration, part by part: each has a case.
const RULES: [&str; 62] = [
    "§1 text format",
    "§1 unknown field",
    "§1 enums",
    "§1 name",
    "§1 platform and backend",
    "§1 runtime",
    "§1 version_policy",
    "§1 max_batch_size",
    "§1 default_model_filename",
    "§1 cc_model_filenames",
    "§1 metric_tags",
    "§1 parameters",
    "§1 model_operations",
    "§1 model_transaction_policy",
    "§1 model_repository_agents",
    "§1 response_cache",
    "§1 model_metrics",
    "§1 scheduling_choice",
    "§2 name",
    "§2 data_type",
    "§2 dims",
    "§2 format",
    "§2 reshape",
    "§2 platform fields",
    "§2 label_filename",
    "§3 input count",
    "§3 optional",
    "§3 names",
    "§3 data types",
    "§3 batch dimension",
    "§3 shapes",
    "§3 reshape",
    "§3 scalars",
    "§3 ragged batches",
    "§3 outputs",
    "§3 batch_input and batch_output",
    "§3 auto-complete: batch size",
    "§3 auto-complete: not batchable",
    "§3 auto-complete: missing side",
    "§3 auto-complete: skipped",
    "§3 normalisation",
    "§4 graph level",
    "§4 priority and cuda",
    "§4 pinned memory",
    "§4 accelerators",
    "§5 threads",
    "§5 switches",
    "§5 other keys",
    "§5 airlock's own",
    "§6 counts and names",
    "§6 kinds and gpus",
    "§6 rate limiter and others",
    "§7 dynamic_batching: sizes and delay",
    "§7 dynamic_batching: queue policy",
    "§7 dynamic_batching: levels",
    "§7 dynamic_batching: ordering",
    "§7 sequence_batching",
    "§7 ensemble_scheduling",
    "§7 model_warmup",
    "§7 batching strategies",
    "json",
    "published mistakes",
];

fn all_cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config_cases");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("the cases").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.iter().flat_map(|file| case::read(&fs::read_to_string(file).expect("readable"))).collect()
}

#[test]
fn the_table_has_a_case_of_every_rule() {
    let cases = all_cases();
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let covered: BTreeSet<&str> = cases.iter().map(|case| case.rule.as_str()).collect();
    assert_eq!(covered, BTreeSet::from(RULES));
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "every case has a name of its own");
}

#[test]
fn every_configuration_becomes_what_its_case_says() {
    let location = find_library(None).unwrap_or_else(|error| panic!("{error}"));
    let loader = OrtLoader::new(
        OrtRuntime::init(&location.path, &RuntimeOptions::default()).expect("the library"),
        LoaderOptions::default(),
    );
    let mut wrong = String::new();
    for case in all_cases() {
        let trial = Trial::new(&case, &loader);
        let got = trial.run();
        if let Some(fixed) = &case.fixed {
            trial.loads(fixed);
        }
        if got != case.expected {
            wrong.push_str(&format!("case: {}\nexpect:\n    {}\n", case.name, got.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "these became something else:\n{wrong}");
}

/// One case in a folder of its own.
struct Trial<'c> {
    case: &'c Case,
    loader: &'c OrtLoader,
    name: ModelName,
    folder: tempfile::TempDir,
}

impl<'c> Trial<'c> {
    fn new(case: &'c Case, loader: &'c OrtLoader) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, content) in &case.files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a file has a folder")).expect("created");
            fs::write(path, content).expect("written");
        }
        Self { case, loader, name: ModelName::new("m").expect("a name"), folder }
    }

    /// What became of the configuration, in the words of the table.
    fn run(&self) -> Vec<String> {
        let (declared, warnings) = match self.parse(&self.case.config) {
            Ok(parsed) => parsed,
            Err(problems) => return problems.iter().map(|problem| self.shown(problem)).collect(),
        };
        let loaded = match self.load(&declared) {
            Ok(loaded) => loaded,
            Err(error) => return self.refused(&declared, &error),
        };
        let json = normal_json(&declared.document, &loaded, &loaded.version_policy);
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        let warnings = warnings.iter().map(|warning| self.shown(warning));
        let fields = self.case.fields().map(|path| format!("{path} = {}", case::at(&json, path)));
        ["accepted".to_owned()].into_iter().chain(warnings).chain(fields).collect()
    }

    fn parse(&self, text: &str) -> Result<(DeclaredConfig, Vec<Problem>), Vec<Problem>> {
        let defaults = ConfigDefaults::default();
        let context = ConfigContext { model: &self.name, dir: self.folder.path(), defaults: &defaults };
        match self.case.form {
            Form::Text => parse_model_config(Path::new("f"), text, &context),
            Form::Json => parse_model_config_json(Path::new("f"), text, &context),
        }
    }

    /// The configuration as loading completes it; unchanged where the case has no model.
    fn load(&self, declared: &DeclaredConfig) -> Result<ModelConfig, VersionError> {
        let Some(model) = &self.case.model else { return Ok(declared.model.clone()) };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models").join(model);
        let version = VersionNumber::new(1).expect("a version");
        let request = LoadRequest { config: &declared.model, version, path: &path };
        self.loader.load(&request).map(|loaded| loaded.config).map_err(|error| VersionError::new(declared, error))
    }

    /// A refusal by the loader. What it says to write is written, and then the model loads.
    fn refused(&self, declared: &DeclaredConfig, error: &VersionError) -> Vec<String> {
        assert_eq!(self.load(declared).expect_err("still refused").to_string(), error.to_string());
        let mut told =
            vec![format!("refused {}", error.to_string().replace(&*self.folder.path().to_string_lossy(), "DIR"))];
        if let VersionError::Disagrees(correction) = error {
            let lines = correction.lines();
            self.loads(&paste::paste(&self.case.config, &lines));
            told.extend(lines.into_iter().map(|line| format!("write {line}")));
        }
        told
    }

    /// A configuration made right, in whichever way.
    fn loads(&self, text: &str) {
        let name = &self.case.name;
        let (declared, _) = self.parse(text).unwrap_or_else(|problems| panic!("{name}: {problems:?}\n{text}"));
        self.load(&declared).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    }

    fn shown(&self, problem: &Problem) -> String {
        let kind = if problem.severity == Severity::Error { "error" } else { "warning" };
        let text = problem.to_string().replace(&*self.folder.path().to_string_lossy(), "DIR");
        format!("{kind} {}", text.strip_prefix("f:").unwrap_or(&text).trim_start())
    }
}
