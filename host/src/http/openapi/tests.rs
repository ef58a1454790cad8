//! The description against what it describes.

use std::collections::{BTreeMap, BTreeSet};

use model::{DataType, ErrorCode};
use serde_json::Value;

use super::DESCRIPTION;
use crate::http::{Routes, metrics_routes, routes};

fn description() -> Value {
    serde_json::from_str(DESCRIPTION).expect("JSON")
}

fn texts(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A path without the names of what stands in it. The router knows no suffixes: what it captures as a segment is described
/// with its verb.
fn outline(path: &str) -> String {
    let path = path.strip_suffix(":predict").unwrap_or(path);
    let outlined = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    path.split('/').map(outlined).collect::<Vec<_>>().join("/")
}

fn served(routes: &Routes) -> BTreeSet<(String, String)> {
    routes.list().iter().map(|(method, path)| (method.to_string(), outline(path))).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Http,
    Metrics,
}

impl Port {
    /// Where a path is served: that of the metrics port alone has a server of its own.
    fn of(item: &Value) -> Self {
        if item.get("servers").is_some() { Self::Metrics } else { Self::Http }
    }
}

/// What is described of a port.
fn described(description: &Value, port: Port) -> BTreeSet<(String, String)> {
    let paths = description["paths"].as_object().expect("paths").iter();
    paths
        .filter(|(_, item)| Port::of(item) == port)
        .flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flatten().map(|(method, _)| method);
            let methods = methods.filter(|method| *method != "servers" && *method != "parameters");
            methods.map(|method| (method.to_uppercase(), outline(path)))
        })
        .collect()
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let description = description();
    assert_eq!(described(&description, Port::Http), served(&routes()));
    assert_eq!(described(&description, Port::Metrics), served(&metrics_routes()));
}

#[test]
fn names_in_paths_are_the_routes_own() {
    let described: BTreeSet<String> =
        description()["paths"].as_object().expect("paths").keys().map(|path| path.replace(":predict", "")).collect();
    for (_, path) in routes().list().iter().filter(|(_, path)| !path.ends_with("{segment}")) {
        assert!(described.contains(*path), "{path}");
    }
}

#[test]
fn every_error_code_is_described_with_its_status() {
    let description = description();
    let schemas = &description["components"]["schemas"];
    assert_eq!(texts(&schemas["ErrorCode"]["enum"]), ErrorCode::ALL.map(ErrorCode::as_str).into());
    let mut by_status: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    // Nobody reads the answer of a request whose client has left.
    for code in ErrorCode::ALL.into_iter().filter(|code| *code != ErrorCode::Cancelled) {
        by_status.entry(code.http_status()).or_default().insert(code.as_str());
    }
    for (status, codes) in by_status {
        assert_eq!(texts(&schemas[format!("Failure{status}")]["properties"]["code"]["enum"]), codes, "{status}");
    }
}

#[test]
fn every_data_type_is_described() {
    let description = description();
    let described = texts(&description["components"]["schemas"]["DataType"]["enum"]);
    assert_eq!(described, DataType::ALL.map(DataType::v2_name).into());
}

#[test]
fn the_version_is_the_servers() {
    assert_eq!(description()["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn methods_that_a_path_below_v1_allows() {
    for (path, allowed) in [
        ("/v1/models/m:predict", Some("POST")),
        ("/v1/models/m%3apredict", Some("POST")),
        ("/v1/models/m", Some("GET,HEAD")),
        ("/v1/models/m/labels/l", Some("GET,HEAD")),
        ("/v1/models/m:x/metadata", Some("GET,HEAD")),
        ("/v2/models/m/infer", None),
    ] {
        assert_eq!(crate::http::allowed_by_verb(path), allowed, "{path}");
    }
}
