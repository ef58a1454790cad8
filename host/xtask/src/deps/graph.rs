//! The dependency graph as `cargo metadata` resolves it, in the few words that the rules need. Ids are Cargo's, opaque.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

/// A package of the graph.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    id: String,
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression, or what some older packages write instead.
    pub(super) license: Option<String>,
    /// The native library that it links.
    pub(super) links: Option<String>,
    /// `None` for a package of this checkout.
    pub(super) source: Option<String>,
}

/// Which dependencies are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    /// Those of `[dependencies]` and `[build-dependencies]`: what a user of the package gets.
    Shipped,
    /// Also those of its tests.
    All,
}

#[derive(Debug)]
struct Edge {
    to: String,
    is_shipped: bool,
}

/// Packages and who depends on whom.
#[derive(Debug)]
pub(super) struct Graph {
    packages: BTreeMap<String, Package>,
    edges: BTreeMap<String, Vec<Edge>>,
    members: BTreeSet<String>,
}

#[derive(Deserialize)]
struct RawMetadata {
    packages: Vec<Package>,
    resolve: Option<RawResolve>,
    workspace_members: BTreeSet<String>,
}

#[derive(Deserialize)]
struct RawResolve {
    nodes: Vec<RawNode>,
}

#[derive(Deserialize)]
struct RawNode {
    id: String,
    deps: Vec<RawDependency>,
}

#[derive(Deserialize)]
struct RawDependency {
    pkg: String,
    dep_kinds: Vec<RawKind>,
}

#[derive(Deserialize)]
struct RawKind {
    kind: Option<String>,
}

impl Graph {
    /// Reads what `cargo metadata --format-version 1` prints.
    pub(super) fn parse(json: &str) -> Result<Self> {
        let raw: RawMetadata = serde_json::from_str(json)?;
        let nodes = raw.resolve.context("no resolved graph: metadata was asked for without dependencies")?.nodes;
        let edges: BTreeMap<_, Vec<_>> = nodes
            .into_iter()
            .map(|node| {
                let edges = node.deps.into_iter().map(|dependency| Edge {
                    is_shipped: dependency.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev")),
                    to: dependency.pkg,
                });
                (node.id, edges.collect())
            })
            .collect();
        let resolved = raw.packages.into_iter().filter(|package| edges.contains_key(&package.id));
        let packages = resolved.map(|package| (package.id.clone(), package)).collect();
        Ok(Self { packages, edges, members: raw.workspace_members })
    }

    /// How many packages there are.
    pub(super) fn len(&self) -> usize {
        self.packages.len()
    }

    /// Every package.
    pub(super) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.values()
    }

    /// The packages of the workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.members.iter().filter_map(|id| self.packages.get(id))
    }

    /// Whether this package is of the workspace.
    pub(super) fn is_member(&self, package: &Package) -> bool {
        self.members.contains(&package.id)
    }

    /// What a package depends on directly.
    pub(super) fn dependencies(&self, package: &Package, follow: Follow) -> impl Iterator<Item = &Package> {
        let edges = self.edges.get(&package.id).into_iter().flatten();
        edges
            .filter(move |edge| follow == Follow::All || edge.is_shipped)
            .filter_map(|edge| self.packages.get(&edge.to))
    }

    /// Who depends on a package directly, in whatever way.
    pub(super) fn dependents(&self, package: &Package) -> impl Iterator<Item = &Package> {
        let names_it = |edges: &[Edge]| edges.iter().any(|edge| edge.to == package.id);
        self.edges.iter().filter(move |(_, edges)| names_it(edges)).filter_map(|(id, _)| self.packages.get(id))
    }

    /// Everything that a package brings with it, itself left out, each with who brought it first.
    pub(super) fn shipped_with<'a>(&'a self, package: &'a Package) -> Vec<(&'a Package, &'a Package)> {
        let mut seen = BTreeSet::from([package.id.as_str()]);
        let mut found = Vec::new();
        let mut open = vec![package];
        while let Some(from) = open.pop() {
            for to in self.dependencies(from, Follow::Shipped) {
                if seen.insert(to.id.as_str()) {
                    found.push((to, from));
                    open.push(to);
                }
            }
        }
        found
    }
}

/// A graph for tests: `packages` are "name version", `edges` are (from, to, kind) by name.
#[cfg(test)]
pub(super) fn sample(packages: &[&str], edges: &[(&str, &str, &str)]) -> Graph {
    let id = |name: &str| packages.iter().find(|p| p.split(' ').next() == Some(name) || **p == name).expect("named");
    let package = |spec: &&str| {
        let (name, version) = spec.split_once(' ').expect("name and version");
        serde_json::json!({ "id": spec, "name": name, "version": version, "license": "MIT" })
    };
    let node = |spec: &&str| {
        let dependency = |(_, to, kind): &(&str, &str, &str)| {
            let kind = (*kind != "normal").then_some(*kind);
            serde_json::json!({ "pkg": id(to), "dep_kinds": [{ "kind": kind }] })
        };
        let own = edges.iter().filter(|(from, ..)| id(from) == spec);
        serde_json::json!({ "id": spec, "deps": own.map(dependency).collect::<Vec<_>>() })
    };
    let metadata = serde_json::json!({
        "packages": packages.iter().map(package).collect::<Vec<_>>(),
        "resolve": { "nodes": packages.iter().map(node).collect::<Vec<_>>() },
        "workspace_members": packages.iter().filter(|p| p.ends_with(" 0.1.0")).collect::<Vec<_>>(),
    });
    Graph::parse(&metadata.to_string()).expect("the shape that cargo prints")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_is_what_a_user_gets() {
        let graph = sample(
            &["model 0.1.0", "bytes 1.0.0", "cc 1.0.0", "proptest 1.0.0"],
            &[("model", "bytes", "normal"), ("bytes", "cc", "build"), ("model", "proptest", "dev")],
        );
        let model = graph.members().next().expect("one member");
        let shipped: Vec<_> =
            graph.shipped_with(model).iter().map(|(to, from)| format!("{}<{}", to.name, from.name)).collect();
        assert_eq!(shipped, ["bytes<model", "cc<bytes"]);
        assert_eq!(graph.dependencies(model, Follow::All).count(), 2);
    }

    #[test]
    fn metadata_without_a_graph_is_refused() {
        let error =
            Graph::parse(r#"{"packages": [], "resolve": null, "workspace_members": []}"#).expect_err("no graph");
        assert!(error.to_string().starts_with("no resolved graph"), "{error}");
    }
}
