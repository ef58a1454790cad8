//! deny.toml: the part of cargo-deny's configuration that this repository uses, with cargo-deny's meaning. Each rule
//! returns its problems as lines; none stops at the first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::graph::{Graph, Package};
use super::licence;

/// What deny.toml says, ready to be asked.
#[derive(Debug, Deserialize)]
pub(super) struct Policy {
    licenses: Licences,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
    #[serde(default)]
    exceptions: Vec<LicenceException>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LicenceException {
    #[serde(rename = "crate")]
    spec: Spec,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
    skip: Vec<Skip>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    #[serde(rename = "crate")]
    spec: Spec,
    /// Who may depend on it all the same.
    #[serde(default)]
    wrappers: Vec<String>,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    #[serde(rename = "crate")]
    spec: Spec,
    /// For the reader of deny.toml; required, so that no line stands without one.
    #[expect(dead_code, reason = "required by its presence here")]
    reason: String,
}

/// `name`, `name@1.2.3` (that version) or `name:1` (any version that Cargo's `1` means).
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
struct Spec {
    text: String,
    name: String,
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Any,
    Exact(String),
    /// `1`, `0.4` or `0.0.3`: up to and with the first component that is not zero, so that it means what Cargo means.
    Compatible(String),
}

impl TryFrom<String> for Spec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (name, version) = match (text.split_once('@'), text.split_once(':')) {
            (Some((name, version)), None) => (name, Version::Exact(version.to_owned())),
            (None, Some((name, version))) if is_compatible_range(version) => {
                (name, Version::Compatible(version.to_owned()))
            }
            (None, None) => (text.as_str(), Version::Any),
            _ => return Err(format!("{text:?} is not `name`, `name@1.2.3`, `name:1` or `name:0.4`")),
        };
        Ok(Self { name: name.to_owned(), version, text })
    }
}

/// Whether no component follows the first that is not zero.
fn is_compatible_range(version: &str) -> bool {
    let components: Option<Vec<u64>> = version.split('.').map(|component| component.parse().ok()).collect();
    components.is_some_and(|components| components.iter().position(|&c| c != 0) == Some(components.len() - 1))
}

impl Spec {
    fn matches(&self, package: &Package) -> bool {
        self.name == package.name
            && match &self.version {
                Version::Any => true,
                Version::Exact(version) => *version == package.version,
                Version::Compatible(range) => {
                    package.version.strip_prefix(range.as_str()).is_some_and(|rest| rest.starts_with('.'))
                        || package.version == *range
                }
            }
    }
}

impl Policy {
    /// Reads deny.toml.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("parse {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Packages whose licence is not on the list.
    pub(super) fn licence_problems(&self, graph: &Graph) -> Vec<String> {
        graph.packages().filter_map(|package| self.licence_problem(package)).collect()
    }

    fn licence_problem(&self, package: &Package) -> Option<String> {
        let name = format!("{} {}", package.name, package.version);
        let Some(expression) = &package.license else { return Some(format!("{name} names no licence")) };
        let mut allowed = self.licenses.allow.clone();
        let exceptions = self.licenses.exceptions.iter().filter(|exception| exception.spec.matches(package));
        allowed.extend(exceptions.flat_map(|exception| exception.allow.iter().cloned()));
        match licence::is_allowed(expression, &allowed) {
            Ok(true) => None,
            Ok(false) => Some(format!("{name} is under {expression:?}, which deny.toml does not allow")),
            Err(problem) => Some(format!("{name}: its licence cannot be read: {problem}")),
        }
    }

    /// Banned packages, and packages that someone other than their wrappers depends on.
    pub(super) fn ban_problems(&self, graph: &Graph) -> Vec<String> {
        let mut problems = Vec::new();
        for ban in &self.bans.deny {
            for package in graph.packages().filter(|package| ban.spec.matches(package)) {
                let users: Vec<_> = graph.dependents(package).map(|user| user.name.as_str()).collect();
                let wrong: Vec<_> = users.into_iter().filter(|user| !ban.wrappers.iter().any(|w| w == user)).collect();
                if ban.wrappers.is_empty() || !wrong.is_empty() {
                    let (name, reason) = (&package.name, &ban.reason);
                    problems.push(format!("{name} is used by {}, but {reason}", wrong.join(", ")));
                }
            }
        }
        problems
    }

    /// Packages in several versions, those that are skipped left out.
    pub(super) fn duplicate_problems(&self, graph: &Graph) -> Vec<String> {
        let counted = graph.packages().filter(|package| !self.is_skipped(package));
        let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
        for package in counted {
            versions.entry(&package.name).or_default().push(package);
        }
        versions.retain(|_, packages| packages.len() > 1);
        versions.into_iter().map(|(name, packages)| duplicate(graph, name, &packages)).collect()
    }

    fn is_skipped(&self, package: &Package) -> bool {
        self.bans.skip.iter().any(|skip| skip.spec.matches(package))
    }

    /// The skips that hide nothing in any of the graphs.
    pub(super) fn unused_skips(&self, graphs: &[&Graph]) -> Vec<&str> {
        let hides_one = |spec: &Spec, graph: &Graph| {
            graph.packages().any(|package| spec.matches(package))
                && graph.packages().filter(|package| package.name == spec.name).count() > 1
        };
        let unused = self.bans.skip.iter().filter(|skip| !graphs.iter().any(|graph| hides_one(&skip.spec, graph)));
        unused.map(|skip| skip.spec.text.as_str()).collect()
    }
}

/// Packages that come neither from this checkout nor from a registry.
pub(super) fn source_problems(graph: &Graph) -> Vec<String> {
    let strange = graph.packages().filter_map(|package| {
        let source = package.source.as_deref().filter(|source| !source.starts_with("registry+"))?;
        Some(format!("{} {} comes from {source}, not from the registry", package.name, package.version))
    });
    strange.collect()
}

fn duplicate(graph: &Graph, name: &str, packages: &[&Package]) -> String {
    let versions = packages.iter().map(|package| {
        let users: Vec<_> = graph.dependents(package).map(|user| user.name.as_str()).collect();
        format!("{} for {}", package.version, users.join(", "))
    });
    let versions: Vec<_> = versions.collect();
    format!("{name} is there in {} versions: {}", packages.len(), versions.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::graph::sample;
    use super::*;

    const POLICY: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [licenses]
        allow = ["MIT"]
        exceptions = [{ crate = "notify", allow = ["CC0-1.0"] }]
        [bans]
        multiple-versions = "deny"
        deny = [
            { crate = "openssl", reason = "one crypto backend" },
            { crate = "ort", wrappers = ["engine"], reason = "one crate knows it" },
        ]
        skip = [{ crate = "syn:2", reason = "old macros" }, { crate = "rand@0.9.5", reason = "old tests" }]
    "#;

    fn policy() -> Policy {
        Policy::parse(POLICY).expect("parses")
    }

    fn none() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn the_file_of_this_repository_parses() {
        Policy::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml")).expect("deny.toml parses");
    }

    #[test]
    fn specs_match_what_cargo_means() {
        for (spec, version, expected) in [
            ("syn", "1.0.0", true),
            ("syn:2", "2.0.119", true),
            ("syn:2", "3.0.0", false),
            ("syn:2", "20.0.0", false),
            ("syn:0.4", "0.4.9", true),
            ("syn:0.4", "0.41.0", false),
            ("syn@1.2.3", "1.2.3", true),
            ("syn@1.2.3", "1.2.4", false),
        ] {
            let graph = sample(&[&format!("syn {version}")], &[]);
            let spec = Spec::try_from(spec.to_owned()).expect("a spec");
            assert_eq!(graph.packages().any(|package| spec.matches(package)), expected, "{spec:?} {version}");
        }
        for spec in ["syn:2.1", "syn:>=1", "syn:", "syn:0", "a@1:2"] {
            assert!(Spec::try_from(spec.to_owned()).is_err(), "{spec}");
        }
    }

    #[test]
    fn a_banned_package_is_told_with_its_user() {
        let graph = sample(&["airlock 0.1.0", "openssl 1.0.0"], &[("airlock", "openssl", "dev")]);
        assert_eq!(policy().ban_problems(&graph), ["openssl is used by airlock, but one crypto backend"]);
    }

    #[test]
    fn a_wrapped_package_is_for_its_wrappers_alone() {
        let packages = ["airlock 0.1.0", "engine 0.1.0", "ort 2.0.0"];
        let wrapped = [("airlock", "engine", "normal"), ("engine", "ort", "normal")];
        assert_eq!(policy().ban_problems(&sample(&packages, &wrapped)), none());
        let bare = [("engine", "ort", "normal"), ("airlock", "ort", "normal")];
        assert_eq!(
            policy().ban_problems(&sample(&packages, &bare)),
            ["ort is used by airlock, but one crate knows it"]
        );
    }

    #[test]
    fn duplicates_are_told_unless_skipped() {
        let packages = ["airlock 0.1.0", "syn 2.0.1", "syn 3.0.0"];
        assert_eq!(policy().duplicate_problems(&sample(&packages, &[])), none());
        let third = ["airlock 0.1.0", "syn 2.0.1", "syn 3.0.0", "syn 4.0.0"];
        let graph = sample(&third, &[("airlock", "syn 3.0.0", "normal"), ("airlock", "syn 4.0.0", "normal")]);
        let expected = ["syn is there in 2 versions: 3.0.0 for airlock; 4.0.0 for airlock"];
        assert_eq!(policy().duplicate_problems(&graph), expected);
    }

    #[test]
    fn a_skip_that_hides_nothing_is_noticed() {
        let duplicate = sample(&["syn 2.0.1", "syn 3.0.0", "rand 0.9.5"], &[]);
        let other = sample(&["rand 0.9.5", "rand 0.10.4"], &[]);
        assert_eq!(policy().unused_skips(&[&duplicate]), ["rand@0.9.5"]);
        assert_eq!(policy().unused_skips(&[&duplicate, &other]), Vec::<&str>::new());
    }

    #[test]
    fn licences_sources_and_their_refusals() {
        let json = r#"{
            "packages": [
                {"id": "1", "name": "notify", "version": "8.0.0", "license": "CC0-1.0"},
                {"id": "2", "name": "other", "version": "1.0.0", "license": "CC0-1.0"},
                {"id": "3", "name": "bare", "version": "1.0.0", "license": null},
                {"id": "4", "name": "forked", "version": "1.0.0", "license": "MIT", "source": "git+ssh://somewhere"}
            ],
            "resolve": {"nodes": [{"id": "1", "deps": []}, {"id": "2", "deps": []}, {"id": "3", "deps": []}, {"id": "4", "deps": []}]},
            "workspace_members": []
        }"#;
        let graph = Graph::parse(json).expect("parses");
        assert_eq!(
            policy().licence_problems(&graph),
            ["other 1.0.0 is under \"CC0-1.0\", which deny.toml does not allow", "bare 1.0.0 names no licence"]
        );
        assert_eq!(source_problems(&graph), ["forked 1.0.0 comes from git+ssh://somewhere, not from the registry"]);
    }

    #[test]
    fn what_this_reader_does_not_know_in_an_entry_is_refused() {
        let text = POLICY.replace("wrappers = [\"engine\"]", "use-instead = \"x\"");
        let error = format!("{:#}", Policy::parse(&text).expect_err("an unknown key"));
        assert!(error.contains("use-instead"), "{error}");
    }
}
