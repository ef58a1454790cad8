//! Who decides what is loaded, as the flags say it.

use std::collections::BTreeSet;

use model::ModelName;

use super::triton::{ModelControlMode, TritonArgs};

/// Who decides what is loaded, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelControl {
    /// The files, whenever they change.
    Files,
    /// The files as they are at the start.
    FilesAtStart,
    /// Load and unload requests, after these models at the start.
    Requests(StartupModels),
}

/// What is loaded at the start where requests decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupModels {
    /// Every model of the repositories.
    All,
    /// These.
    Named(BTreeSet<ModelName>),
}

impl ModelControl {
    /// Whether load and unload requests are answered.
    #[must_use]
    pub fn takes_requests(&self) -> bool {
        matches!(self, Self::Requests(_))
    }

    pub(super) fn of(args: &TritonArgs, problems: &mut Vec<String>) -> Self {
        let mode = args.model_control_mode.unwrap_or(ModelControlMode::Poll);
        if mode != ModelControlMode::Explicit && !args.load_model.is_empty() {
            problems.push(
                "load_model is given, which only --model-control-mode=explicit obeys; set that mode or leave it out"
                    .to_owned(),
            );
        }
        match mode {
            ModelControlMode::Poll => Self::Files,
            ModelControlMode::None => Self::FilesAtStart,
            ModelControlMode::Explicit => Self::Requests(startup_models(&args.load_model, problems)),
        }
    }
}

fn startup_models(given: &[String], problems: &mut Vec<String>) -> StartupModels {
    if given.iter().any(|name| name == "*") {
        if given.len() > 1 {
            problems.push("load_model is * for all models and names others as well; leave those out".to_owned());
        }
        return StartupModels::All;
    }
    let mut names = BTreeSet::new();
    for text in given {
        match ModelName::new(text) {
            Ok(name) => drop(names.insert(name)),
            Err(error) => problems.push(format!("load_model {text:?}: {error}")),
        }
    }
    StartupModels::Named(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(mode: Option<ModelControlMode>, load: &[&str]) -> (ModelControl, Vec<String>) {
        let load_model = load.iter().map(|&name| name.to_owned()).collect();
        let args = TritonArgs { model_control_mode: mode, load_model, ..TritonArgs::default() };
        let mut problems = Vec::new();
        (ModelControl::of(&args, &mut problems), problems)
    }

    #[test]
    fn modes_say_who_decides() {
        let explicit = Some(ModelControlMode::Explicit);
        let named = |names: &[&str]| {
            let names = names.iter().map(|name| ModelName::new(name).expect("a name")).collect();
            ModelControl::Requests(StartupModels::Named(names))
        };
        let cases = [
            (control(None, &[]), ModelControl::Files),
            (control(Some(ModelControlMode::Poll), &[]), ModelControl::Files),
            (control(Some(ModelControlMode::None), &[]), ModelControl::FilesAtStart),
            (control(explicit, &[]), named(&[])),
            (control(explicit, &["a", "b", "a"]), named(&["a", "b"])),
            (control(explicit, &["*"]), ModelControl::Requests(StartupModels::All)),
        ];
        for ((control, problems), expected) in cases {
            assert_eq!((control, problems), (expected, Vec::new()));
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let cases = [
            (control(None, &["a"]), "load_model is given, which only --model-control-mode=explicit obeys"),
            (control(Some(ModelControlMode::Explicit), &["*", "a"]), "load_model is * for all models and names others"),
            (control(Some(ModelControlMode::Explicit), &["../a"]), "load_model \"../a\": "),
        ];
        for ((_, problems), expected) in cases {
            assert!(matches!(&problems[..], [problem] if problem.starts_with(expected)), "{problems:?}");
        }
    }
}
