//! What can be told of a component without compiling it: its world, and what one instance takes from the pool. wasmtime
//! checks the same again, exactly, when it compiles; this check comes first, costs milliseconds and gives better texts.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef, Encoding,
    Instance, Parser, Payload,
};

use super::CompileError;
use crate::RuntimeConfig;

/// The interface that the host calls.
const ADAPTER: &str = "airlock:plugin/adapter@0.1.0";
const PIPELINE_PREFIX: &str = "airlock:plugin/pipeline@";

/// Our interfaces that an adapter may import.
const OWN_IMPORTS: [&str; 6] = ["types", "log", "config", "model-info", "metrics", "key-value"];
const OWN_VERSION: &str = "0.1.";

/// Packages of WASI that are linked, at any 0.2 version.
const WASI_PACKAGES: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];
const WASI_VERSION: &str = "0.2.";

/// What one instance of a component takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) core_instances: u64,
    pub(super) memories: u64,
    pub(super) tables: u64,
    pub(super) memory_bytes: u64,
}

impl Needs {
    fn add(&mut self, other: Self) {
        self.core_instances = self.core_instances.saturating_add(other.core_instances);
        self.memories = self.memories.saturating_add(other.memories);
        self.tables = self.tables.saturating_add(other.tables);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
    }
}

/// Checks the form, the world and the needs of `wasm`.
pub(super) fn inspect(wasm: &[u8], limits: &RuntimeConfig) -> Result<Needs, CompileError> {
    check_form(wasm, limits.component_bytes_max)?;
    let seen = survey(wasm).map_err(|error| CompileError::Damaged(error.to_string()))?;
    check_world(&seen.exports, &seen.imports)?;
    check_needs(seen.needs, limits)?;
    Ok(seen.needs)
}

fn check_form(wasm: &[u8], limit: usize) -> Result<(), CompileError> {
    if wasm.len() > limit {
        return Err(CompileError::TooLarge { limit, got: wasm.len() });
    }
    if wasmtime::Engine::detect_precompiled(wasm).is_some() {
        return Err(CompileError::Precompiled);
    }
    if !wasm.starts_with(b"\0asm") {
        let first = wasm.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let first = if first.is_empty() { "an empty file".to_owned() } else { first };
        return Err(CompileError::NotWasm(first));
    }
    if Parser::is_core_wasm(wasm) {
        return Err(CompileError::CoreModule);
    }
    Ok(())
}

fn check_world(exports: &[String], imports: &[String]) -> Result<(), CompileError> {
    if !exports.iter().any(|name| name == ADAPTER) {
        if exports.iter().any(|name| name.starts_with(PIPELINE_PREFIX)) {
            return Err(CompileError::Pipeline { expected: ADAPTER });
        }
        return Err(CompileError::WrongWorld { expected: ADAPTER, exports: exports.to_vec() });
    }
    let unknown: Vec<String> = imports.iter().filter(|name| !is_known_import(name)).cloned().collect();
    if unknown.is_empty() { Ok(()) } else { Err(CompileError::UnknownImports { imports: unknown }) }
}

fn is_known_import(name: &str) -> bool {
    let Some((path, version)) = name.split_once('@') else { return false };
    if let Some(interface) = path.strip_prefix("airlock:plugin/") {
        return version.starts_with(OWN_VERSION) && OWN_IMPORTS.contains(&interface);
    }
    let package = path.strip_prefix("wasi:").and_then(|rest| rest.split_once('/')).map(|(package, _)| package);
    version.starts_with(WASI_VERSION) && package.is_some_and(|package| WASI_PACKAGES.contains(&package))
}

const RAISE_CORE_INSTANCES: &str = "make it smaller or raise --plugin-core-instances";
const RAISE_MEMORY: &str = "make it smaller or raise --plugin-memory-mb";
const LINK_SMALLER: &str = "no setting raises this; link it from fewer modules";

fn check_needs(needs: Needs, limits: &RuntimeConfig) -> Result<(), CompileError> {
    let bounds = [
        ("core instances", needs.core_instances, u64::from(limits.core_instance_slots), RAISE_CORE_INSTANCES),
        ("linear memories", needs.memories, u64::from(limits.memories_per_instance), LINK_SMALLER),
        ("tables", needs.tables, u64::from(limits.tables_per_instance), LINK_SMALLER),
        ("bytes of memory at start", needs.memory_bytes, limits.memory_bytes_max as u64, RAISE_MEMORY),
    ];
    match bounds.into_iter().find(|&(_, got, limit, _)| got > limit) {
        Some((what, got, limit, advice)) => Err(CompileError::TooMuch { what, got, limit, advice }),
        None => Ok(()),
    }
}

/// What the walk over a component found.
#[derive(Default)]
struct Survey {
    needs: Needs,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// A component or module that is being walked, with the index spaces that its instances are made from.
struct Frame {
    encoding: Encoding,
    needs: Needs,
    modules: Vec<Needs>,
    components: Vec<Needs>,
}

fn survey(wasm: &[u8]) -> wasmparser::Result<Survey> {
    let mut seen = Survey::default();
    let mut frames: Vec<Frame> = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::Version { encoding, .. } => {
                frames.push(Frame { encoding, needs: Needs::default(), modules: Vec::new(), components: Vec::new() });
            }
            Payload::End(_) => {
                let Some(done) = frames.pop() else { continue };
                match (frames.last_mut(), done.encoding) {
                    (Some(parent), Encoding::Module) => parent.modules.push(done.needs),
                    (Some(parent), Encoding::Component) => parent.components.push(done.needs),
                    (None, _) => seen.needs = done.needs,
                }
            }
            payload => {
                if frames.len() == 1 {
                    read_names(&payload, &mut seen)?;
                }
                read_needs(&payload, &mut frames)?;
            }
        }
    }
    Ok(seen)
}

fn read_names(payload: &Payload<'_>, seen: &mut Survey) -> wasmparser::Result<()> {
    match payload {
        Payload::ComponentImportSection(section) => {
            for import in section.clone() {
                seen.imports.push(import?.name.name.to_owned());
            }
        }
        Payload::ComponentExportSection(section) => {
            for export in section.clone() {
                seen.exports.push(export?.name.name.to_owned());
            }
        }
        _ => {}
    }
    Ok(())
}

fn read_needs(payload: &Payload<'_>, frames: &mut [Frame]) -> wasmparser::Result<()> {
    if let Payload::ComponentAliasSection(section) = payload {
        for alias in section.clone() {
            read_alias(&alias?, frames);
        }
        return Ok(());
    }
    let Some(frame) = frames.last_mut() else { return Ok(()) };
    match payload {
        Payload::MemorySection(section) => {
            for memory in section.clone() {
                let memory = memory?;
                let page = 1_u64 << memory.page_size_log2.unwrap_or(16).min(16);
                frame.needs.memories += 1;
                frame.needs.memory_bytes = frame.needs.memory_bytes.saturating_add(memory.initial.saturating_mul(page));
            }
        }
        Payload::TableSection(section) => frame.needs.tables += u64::from(section.count()),
        Payload::InstanceSection(section) => {
            for instance in section.clone() {
                if let Instance::Instantiate { module_index, .. } = instance? {
                    let module = indexed(&frame.modules, module_index);
                    frame.needs.add(Needs { core_instances: 1, ..module });
                }
            }
        }
        Payload::ComponentInstanceSection(section) => {
            for instance in section.clone() {
                if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                    let component = indexed(&frame.components, component_index);
                    frame.needs.add(component);
                }
            }
        }
        Payload::ComponentImportSection(section) => {
            for import in section.clone() {
                match import?.ty {
                    ComponentTypeRef::Module(_) => frame.modules.push(Needs::default()),
                    ComponentTypeRef::Component(_) => frame.components.push(Needs::default()),
                    _ => {}
                }
            }
        }
        Payload::ComponentExportSection(section) => {
            for export in section.clone() {
                let export = export?;
                add_index(frame, export.kind, export.index);
            }
        }
        _ => {}
    }
    Ok(())
}

/// An alias gives a module or component a further index.
fn read_alias(alias: &ComponentAlias<'_>, frames: &mut [Frame]) {
    let depth = frames.len();
    match *alias {
        ComponentAlias::Outer { kind, count, index } => {
            let outer = depth.checked_sub(1 + count as usize).and_then(|at| frames.get(at));
            let (modules, components) = outer.map_or((&[][..], &[][..]), |f| (&f.modules[..], &f.components[..]));
            let needs = match kind {
                ComponentOuterAliasKind::CoreModule => indexed(modules, index),
                ComponentOuterAliasKind::Component => indexed(components, index),
                _ => return,
            };
            let Some(frame) = frames.last_mut() else { return };
            match kind {
                ComponentOuterAliasKind::CoreModule => frame.modules.push(needs),
                _ => frame.components.push(needs),
            }
        }
        ComponentAlias::InstanceExport { kind, .. } => {
            let Some(frame) = frames.last_mut() else { return };
            match kind {
                ComponentExternalKind::Module => frame.modules.push(Needs::default()),
                ComponentExternalKind::Component => frame.components.push(Needs::default()),
                _ => {}
            }
        }
        ComponentAlias::CoreInstanceExport { .. } => {}
    }
}

/// An export gives a module or component a further index too.
fn add_index(frame: &mut Frame, kind: ComponentExternalKind, index: u32) {
    match kind {
        ComponentExternalKind::Module => frame.modules.push(indexed(&frame.modules, index)),
        ComponentExternalKind::Component => frame.components.push(indexed(&frame.components, index)),
        _ => {}
    }
}

fn indexed(space: &[Needs], index: u32) -> Needs {
    space.get(index as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(text: &str) -> Needs {
        let wasm = wat::parse_str(text).expect("valid text");
        survey(&wasm).expect("whole").needs
    }

    #[test]
    fn needs_are_counted_over_nested_components() {
        let nested = "(component
            (core module $m (memory 2) (table 1 funcref) (table 1 funcref))
            (component $c (alias outer 1 $m (core module $n)) (core instance (instantiate $n)))
            (instance (instantiate $c)) (instance (instantiate $c)) (core instance (instantiate $m)))";
        let expected = Needs { core_instances: 3, memories: 3, tables: 6, memory_bytes: 3 * 2 * 65_536 };
        assert_eq!(needs(nested), expected);
        assert_eq!(needs("(component (core module (memory 9)))"), Needs::default(), "never instantiated");
    }

    #[test]
    fn imports_of_the_contract_and_of_wasi_are_known() {
        for known in ["airlock:plugin/log@0.1.0", "airlock:plugin/types@0.1.3", "wasi:io/poll@0.2.9"] {
            assert!(is_known_import(known), "{known}");
        }
        let unknown = [
            "airlock:plugin/log@0.2.0",
            "airlock:plugin/models@0.1.0",
            "wasi:http/types@0.2.0",
            "log",
            "wasi:io@0.2.0",
        ];
        for unknown in unknown {
            assert!(!is_known_import(unknown), "{unknown}");
        }
    }

    #[test]
    fn what_the_pool_cannot_hold_is_refused_with_both_figures() {
        let limits = RuntimeConfig { core_instance_slots: 2, ..RuntimeConfig::new(std::path::PathBuf::new()) };
        let error = check_needs(Needs { core_instances: 14, ..Needs::default() }, &limits).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "the component needs 14 core instances and may have 2; make it smaller or raise --plugin-core-instances"
        );
    }
}
