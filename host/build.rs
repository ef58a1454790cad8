//! Compiles the protobuf descriptions in `proto/` to descriptor sets in `OUT_DIR`. The compiler is a library, so that
//! nothing but cargo is needed to build.

use std::path::Path;
use std::{env, error::Error, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    compile("model_config")
}

/// Writes the descriptor set of `proto/<name>.proto` to `OUT_DIR/<name>.bin`.
fn compile(name: &str) -> Result<(), Box<dyn Error>> {
    let set = protox::compile([format!("{name}.proto")], ["proto"])?;
    let out_dir = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?;
    fs::write(Path::new(&out_dir).join(format!("{name}.bin")), set.encode_to_vec())?;
    Ok(())
}
