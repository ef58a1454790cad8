//! Builds guests without any WebAssembly toolchain: the fields of a core module as text, a shared prelude, and the types
//! of `wit/`. A test includes this file with `#[path]`; the package that does so has `wat`, `wit-component` and
//! `wit-parser` among its dev-dependencies.

use std::path::PathBuf;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The repository's folder `name`, from wherever the test runs.
fn folder(name: &str) -> PathBuf {
    let start = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = start.ancestors().find(|folder| folder.join("wit/worlds.wit").is_file());
    root.expect("the test lies in the repository").join(name)
}

fn source(name: &str) -> String {
    let path = folder("tests/guests").join(format!("{name}.wat"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The guest `name` of `tests/guests` as a component of the world `adapter-plugin`.
pub fn guest(name: &str) -> Vec<u8> {
    adapter(&source(name))
}

/// The text `name` of `tests/guests` as it is, for components that are none of ours.
pub fn text(name: &str) -> Vec<u8> {
    wat::parse_str(source(name)).expect("valid text")
}

/// The types of WASI at the version that these fields import.
fn wasi(fields: &str) -> Option<&'static str> {
    let versions = [("@0.2.0\"", "wasi.wit"), ("@0.2.6\"", "wasip2.wit")];
    versions.into_iter().find(|(version, _)| fields.contains(version)).map(|(_, file)| file)
}

/// A component whose core module has `fields`, the prelude and, where it brings none, a postprocess.
fn adapter(fields: &str) -> Vec<u8> {
    let postprocess = if fields.contains("#postprocess\")") { String::new() } else { source("postprocess") };
    let mut module = wat::parse_str(format!("{fields}\n{}\n{postprocess}", source("prelude"))).expect("valid text");
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_path(folder("wit")).expect("wit/ is valid");
    let mut world = "adapter-plugin";
    if let Some(wasi) = wasi(fields) {
        (package, _) = resolve.push_path(folder("tests/guests").join(wasi)).expect("the WASI types are valid");
        world = "adapter-with-wasi";
    }
    let world = resolve.select_world(&[package], Some(world)).expect("the world exists");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("the module takes metadata");
    let mut encoder = ComponentEncoder::default().validate(true).module(&module).expect("the module fits the world");
    encoder.encode().expect("a component")
}
