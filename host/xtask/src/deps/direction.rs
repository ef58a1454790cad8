//! Which of our own crates may know which, and what must not come with them. Cargo holds a direction only as long as
//! nobody adds an edge to a manifest; this is what notices.

use super::graph::{Follow, Graph, Package};

/// What each crate may depend on among ours, its tests included. A crate that is not named here may know none, and
/// `tests` may know all: it drives the whole from outside.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("airlock", &["batching", "engine", "model", "plugin"]),
    ("batching", &["model"]),
    ("engine", &["model"]),
    ("plugin", &["model"]),
    ("tests", &["airlock", "batching", "engine", "model", "plugin"]),
];

/// What must not come with the vocabulary: it stays a crate of values that compiles in seconds.
const TOO_HEAVY_FOR_MODEL: &[&str] = &["axum", "cudarc", "hyper", "ort", "prost", "tokio", "tonic", "wasmtime"];

/// Crates that anything may build on without a C compiler or a shared library.
const FREE_OF_NATIVE_LIBRARIES: &[&str] = &["batching", "model"];

/// A package that declares `links` only so that it exists once in a program; nothing native is behind it.
const LINKS_NOTHING: &[&str] = &["rayon-core", "prettyplease", "wasm-bindgen-shared"];

/// Every edge that should not be there.
pub(super) fn problems(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for member in graph.members() {
        problems.extend(wrong_edges(graph, member));
        if member.name == "model" {
            problems.extend(too_heavy(graph, member));
        }
        if FREE_OF_NATIVE_LIBRARIES.contains(&member.name.as_str()) {
            problems.extend(native_libraries(graph, member));
        }
    }
    problems
}

fn wrong_edges(graph: &Graph, member: &Package) -> Vec<String> {
    let allowed = MAY_KNOW.iter().find(|(name, _)| *name == member.name).map_or(&[][..], |(_, allowed)| allowed);
    graph
        .dependencies(member, Follow::All)
        .filter(|to| graph.is_member(to) && to.name != member.name && !allowed.contains(&to.name.as_str()))
        .map(|to| format!("{} depends on {}; it may depend on [{}]", member.name, to.name, allowed.join(", ")))
        .collect()
}

fn too_heavy(graph: &Graph, member: &Package) -> Vec<String> {
    let shipped = graph.shipped_with(member);
    let heavy = shipped.iter().filter(|(to, _)| TOO_HEAVY_FOR_MODEL.contains(&to.name.as_str()));
    heavy.map(|(to, from)| format!("{} brings {}, through {}", member.name, to.name, from.name)).collect()
}

fn native_libraries(graph: &Graph, member: &Package) -> Vec<String> {
    let shipped = graph.shipped_with(member);
    let native = shipped.iter().filter_map(|(to, from)| {
        let library = to.links.as_ref().filter(|_| !LINKS_NOTHING.contains(&to.name.as_str()))?;
        Some(format!("{} brings the native library {library} of {}, through {}", member.name, to.name, from.name))
    });
    native.collect()
}

#[cfg(test)]
mod tests {
    use super::super::graph::sample;
    use super::*;

    #[test]
    fn the_three_in_the_middle_do_not_know_each_other() {
        let packages = ["airlock 0.1.0", "batching 0.1.0", "engine 0.1.0", "plugin 0.1.0", "model 0.1.0", "new 0.1.0"];
        let good = [("airlock", "engine", "normal"), ("engine", "model", "normal"), ("batching", "model", "dev")];
        assert_eq!(problems(&sample(&packages, &good)), Vec::<String>::new());
        for (edge, expected) in [
            (("batching", "engine", "normal"), "batching depends on engine; it may depend on [model]"),
            (("plugin", "engine", "dev"), "plugin depends on engine; it may depend on [model]"),
            (("model", "plugin", "build"), "model depends on plugin; it may depend on []"),
            (("new", "model", "normal"), "new depends on model; it may depend on []"),
        ] {
            assert_eq!(problems(&sample(&packages, &[edge])), [expected]);
        }
    }

    #[test]
    fn model_brings_nothing_heavy_however_deep() {
        let packages = ["model 0.1.0", "bytes 1.0.0", "tokio 1.0.0"];
        let shipped = [("model", "bytes", "normal"), ("bytes", "tokio", "normal")];
        assert_eq!(problems(&sample(&packages, &shipped)), ["model brings tokio, through bytes"]);
        let in_its_tests = [("model", "bytes", "normal"), ("bytes", "tokio", "dev")];
        assert_eq!(problems(&sample(&packages, &in_its_tests)), Vec::<String>::new());
    }

    #[test]
    fn batching_brings_no_native_library() {
        let json = r#"{
            "packages": [
                {"id": "b", "name": "batching", "version": "0.1.0"},
                {"id": "z", "name": "zstd-sys", "version": "2.0.0", "links": "zstd"},
                {"id": "r", "name": "rayon-core", "version": "1.0.0", "links": "rayon-core"}
            ],
            "resolve": {"nodes": [
                {"id": "b", "deps": [{"pkg": "z", "dep_kinds": [{"kind": null}]}, {"pkg": "r", "dep_kinds": [{"kind": null}]}]},
                {"id": "z", "deps": []},
                {"id": "r", "deps": []}
            ]},
            "workspace_members": ["b"]
        }"#;
        let graph = Graph::parse(json).expect("parses");
        assert_eq!(problems(&graph), ["batching brings the native library zstd of zstd-sys, through batching"]);
    }
}
