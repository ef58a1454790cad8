//! What a fresh checkout lacks: a Python virtual environment, ONNX Runtime, and the ONNX model of the sample
//! `file_type`, which is too large to commit. Every step looks first and does nothing where its result is there.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::layout::{Layout, ONNXRUNTIME_VERSION};
use crate::process;
use crate::wheels::{self, Member, Wheel};

/// What pip is asked for so that it finds the same wheel whatever Python runs it.
const X86_64: &[&str] = &["--python-version", "311", "--implementation", "cp", "--platform", "manylinux_2_28_x86_64"];
const AARCH64: &[&str] = &["--python-version", "311", "--implementation", "cp", "--platform", "manylinux_2_28_aarch64"];

/// One architecture's wheel of ONNX Runtime and the library inside it.
struct OnnxRuntime {
    tags: &'static [&'static str],
    wheel_sha256: &'static str,
    library_sha256: &'static str,
}

/// Brings everything into place.
pub(crate) fn setup(layout: &Layout) -> Result<()> {
    python(layout)?;
    onnxruntime(layout)?;
    file_type_model(layout)
}

/// Installs what the Python tests need into the virtual environment, once per state of their requirements.
pub(crate) fn python_tests(layout: &Layout) -> Result<()> {
    let requirements = layout.root().join("tests/python/requirements.txt");
    let installed = layout.fetched("python").join("requirements.sha256");
    let wanted = wheels::sha256_of(&requirements)?;
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let mut pip = Command::new(layout.python());
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"])
        .arg("--requirement")
        .arg(&requirements);
    process::run(&mut pip)?;
    fs::write(&installed, wanted).with_context(|| format!("write {}", installed.display()))
}

fn python(layout: &Layout) -> Result<()> {
    if process::succeeds(Command::new(layout.python()).args(["-m", "pip", "--version"])) {
        return Ok(());
    }
    let version = process::capture(Command::new("python3").args(["-c", "import sys; print(*sys.version_info[:2])"]))
        .context("python3 is needed (Debian: apt-get install python3 python3-venv)")?;
    ensure!(is_supported(&version), "python3 is {}, 3.11 or newer is needed", version.trim().replace(' ', "."));
    let folder = layout.fetched("python");
    eprintln!("creating a Python virtual environment in {}", folder.display());
    remove_if_present(&folder)?;
    let created = process::capture(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    if let Err(error) = created {
        remove_if_present(&folder)?;
        bail!(
            "{error:#}\npython3 cannot make virtual environments; on Debian its venv module is a package of its own:\n\
             \n    apt-get install python3-venv\n"
        );
    }
    Ok(())
}

/// Reads "3 11" as Python prints it.
fn is_supported(version: &str) -> bool {
    let mut parts = version.split_whitespace().map(str::parse::<u32>);
    matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (3, 11))
}

fn onnxruntime(layout: &Layout) -> Result<()> {
    let pinned = onnxruntime_for(std::env::consts::ARCH)?;
    let library = layout.onnxruntime();
    let folder = layout.fetched("onnxruntime");
    let notice =
        |name: &str| Member { path: format!("onnxruntime/{name}"), destination: folder.join(name), sha256: None };
    let wheel = Wheel {
        requirement: format!("onnxruntime=={ONNXRUNTIME_VERSION}"),
        tags: pinned.tags,
        sha256: pinned.wheel_sha256,
    };
    let library = Member {
        path: format!("onnxruntime/capi/libonnxruntime.so.{ONNXRUNTIME_VERSION}"),
        destination: library,
        sha256: Some(pinned.library_sha256),
    };
    wheels::install(layout, &wheel, &[notice("LICENSE"), notice("ThirdPartyNotices.txt"), library])
}

fn onnxruntime_for(architecture: &str) -> Result<OnnxRuntime> {
    match architecture {
        "x86_64" => Ok(OnnxRuntime {
            tags: X86_64,
            wheel_sha256: "a166b78ee04f3a37fa1ef82034b6a3ce96d9684e582d4d30b296de83e9998bb5",
            library_sha256: "aa4079d18f4ea7a5f3a94d80cd4bbe0f2740436626622d64d793803a20381083",
        }),
        "aarch64" => Ok(OnnxRuntime {
            tags: AARCH64,
            wheel_sha256: "8d66f9ceb29909c70839e4e4fb3435c7b490050d8f162bd5f3aba4ca01ee517f",
            library_sha256: "23a37c2994bc273e1d59a4f49af6cba5bf1cfbc29f04907ec27df375aba50a7d",
        }),
        other => bail!(
            "no ONNX Runtime {ONNXRUNTIME_VERSION} is pinned for {other}; install one and name it with ORT_DYLIB_PATH \
             or `airlock serve --onnxruntime`"
        ),
    }
}

fn file_type_model(layout: &Layout) -> Result<()> {
    let wheel = Wheel {
        requirement: "magika==1.0.3".into(),
        tags: &["--platform", "any"],
        sha256: "938d8e033953f2ddeb8c35dc423aa289ca116bfa7a71a778f6e77460f9025803",
    };
    let model = Member {
        path: "magika/models/standard_v3_3/model.onnx".into(),
        destination: layout.model_repository().join("file_type/1/model.onnx"),
        sha256: Some("fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"),
    };
    wheels::install(layout, &wheel, &[model])
}

fn remove_if_present(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_versions() {
        for (printed, expected) in [
            ("3 11\n", true),
            ("3 14\n", true),
            ("4 0", true),
            ("3 9\n", false),
            ("2 7", false),
            ("3", false),
            ("", false),
        ] {
            assert_eq!(is_supported(printed), expected, "{printed:?}");
        }
    }

    #[test]
    fn an_architecture_without_a_pinned_library_is_told_what_to_do() {
        let refusal = onnxruntime_for("riscv64").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refusal.contains("riscv64") && refusal.contains("ORT_DYLIB_PATH"), "{refusal}");
    }
}
