//! Why bytes do not become a plugin. The caller knows the file and the model and puts them in front.

/// Why a component was refused. The texts name what was expected, what was given and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// More bytes than the configuration allows.
    #[error("the component has {got} bytes and may have {limit}; strip it or raise --plugin-component-mb")]
    TooLarge {
        /// The configured bound.
        limit: usize,
        /// Bytes given.
        got: usize,
    },
    /// Something else than WebAssembly.
    #[error("the file is not WebAssembly: it must begin with the bytes 00 61 73 6d, got {0}; build a component")]
    NotWasm(String),
    /// Native code made by wasmtime. It is never run, since nobody can check it.
    #[error(
        "the file is precompiled native code (.cwasm), which is never accepted; give the .wasm component it came from"
    )]
    Precompiled,
    /// A module without the component layer.
    #[error(
        "the file is a core WebAssembly module, not a component; wrap it with `wasm-tools component new`, or build with a \
         tool that makes components"
    )]
    CoreModule,
    /// The binary ends early or its structure is broken.
    #[error("the component is damaged or not whole: {0}; copy it again or rebuild it")]
    Damaged(String),
    /// It exports nothing that this host calls.
    #[error("the component exports {}, expected {expected}; build it for the world `adapter-plugin`", listed(exports))]
    WrongWorld {
        /// What the host calls.
        expected: &'static str,
        /// What the component exports.
        exports: Vec<String>,
    },
    /// It is a pipeline.
    #[error("the component is of kind `pipeline`; this build serves only plugins of kind `adapter` ({expected})")]
    Pipeline {
        /// What the host calls.
        expected: &'static str,
    },
    /// It imports what the host does not have.
    #[error(
        "the component imports {}, which this host does not have; it gives the imports of the world `adapter-plugin` and \
         WASI 0.2 (cli, clocks, filesystem, io, random, sockets)",
        listed(imports)
    )]
    UnknownImports {
        /// The first unknown imports.
        imports: Vec<String>,
    },
    /// It needs more of the pool than one component may have.
    #[error("the component needs {got} {what} and may have {limit}; {advice}")]
    TooMuch {
        /// What it needs too much of.
        what: &'static str,
        /// What to do about it.
        advice: &'static str,
        /// The bound.
        limit: u64,
        /// What it needs.
        got: u64,
    },
    /// wasmtime refuses it.
    #[error("the component does not compile: {0}")]
    Invalid(String),
    /// Its imports or exports have other types than the contract's.
    #[error("the component does not fit the contract airlock:plugin@0.1.0: {0}; rebuild it against the current wit/")]
    Contract(String),
}

/// Names for a text, the first few of them.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let mut text = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
