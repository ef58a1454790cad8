use std::path::Path;

use model::ModelName;

use super::super::super::config_text::{ConfigContext, ConfigDefaults, parse_model_config};
use super::super::super::declared_config::DeclaredConfig;
use super::{parameter, refused};

const KEY: &str = "airlock.version_labels";

fn declared(text: &str) -> DeclaredConfig {
    let model = &ModelName::new("m").expect("a name");
    let context = ConfigContext { model, dir: Path::new(""), defaults: &ConfigDefaults::default() };
    parse_model_config(Path::new("f"), text, &context).expect(text).0
}

#[test]
fn labels_name_versions() {
    let labels = declared(&parameter(KEY, "stable=1, canary = 12 ,old=1")).version_labels;
    let shown: Vec<_> = labels.iter().map(|(label, version)| (label.as_str(), version.get())).collect();
    assert_eq!(shown, [("canary", 12), ("old", 1), ("stable", 1)]);
    assert!(declared("").version_labels.is_empty());
}

#[test]
fn what_is_no_label_is_refused() {
    const FIX: &str = "(fix: write label=version, separated by commas, such as \"stable=1,canary=2\")";
    let cases = [
        ("", "has '', which is no label=version"),
        ("stable", "has 'stable', which is no label=version"),
        ("stable:1", "has 'stable:1', which is no label=version"),
        ("a=1,", "has '', which is no label=version"),
        ("=1", "has '=1', whose label is empty"),
        ("a/b=1", "has the label 'a/b'; a label has no '/', ':' or control character"),
        ("a:b=1", "has the label 'a:b'; a label has no '/', ':' or control character"),
        ("a=0", "has version '0' for 'a'; it must be a number from 1 up"),
        ("a=-1", "has version '-1' for 'a'; it must be a number from 1 up"),
        ("a=01", "has version '01' for 'a'; it must be a number from 1 up"),
        ("a=", "has version '' for 'a'; it must be a number from 1 up"),
        ("a=1,a=2", "has the label 'a' twice"),
    ];
    for (value, problem) in cases {
        let text = parameter(KEY, value);
        let at = format!("1:{}", text.find("string_value").expect("there") + 1);
        refused(&text, &[&format!("{at}: parameters[{KEY}].string_value: '{KEY}' {problem} {FIX}")]);
    }
    let many: Vec<_> = (0..257).map(|index| format!("l{index}=1")).collect();
    let text = parameter(KEY, &many.join(","));
    let at = format!("1:{}", text.find("string_value").expect("there") + 1);
    refused(&text, &[&format!("{at}: parameters[{KEY}].string_value: '{KEY}' has more than 256 labels {FIX}")]);
}

#[test]
fn labels_that_move_load_nothing() {
    let labelled = |labels: &str, rest: &str| declared(&format!("{} {rest}", parameter(KEY, labels)));
    let (one, two) = (labelled("a=1", ""), labelled("a=2,b=1", ""));
    assert!(one.makes_the_same_version_as(&two));
    assert!(one.makes_the_same_version_as(&declared("")) && declared("").makes_the_same_version_as(&one));
    assert!(!one.makes_the_same_version_as(&labelled("a=1", "max_batch_size: 4")));
    assert!(!one.makes_the_same_version_as(&labelled("a=1", &parameter("other", "1"))));
    assert!(one.differs_only_in_instances(&labelled("a=2", "instance_group { count: 2 }")));
}
