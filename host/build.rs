//! Compiles the protobuf descriptions in `proto/` to descriptor sets and Rust in `OUT_DIR`. The compiler is a library, so
//! that nothing but cargo is needed to build.

use std::path::Path;
use std::{env, error::Error, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    compile("model_config")?;
    compile("grpc_service")?;
    compile("health")?;
    generate("grpc_service")?;
    generate("health")?;
    generate("otlp")
}

/// Writes the descriptor set of `proto/<name>.proto` to `OUT_DIR/<name>.bin`.
fn compile(name: &str) -> Result<(), Box<dyn Error>> {
    let set = protox::compile([format!("{name}.proto")], ["proto"])?;
    let out_dir = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?;
    fs::write(Path::new(&out_dir).join(format!("{name}.bin")), set.encode_to_vec())?;
    Ok(())
}

/// Writes the messages and services of `proto/<name>.proto` as Rust to `OUT_DIR/<package>.rs`. Tensors stay the bytes that
/// came, and a configuration is sent as the bytes it was encoded to, so that it needs no Rust types.
fn generate(name: &str) -> Result<(), Box<dyn Error>> {
    let file = format!("{name}.proto");
    let mut set = protox::compile([&file], ["proto"])?;
    set.file.retain(|described| described.name() == file);
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".inference.ModelInferRequest.raw_input_contents")
        .bytes(".inference.ModelInferResponse.raw_output_contents")
        .bytes(".inference.InferTensorContents.bytes_contents")
        .extern_path(".inference.ModelConfigResponse", "super::EncodedConfigResponse")
        .compile_fds(set)?;
    Ok(())
}
