//! The repository index: every model that is known or lies in a repository, with what serves of it and why the rest does
//! not. Pure but for the listing of the folders.

use std::collections::BTreeSet;
use std::path::PathBuf;

use model::{ModelName, VersionNumber};
use serde::Serialize;

use super::reconciler::FOLDER;
use super::scan::{Unit, model_names};
use crate::registry::{ModelMap, ServedModel};

/// A line of the index. Source: Triton's model repository extension, "Index".
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexEntry {
    /// The model.
    pub name: String,
    /// The version, where the line is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its state; none where nobody has asked for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<IndexState>,
    /// Why it does not serve, or why what should replace it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Triton's states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum IndexState {
    /// It serves.
    Ready,
    /// It does not.
    Unavailable,
    /// It is being loaded, and nothing of it serves yet.
    Loading,
}

/// The names of all models in the repositories; those that cannot be listed add none. Blocks.
#[must_use]
pub fn names_on_disk(roots: &[PathBuf]) -> BTreeSet<ModelName> {
    roots.iter().filter_map(|root| model_names(root).ok()).flatten().collect()
}

/// The index, by name and version.
#[must_use]
pub fn index(map: &ModelMap, on_disk: &BTreeSet<ModelName>) -> Vec<IndexEntry> {
    let served = map.models().map(|model| (model.name.clone(), entries_of(model)));
    let unloaded = map.unloaded().map(|(name, versions)| (name.clone(), unloaded_entries(name, versions)));
    let mut models: Vec<(ModelName, Vec<IndexEntry>)> = served.chain(unloaded).collect();
    let mut known: BTreeSet<ModelName> = models.iter().map(|(name, _)| name.clone()).collect();
    for name in map.loading().filter(|name| !known.contains(*name)) {
        models.push((name.clone(), vec![loading_entry(name)]));
    }
    known.extend(map.loading().cloned());
    let unknown = on_disk.difference(&known).map(|name| {
        (name.clone(), vec![IndexEntry { name: name.to_string(), version: None, state: None, reason: None }])
    });
    models.extend(unknown);
    models.sort_by(|one, other| one.0.cmp(&other.0));
    models.into_iter().flat_map(|(_, entries)| entries).collect()
}

/// The lines of one model; none where nobody knows it.
#[must_use]
pub fn index_of(map: &ModelMap, name: &str) -> Vec<IndexEntry> {
    if let Ok(model) = map.model(name) {
        return entries_of(model);
    }
    if let Some((name, versions)) = map.unloaded().find(|(unloaded, _)| unloaded.as_str() == name) {
        return unloaded_entries(name, versions);
    }
    map.loading().filter(|loading| loading.as_str() == name).map(loading_entry).collect()
}

fn unloaded_entries(name: &ModelName, versions: &[VersionNumber]) -> Vec<IndexEntry> {
    let line = |version| line(name, version, IndexState::Unavailable, Some("unloaded".to_owned()));
    if versions.is_empty() {
        return vec![line(None)];
    }
    versions.iter().map(|version| line(Some(version.to_string()))).collect()
}

fn loading_entry(name: &ModelName) -> IndexEntry {
    line(name, None, IndexState::Loading, None)
}

fn line(name: &ModelName, version: Option<String>, state: IndexState, reason: Option<String>) -> IndexEntry {
    IndexEntry { name: name.to_string(), version, state: Some(state), reason }
}

/// Versions that serve, each with what should replace it and does not, then those that do not; where there are none of
/// either, the model with all its problems.
fn entries_of(model: &ServedModel) -> Vec<IndexEntry> {
    let of_version = |part: &str| Unit::version_of(part);
    let (versions, others): (Vec<_>, Vec<_>) = model.problems.iter().partition(|(part, _)| of_version(part).is_some());
    let told = |(part, reason): (&String, &String)| match part.as_str() {
        FOLDER => reason.clone(),
        part => format!("{part}: {reason}"),
    };
    let others: Vec<String> = others.into_iter().map(told).collect();
    let mut entries = Vec::new();
    for number in model.releases.keys() {
        let own = model.problems.get(&Unit::Version(*number).to_string());
        let reasons: Vec<&str> = own.into_iter().chain(&others).map(String::as_str).collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        entries.push(line(&model.name, Some(number.to_string()), IndexState::Ready, reason));
    }
    for (part, reason) in versions {
        let version = of_version(part).filter(|number| !model.releases.contains_key(number));
        if let Some(version) = version {
            entries.push(line(&model.name, Some(version.to_string()), IndexState::Unavailable, Some(reason.clone())));
        }
    }
    if entries.is_empty() {
        let reason = (!others.is_empty()).then(|| others.join("; "));
        entries.push(line(&model.name, None, IndexState::Unavailable, reason));
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::registry::ModelRegistry;

    fn name(text: &str) -> ModelName {
        ModelName::new(text).expect("a name")
    }

    fn known(text: &str, problems: &[(&str, &str)]) -> Arc<ServedModel> {
        let problems = problems.iter().map(|&(part, reason)| (part.to_owned(), reason.to_owned())).collect();
        Arc::new(ServedModel { problems, ..ServedModel::empty(name(text)) })
    }

    #[test]
    fn what_does_not_serve_says_why() {
        let registry = ModelRegistry::default();
        registry.publish(known("broken", &[("config.pbtxt", "no config"), ("plugin", "no plugin")]));
        registry.publish(known("half", &[("version 2", "no model"), ("version 1", "cut short")]));
        registry.publish(known("gone", &[]));
        registry.unload(&name("gone"));
        registry.begin_loading(&name("coming"));
        let on_disk = ["asleep", "broken", "coming", "gone", "half"].into_iter().map(name).collect();
        let lines: Vec<String> = index(&registry.snapshot(), &on_disk)
            .iter()
            .map(|entry| serde_json::to_string(entry).expect("strings always serialize"))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        {"name":"asleep"}
        {"name":"broken","state":"UNAVAILABLE","reason":"config.pbtxt: no config; plugin: no plugin"}
        {"name":"coming","state":"LOADING"}
        {"name":"gone","state":"UNAVAILABLE","reason":"unloaded"}
        {"name":"half","version":"1","state":"UNAVAILABLE","reason":"cut short"}
        {"name":"half","version":"2","state":"UNAVAILABLE","reason":"no model"}
        "#);
    }

    #[test]
    fn a_model_that_was_unloaded_is_remembered_while_it_could_be_loaded_again_or_somebody_may_look() {
        let registry = ModelRegistry::default();
        for text in ["here", "nowhere"] {
            registry.publish(known(text, &[]));
            registry.unload(&name(text));
        }
        let names = || -> Vec<String> { registry.snapshot().unloaded().map(|(name, _)| name.to_string()).collect() };
        let is_gone = |model: &ModelName| model.as_str() == "nowhere";
        let now = Instant::now();
        registry.forget_unloaded(now.checked_sub(Duration::from_secs(1)).expect("the clock began earlier"), is_gone);
        assert_eq!(names().len(), 2, "it is not long ago");
        registry.forget_unloaded(now, is_gone);
        assert_eq!(names(), ["here"]);
        let failure = registry.pin("nowhere", None).err().expect("nothing serves");
        assert_eq!(failure.text, "Request for unknown model: 'nowhere' is not found");
    }
}
