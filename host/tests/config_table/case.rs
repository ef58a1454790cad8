//! Cases of the table, as they are written.

use serde_json::Value;

/// One configuration and what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) rule: String,
    pub(crate) name: String,
    /// A file of tests/fixtures/models.
    pub(crate) model: Option<String>,
    /// Files of the model's folder, with their content.
    pub(crate) files: Vec<(String, String)>,
    pub(crate) form: Form,
    pub(crate) config: String,
    pub(crate) expected: Vec<String>,
    /// The configuration as the fixes have it, which is accepted and loads.
    pub(crate) fixed: Option<String>,
}

/// How a configuration is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Form {
    #[default]
    Text,
    Json,
}

impl Case {
    /// The fields of the normal form that it speaks of.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        let told = ["accepted", "error ", "warning ", "refused ", "write "];
        let of_form = self.expected.iter().filter(move |line| !told.iter().any(|word| line.starts_with(word)));
        of_form.map(|line| line.split_once(" = ").expect("a field and its value").0)
    }
}

/// Which part of a case the indented lines belong to.
enum Part {
    Nothing,
    File,
    Config,
    Expected,
    Fixed,
}

/// The cases of one file.
pub(crate) fn read(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let (mut rule, mut part) = (String::new(), Part::Nothing);
    for line in text.lines() {
        if let Some(content) = line.strip_prefix("    ") {
            let case = cases.last_mut().expect("a case");
            match part {
                Part::Nothing => panic!("{line:?} belongs to nothing"),
                Part::File => add(&mut case.files.last_mut().expect("a file").1, content),
                Part::Config => add(&mut case.config, content),
                Part::Expected => case.expected.push(content.to_owned()),
                Part::Fixed => add(case.fixed.get_or_insert_default(), content),
            }
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?} is no key"));
        let value = value.trim().to_owned();
        match key {
            "rule" => rule = value,
            "case" => cases.push(Case { rule: rule.clone(), name: value, ..Case::default() }),
            _ => part = part_of(key, value, cases.last_mut().expect("a case")),
        }
    }
    cases
}

fn part_of(key: &str, value: String, case: &mut Case) -> Part {
    match key {
        "model" => {
            case.model = Some(value);
            Part::Nothing
        }
        "file" => {
            case.files.push((value, String::new()));
            Part::File
        }
        "config" => Part::Config,
        "json" => {
            case.form = Form::Json;
            Part::Config
        }
        "expect" => Part::Expected,
        "fixed" => Part::Fixed,
        _ => panic!("{key:?} is no part of a case"),
    }
}

fn add(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The value at a path such as `input[0].dims`, as JSON; `absent` where there is none.
pub(crate) fn at(json: &Value, path: &str) -> String {
    let mut steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']'));
    let step = |value: &Value, step: &str| match value {
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?).cloned(),
        value => value.get(step).cloned(),
    };
    let found = steps.try_fold(json.clone(), |value, name| step(&value, name));
    found.map_or_else(|| "absent".to_owned(), |value| value.to_string())
}
