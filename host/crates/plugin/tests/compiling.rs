//! What becomes a plugin and what does not, and the compile cache.

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use common::{Host, config, guest, host, host_with, text};
use plugin::{Allocator, CompileError, Plugin, RuntimeConfig, RuntimeError, SandboxRuntime};

fn refused(host: &Host, wasm: &[u8], expected: &str) {
    let error = host.runtime.compile(wasm).expect_err(expected);
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_is_not_a_component_is_refused() {
    let host = host();
    let module = wat::parse_str("(module)").expect("valid text");
    refused(
        &host,
        &module,
        "the file is a core WebAssembly module, not a component; wrap it with `wasm-tools component new`, or build with \
         a tool that makes components",
    );
    refused(
        &host,
        b"PK\x03\x04",
        "the file is not WebAssembly: it must begin with the bytes 00 61 73 6d, got 50 4b 03 04; build a component",
    );
    refused(
        &host,
        b"",
        "the file is not WebAssembly: it must begin with the bytes 00 61 73 6d, got an empty file; build a component",
    );
    let engine = wasmtime::Engine::default();
    let native = engine.precompile_component(&guest("echo")).expect("it compiles");
    assert_eq!(host.runtime.compile(&native).expect_err("native code"), CompileError::Precompiled);
}

#[test]
fn a_file_that_was_cut_is_never_a_plugin() {
    let host = host();
    let whole = guest("echo");
    for cut in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let outcome = host.runtime.compile(&whole[..cut]);
        let error = outcome.expect_err("not whole");
        assert!(!matches!(error, CompileError::Invalid(_)), "cut at {cut} reached the compiler: {error}");
    }
    assert!(host.runtime.compile(&whole).is_ok());
}

#[test]
fn a_component_of_another_world_says_what_it_exports() {
    let host = host();
    let empty = wat::parse_str("(component)").expect("valid text");
    refused(
        &host,
        &empty,
        "the component exports nothing, expected airlock:plugin/adapter@0.1.0; build it for the world `adapter-plugin`",
    );
    let other =
        wat::parse_str("(component (instance $i) (export \"acme:a/b@1.0.0\" (instance $i)))").expect("valid text");
    refused(
        &host,
        &other,
        "the component exports `acme:a/b@1.0.0`, expected airlock:plugin/adapter@0.1.0; build it for the world \
         `adapter-plugin`",
    );
    refused(
        &host,
        &text("pipeline"),
        "the component is of kind `pipeline`; this build serves only plugins of kind `adapter` \
         (airlock:plugin/adapter@0.1.0)",
    );
    refused(
        &host,
        &text("unknown-import"),
        "the component imports `acme:vault/secrets@1.0.0`, which this host does not have; it gives the imports of the \
         world `adapter-plugin` and WASI 0.2 (cli, clocks, filesystem, io, random, sockets)",
    );
    let error = host.runtime.compile(&text("wrong-contract")).expect_err("an interface without functions");
    assert!(matches!(&error, CompileError::Contract(text) if text.contains("preprocess")), "{error}");
}

#[test]
fn what_the_pool_cannot_hold_is_refused() {
    let host = host_with(|config| config.component_bytes_max = 100);
    let wasm = guest("echo");
    assert_eq!(
        host.runtime.compile(&wasm).expect_err("too large"),
        CompileError::TooLarge { limit: 100, got: wasm.len() }
    );
    let host = host_with(|config| config.memory_bytes_max = 65_536);
    refused(
        &host,
        &wasm,
        "the component needs 131072 bytes of memory at start and may have 65536; make it smaller or raise \
         --plugin-memory-mb",
    );
    let host = host_with(|config| config.core_instance_slots = 1);
    let error = host.runtime.compile(&guest("log-flood")).expect_err("glue for its import");
    assert!(matches!(error, CompileError::TooMuch { what: "core instances", limit: 1, .. }), "{error}");
}

fn only_file(host: &Host) -> PathBuf {
    let folder = host.folder.path().join("compiled");
    let entries = fs::read_dir(folder).expect("the cache exists").map(|entry| entry.expect("readable").path());
    let files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn the_second_compilation_is_a_cache_hit_and_damage_is_a_miss() {
    let host = host();
    let wasm = guest("echo");
    let first = host.runtime.compile(&wasm).expect("it compiles");
    let second = host.runtime.compile(&wasm).expect("it loads");
    assert_eq!((first.cache_hit(), second.cache_hit()), (false, true));
    assert_eq!(first.digest(), second.digest());
    assert_eq!((first.digest().len(), first.size()), (64, wasm.len()));
    let path = only_file(&host);
    let whole = fs::read(&path).expect("read");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &flipped, b"", b"foreign"] {
        fs::write(&path, damaged).expect("written");
        assert!(!host.runtime.compile(&wasm).expect("it compiles anew").cache_hit());
        assert!(host.runtime.compile(&wasm).expect("it loads").cache_hit(), "the damaged file was replaced");
    }
}

#[test]
fn compiled_code_of_another_configuration_is_a_miss() {
    let host = host();
    let wasm = guest("echo");
    host.runtime.compile(&wasm).expect("it compiles");
    let ours = only_file(&host);
    let engine = wasmtime::Engine::default();
    let foreign = engine.precompile_component(&wasm).expect("it compiles");
    let mut wrapped = b"AIRLOCK1".to_vec();
    wrapped.extend_from_slice(&(foreign.len() as u64).to_le_bytes());
    wrapped.extend_from_slice(&<sha2::Sha256 as sha2::Digest>::digest(&foreign));
    wrapped.extend_from_slice(&foreign);
    fs::write(&ours, wrapped).expect("written");
    assert!(!host.runtime.compile(&wasm).expect("it compiles anew").cache_hit());
}

#[tokio::test]
async fn a_cached_component_answers_in_the_next_process() {
    let host = host();
    host.runtime.compile(&guest("echo")).expect("it compiles");
    let next = SandboxRuntime::new(config(&host.folder, |_| {})).expect("a second runtime on the same folder");
    let compiled = next.compile(&guest("echo")).expect("it loads");
    assert!(compiled.cache_hit());
    let heard = Arc::default();
    let plugin = Plugin::new(next, compiled, common::spec(&heard)).expect("the limits fit");
    let subject = common::Subject { plugin, heard };
    assert_eq!(subject.answer(b"hi").await, "hi");
}

#[test]
fn functions_of_one_component_help_the_next() {
    let host = host();
    host.runtime.compile(&guest("echo")).expect("it compiles");
    let written = host.folder.path().join("compiled/functions/written");
    let size = || fs::metadata(&written).expect("the function cache exists").len();
    let first = size();
    assert!(first > 1_000, "the functions of the first component were kept");
    host.runtime.compile(&guest("counter")).expect("it compiles");
    let second = size() - first;
    assert!(second < first / 2, "the shared prelude was compiled again: {second} of {first} bytes");
}

#[test]
fn a_pool_that_cannot_be_reserved_is_done_without() {
    let host = host_with(|config| (config.instances_max, config.memories_per_instance) = (1 << 20, 1 << 6));
    assert!(matches!(host.runtime.allocator(), Allocator::OnDemand { reason } if !reason.is_empty()));
    assert_eq!(host.runtime.snapshot().pool, None);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    assert_eq!(tokio.block_on(async { host.plugin("echo").answer(b"hi").await }), "hi");
    assert_eq!(common::host().runtime.allocator(), &Allocator::Pooling);
}

#[test]
fn a_runtime_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = |config: RuntimeConfig| SandboxRuntime::new(config).err().expect("refused");
    let zero = error(config(&folder, |config| config.plugin_threads = 0));
    assert_eq!(zero.to_string(), "the sandbox's plugin_threads must be at least 1, got 0");
    let file = folder.path().join("file");
    fs::write(&file, b"").expect("written");
    let no_folder = error(config(&folder, |config| config.cache_dir = file.join("cache")));
    assert!(matches!(&no_folder, RuntimeError::Cache { folder, .. } if folder.ends_with("file/cache")), "{no_folder}");
}
