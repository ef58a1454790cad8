use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

const WHOLE: &str = r#"
kind = "pipeline"
reuse = "fresh"
execution = "runtime"

[limits]
memory_mb = 64
time_ms = 50
output_mb = 1
log_lines = 0
log_line_bytes = 128

[grants]
headers = ["X-User", "accept-language"]
key_value = ["features"]
models = ["fraud_v3"]
clock = true
random = true

[metrics]
counters = ["rejected"]
histograms = { score = [0.1, 0.5, 1] }

[config]
threshold = 0.5
name = "a \"quoted\" name"
labels = ["no", "yes"]
scaler = { mean = [1, 2.5], on = true, day = 2026-01-02 }
day = 2026-01-02
hex = 0xff
"#;

fn shown(text: &str) -> Vec<String> {
    let problems = parse_plugin_toml(Path::new("f"), text).expect_err(text);
    problems.iter().map(|problem| problem.to_string()[2..].to_owned()).collect()
}

#[test]
fn everything_can_be_said() {
    let manifest = parse_plugin_toml(Path::new("f"), WHOLE).expect("valid");
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(
        (manifest.kind, manifest.reuse, manifest.execution),
        (PluginKind::Pipeline, Reuse::Fresh, StageExecution::Runtime)
    );
    let limits = PluginLimits {
        memory_mb: 64,
        time_ms: 50,
        output_mb: 1,
        log_lines: 0,
        log_line_bytes: 128,
        ..PluginLimits::default()
    };
    assert_eq!(manifest.limits, limits);
    assert_eq!((limits.memory_bytes(), limits.output_bytes(), limits.time().as_millis()), (64 << 20, 1 << 20, 50));
    assert_eq!(manifest.grants.headers, texts(&["x-user", "accept-language"]));
    assert_eq!(manifest.grants.key_value, texts(&["features"]));
    assert_eq!(manifest.grants.models.iter().map(ModelName::as_str).collect::<Vec<_>>(), ["fraud_v3"]);
    assert!(manifest.grants.clock && manifest.grants.random);
    assert_eq!(manifest.metrics.counters, texts(&["rejected"]));
    assert_eq!(manifest.metrics.histograms, BTreeMap::from([("score".to_owned(), vec![0.1, 0.5, 1.0])]));
    let config: Vec<_> = manifest.config.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(
        config,
        [
            "day=2026-01-02",
            "hex=255",
            r#"labels=["no","yes"]"#,
            "name=a \"quoted\" name",
            r#"scaler={"day":"2026-01-02","mean":[1,2.5],"on":true}"#,
            "threshold=0.5",
        ]
    );
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(parse_plugin_toml(Path::new("f"), ""), Ok(PluginManifest::default()));
    let manifest = parse_plugin_toml(Path::new("f"), "[metrics]\nhistograms = [\"a\"]").expect("valid");
    assert_eq!(manifest.metrics.histograms, BTreeMap::from([("a".to_owned(), vec![])]));
}

#[test]
fn all_problems_are_shown_at_once() {
    assert_eq!(
        shown("kind = \"adaptor\"\nlimit = 1\n[limits]\nmemory_mb = 0\ntime_ms = \"1s\"\nmemory = 1\n[grant]\n"),
        [
            "1:8: kind: 'adaptor' is none of adapter, pipeline (fix: did you mean 'adapter'?)",
            "2:1: limit: unknown key (fix: did you mean 'limits'?)",
            "4:13: limits.memory_mb: is 0; it must be from 1 to 4096",
            "5:11: limits.time_ms: must be a whole number, not text",
            "6:1: limits.memory: unknown key (fix: did you mean 'memory_mb'?)",
            "7:2: grant: unknown key (fix: did you mean 'grants'?)",
        ]
    );
}

#[test]
fn every_refusal_has_its_text() {
    const NAME: &str = "a name has 1 to 64 letters, digits or underscores and does not start with a digit";
    const BOUNDS: &str = "must be an array of at most 64 ascending finite numbers";
    let many = |key: &str| {
        let names: Vec<_> = (0..=NAMES_MAX).map(|n| format!("\"n{n}\"")).collect();
        format!("{key} = [{}]", names.join(","))
    };
    let cases = [
        ("kind = 1".to_owned(), "1:8: kind: must be text, not a whole number".to_owned()),
        ("reuse = \"hot\"".to_owned(), "1:9: reuse: 'hot' is none of warm, fresh".to_owned()),
        ("[reuse]\nmode = \"warm\"".to_owned(), "1:1: reuse: must be text, not a table".to_owned()),
        ("execution = \"worker\"".to_owned(), "1:13: execution: 'worker' is none of auto, inline, runtime".to_owned()),
        ("limits = 3".to_owned(), "1:10: limits: must be a table, not a whole number".to_owned()),
        ("colour = 1".to_owned(), "1:1: colour: unknown key (fix: known: kind, execution, reuse, limits, grants, metrics, config)".to_owned()),
        ("limits.time_ms = 600001".to_owned(), "1:18: limits.time_ms: is 600001; it must be from 1 to 600000".to_owned()),
        ("limits.output_mb = -1".to_owned(), "1:20: limits.output_mb: is -1; it must be from 1 to 1024".to_owned()),
        ("limits.log_lines = 1.5".to_owned(), "1:20: limits.log_lines: must be a whole number, not a number with a fraction".to_owned()),
        ("limits.log_line_bytes = 1".to_owned(), "1:25: limits.log_line_bytes: is 1; it must be from 64 to 65536".to_owned()),
        ("grants.clock = \"yes\"".to_owned(), "1:16: grants.clock: must be true or false, not text".to_owned()),
        ("grants.headers = \"x\"".to_owned(), "1:18: grants.headers: must be an array of texts, not text".to_owned()),
        ("grants.headers = [1]".to_owned(), "1:19: grants.headers: must be text, not a whole number".to_owned()),
        ("grants.headers = [\"a b\"]".to_owned(), "1:19: grants.headers: 'a b': a header's name has 1 to 64 letters, digits or dashes".to_owned()),
        ("grants.headers = [\"Connection\"]".to_owned(), "1:19: grants.headers: 'Connection': this header belongs to a connection, not to a request".to_owned()),
        ("grants.headers = [\"A\", \"a\"]".to_owned(), "1:24: grants.headers: 'a' is named twice".to_owned()),
        (many("grants.headers"), "1:18: grants.headers: has 65 names; it may have at most 64".to_owned()),
        ("grants.key_value = [\"1x\"]".to_owned(), format!("1:21: grants.key_value: '1x': {NAME}")),
        ("kind = \"pipeline\"\ngrants.models = [\"../x\"]".to_owned(), "2:18: grants.models: '../x': a model name must not start with '.', nor contain '/', '\\' or a control character".to_owned()),
        ("grants.models = [\"m\"]".to_owned(), "1:17: grants.models: an adapter cannot call models: its world does not import them (fix: write kind = \"pipeline\")".to_owned()),
        ("metrics.counters = [\"a-b\"]".to_owned(), format!("1:21: metrics.counters: 'a-b': {NAME}")),
        ("metrics.gauges = []".to_owned(), "1:9: metrics.gauges: unknown key (fix: known: counters, histograms)".to_owned()),
        ("metrics.histograms = { a = [2, 1] }".to_owned(), format!("1:28: metrics.histograms.a: {BOUNDS}")),
        ("metrics.histograms = { a = [inf] }".to_owned(), format!("1:28: metrics.histograms.a: {BOUNDS}")),
        ("metrics.histograms = { a = 1 }".to_owned(), format!("1:28: metrics.histograms.a: {BOUNDS}")),
        ("metrics.histograms = { 1a = [1] }".to_owned(), format!("1:29: metrics.histograms.1a: {NAME}")),
        ("metrics = { counters = [\"a\"], histograms = [\"a\"] }".to_owned(), "1:44: metrics.histograms: 'a' is a counter too (fix: rename one of them)".to_owned()),
        ("config.a = [nan]".to_owned(), "1:12: config.a: holds a number that JSON cannot write (fix: write it as text, in quotes)".to_owned()),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(&text), [expected], "{text}");
    }
    let many_keys: String = (0..=CONFIG_KEYS_MAX).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(
        shown(&format!("[config]\n{many_keys}"))[0].split_once("config: ").expect("a field").1,
        "has 1025 keys; it may have at most 1024"
    );
    let many_names: String = (0..=NAMES_MAX).map(|n| format!("k{n} = []\n")).collect();
    assert!(shown(&format!("[metrics.histograms]\n{many_names}"))[0].ends_with("has more than 64 names"));
    let large = "#".repeat(PLUGIN_TOML_BYTES_MAX + 1);
    assert_eq!(
        parse_plugin_toml(Path::new("f"), &large).expect_err("large")[0].to_string(),
        "f: the file has 1048577 bytes; it may have at most 1048576"
    );
}

#[test]
fn syntax_errors_are_all_shown_with_their_place() {
    let problems = shown("kind = \nreuse = \"warm\"\nlimits = = 3\nkind = \"adapter\"\n");
    let places: Vec<_> = problems.iter().map(|problem| problem.split(':').next().unwrap_or("")).collect();
    assert_eq!(places, ["1", "3", "3", "4"], "{problems:?}");
    assert!(shown(&"=\n".repeat(1000)).len() <= 16);
}

#[test]
fn every_prefix_and_every_corruption_is_answered() {
    for end in 0..WHOLE.len() {
        let _ = parse_plugin_toml(Path::new("f"), &WHOLE[..end]);
    }
    let mut random = SmallRng::seed_from_u64(11);
    let alphabet: Vec<char> = "{}[]=.,#\"'\\-0123ex_ \n\0μ".chars().collect();
    for _ in 0..4000 {
        let mut corrupt: Vec<char> = WHOLE.chars().collect();
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..corrupt.len());
            corrupt[at] = alphabet[random.random_range(0..alphabet.len())];
        }
        if let Err(problems) = parse_plugin_toml(Path::new("f"), &corrupt.iter().collect::<String>()) {
            assert!(!problems.is_empty());
        }
    }
}
