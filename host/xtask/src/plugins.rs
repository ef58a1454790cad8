//! Building the plugins from source: every member of the `plugins/` workspace that is a `cdylib` becomes a core module
//! for `wasm32-unknown-unknown`, then a component. The compiler is looked for in this order: the target is installed,
//! rustup can install it, or Debian's `rustc-web` builds the standard library from its sources. Nothing of the machine
//! (home folder, checkout) is left in the components.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use wit_component::ComponentEncoder;

use crate::process;

const TARGET: &str = "wasm32-unknown-unknown";

/// How long rustup may take to download the target; where it cannot be reached it would wait much longer.
const RUSTUP_TIMEOUT_S: &str = "60";

/// Which plugin each model of the sample repository uses.
const SAMPLES: [(&str, &str); 2] = [("fraud_v3", "fraud-rules"), ("file_type", "file-type")];

/// What to do where no compiler was found.
const NO_COMPILER: &str = "no Rust compiler here builds for wasm32-unknown-unknown. Install the target:\n\
    \n    rustup target add wasm32-unknown-unknown\n\
    \nor, where rustup cannot download it, Debian's compiler with the sources of the standard library:\n\
    \n    apt-get install --no-install-recommends rustc-web cargo-web rust-web-src\n";

/// Builds every component into `plugins/target/components/<package>.wasm`.
pub(crate) fn build_all(root: &Path) -> Result<()> {
    let workspace = root.join("plugins");
    let compiler = Compiler::find()?;
    process::run(compiler.cargo(&workspace).args(["fetch", "--locked"]))?;
    let guests = guests(&process::capture(compiler.cargo(&workspace).args([
        "metadata",
        "--locked",
        "--no-deps",
        "--format-version=1",
    ]))?)?;
    compiler.build(root, &workspace)?;
    fs::create_dir_all(components(root)).with_context(|| format!("create {}", components(root).display()))?;
    for guest in &guests {
        let module = workspace.join("target").join(TARGET).join("release").join(guest.module_file());
        componentize(&module, &component(root, &guest.package))?;
    }
    Ok(())
}

/// Copies the components that the sample repository uses over its `plugin.wasm` files, where they differ.
pub(crate) fn install_samples(root: &Path) -> Result<()> {
    for (model, package) in SAMPLES {
        let built = component(root, package);
        let installed = root.join("model_repository").join(model).join("plugin.wasm");
        let bytes =
            fs::read(&built).with_context(|| format!("read {}; `cargo xtask plugins` builds it", built.display()))?;
        if fs::read(&installed).is_ok_and(|present| present == bytes) {
            eprintln!("{} is up to date", installed.display());
            continue;
        }
        write_whole(&installed, &bytes)?;
        eprintln!("installed {} ({} bytes)", installed.display(), bytes.len());
    }
    Ok(())
}

/// Where the components are built.
fn components(root: &Path) -> PathBuf {
    root.join("plugins/target/components")
}

fn component(root: &Path, package: &str) -> PathBuf {
    components(root).join(package).with_extension("wasm")
}

/// One package that becomes a component.
#[derive(Debug, PartialEq, Eq)]
struct Guest {
    package: String,
}

impl Guest {
    fn module_file(&self) -> String {
        format!("{}.wasm", self.package.replace('-', "_"))
    }
}

/// The members that are components, from what `cargo metadata` prints.
fn guests(metadata: &str) -> Result<Vec<Guest>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        targets: Vec<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        kind: Vec<String>,
    }

    let metadata: Metadata = serde_json::from_str(metadata).context("read what `cargo metadata` printed")?;
    let is_guest = |package: &Package| package.targets.iter().any(|target| target.kind.iter().any(|k| k == "cdylib"));
    let guests = metadata.packages.into_iter().filter(is_guest);
    let guests: Vec<Guest> = guests.map(|package| Guest { package: package.name }).collect();
    ensure!(!guests.is_empty(), "no member of plugins/Cargo.toml has crate-type \"cdylib\"");
    Ok(guests)
}

/// A compiler that can build for the target.
enum Compiler {
    /// The one in use has the target's standard library.
    WithTarget,
    /// Debian's, which builds the standard library from source; its linker comes from elsewhere.
    Debian { linker: PathBuf, sources: PathBuf },
}

impl Compiler {
    fn find() -> Result<Self> {
        if has_target() {
            return Ok(Self::WithTarget);
        }
        let mut rustup = Command::new("timeout");
        rustup.args([RUSTUP_TIMEOUT_S, "rustup", "target", "add", TARGET]);
        if process::succeeds(&mut rustup) && has_target() {
            return Ok(Self::WithTarget);
        }
        Self::debian()
    }

    fn debian() -> Result<Self> {
        let sysroot = process::capture(Command::new("/usr/bin/rustc").args(["--print", "sysroot"])).unwrap_or_default();
        let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
        ensure!(sources.join("library/Cargo.lock").is_file() && Path::new("/usr/bin/cargo").is_file(), "{NO_COMPILER}");
        let linker = linker().context(
            "no linker for WebAssembly was found: neither rust-lld beside rustc nor wasm-ld; Debian has it in a package:\n\
             \n    apt-get install --no-install-recommends lld\n",
        )?;
        Ok(Self::Debian { linker, sources })
    }

    /// Cargo in the plugins' workspace, without what the cargo that runs us has set for itself.
    fn cargo(&self, workspace: &Path) -> Command {
        let mut cargo = match self {
            Self::WithTarget => Command::new("cargo"),
            Self::Debian { linker, .. } => {
                let mut cargo = Command::new("/usr/bin/cargo");
                cargo
                    .env_remove("RUSTUP_TOOLCHAIN")
                    .env("RUSTC", "/usr/bin/rustc")
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                cargo
            }
        };
        cargo.current_dir(workspace).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        cargo
    }

    fn build(&self, root: &Path, workspace: &Path) -> Result<()> {
        let mut cargo = self.cargo(workspace);
        cargo
            .args(["build", "--locked", "--release", "--target", TARGET, "--target-dir"])
            .arg(workspace.join("target"));
        if matches!(self, Self::Debian { .. }) {
            cargo.arg("-Zbuild-std=std,panic_abort");
        }
        process::run(cargo.env("CARGO_ENCODED_RUSTFLAGS", self.remapped_paths(root)?))
    }

    /// Flags that replace this machine's folders in what the compiler writes into panic messages.
    fn remapped_paths(&self, root: &Path) -> Result<OsString> {
        let mut folders = vec![(root.to_path_buf(), "/airlock")];
        folders.extend(registries()?.into_iter().map(|folder| (folder, "/crates")));
        if let Self::Debian { sources, .. } = self {
            folders.push((sources.canonicalize().context("resolve the sources of the standard library")?, "/rust"));
            folders.push((sources.clone(), "/rust"));
        }
        Ok(encoded_remaps(&folders))
    }
}

/// `--remap-path-prefix` flags in the form of `CARGO_ENCODED_RUSTFLAGS`, where a folder's name may have spaces.
fn encoded_remaps(folders: &[(PathBuf, &str)]) -> OsString {
    let mut flags = OsString::new();
    for (folder, replacement) in folders {
        if !flags.is_empty() {
            flags.push("\u{1f}");
        }
        flags.push("--remap-path-prefix=");
        flags.push(folder);
        flags.push("=");
        flags.push(replacement);
    }
    flags
}

/// The folders in which cargo unpacks the sources of dependencies.
fn registries() -> Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let sources = home.context("neither CARGO_HOME nor a home folder is set")?.join("registry/src");
    let entries = fs::read_dir(&sources).with_context(|| format!("list {}", sources.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn has_target() -> bool {
    let printed = process::capture(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    printed.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

/// `rust-lld` of the compiler in use, else `wasm-ld`.
fn linker() -> Option<PathBuf> {
    let sysroot = process::capture(Command::new("rustc").args(["--print", "sysroot"])).ok()?;
    let host = process::capture(Command::new("rustc").args(["--print", "host-tuple"])).ok()?;
    let beside = Path::new(sysroot.trim()).join("lib/rustlib").join(host.trim()).join("bin/rust-lld");
    if beside.is_file() {
        return Some(beside);
    }
    process::succeeds(Command::new("wasm-ld").arg("--version")).then(|| PathBuf::from("wasm-ld"))
}

/// Wraps a core module into a component and checks that it is valid.
fn componentize(module: &Path, component: &Path) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("read {}", module.display()))?;
    let encoded = match ComponentEncoder::default().validate(true).module(&bytes) {
        Ok(mut encoder) => encoder.encode(),
        Err(error) => Err(error),
    };
    match encoded {
        Ok(encoded) => {
            write_whole(component, &encoded)?;
            eprintln!("built {} ({} bytes)", component.display(), encoded.len());
            Ok(())
        }
        Err(error) => bail!("make a component of {}: {error:#}", module.display()),
    }
}

/// Writes beside the destination and renames, so that a running server never sees half a file.
fn write_whole(destination: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = destination.with_extension("wasm.new");
    fs::write(&temporary, bytes).with_context(|| format!("write {}", temporary.display()))?;
    fs::rename(&temporary, destination).with_context(|| format!("rename to {}", destination.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_cdylibs_are_guests() {
        let metadata = r#"{"packages": [
            {"name": "airlock-plugin", "targets": [{"kind": ["lib"]}]},
            {"name": "fraud-rules", "targets": [{"kind": ["cdylib", "rlib"]}, {"kind": ["test"]}]}
        ]}"#;
        let guests = guests(metadata).expect("has one");
        assert_eq!(guests, [Guest { package: "fraud-rules".to_owned() }]);
        assert_eq!(guests[0].module_file(), "fraud_rules.wasm");
    }

    #[test]
    fn a_workspace_without_guests_is_refused() {
        let error = guests(r#"{"packages": []}"#).expect_err("has none");
        assert!(error.to_string().contains("crate-type \"cdylib\""), "{error:#}");
    }

    #[test]
    fn folders_are_remapped_with_spaces_and_all() {
        let folders = [(PathBuf::from("/a b"), "/airlock"), (PathBuf::from("/c"), "/crates")];
        let expected = "--remap-path-prefix=/a b=/airlock\u{1f}--remap-path-prefix=/c=/crates";
        assert_eq!(encoded_remaps(&folders), expected);
    }

    #[test]
    fn what_is_no_module_is_refused_by_name() {
        let folder = std::env::temp_dir().join(format!("airlock-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("creates a folder");
        let module = folder.join("module.wasm");
        fs::write(&module, b"no module").expect("writes");
        let error = componentize(&module, &folder.join("component.wasm")).expect_err("is no module");
        assert!(error.to_string().contains("module.wasm"), "{error:#}");
        assert!(!folder.join("component.wasm").exists());
        fs::remove_dir_all(&folder).expect("removes");
    }
}
