//! Where things lie: the one place that knows the folders of the repository and of the build. What is fetched always
//! goes under `target/` of the repository; what Cargo builds follows `CARGO_TARGET_DIR`.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The version of ONNX Runtime that is fetched, tested with and served with.
pub(crate) const ONNXRUNTIME_VERSION: &str = "1.28.0";

/// The folders of one checkout.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    cargo_target: PathBuf,
}

impl Layout {
    /// The checkout that this xtask was built from.
    ///
    /// # Errors
    /// Where the folder two above xtask's manifest is not the repository.
    pub(crate) fn find() -> Result<Self> {
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let manifest_dir = PathBuf::from(manifest_dir);
        let root = manifest_dir.ancestors().nth(2).context("xtask's manifest lies too near the file system's root")?;
        ensure!(root.join("wit").is_dir(), "{} is not the repository: it has no wit folder", root.display());
        let cargo_target = match env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => std::path::absolute(&dir).with_context(|| format!("CARGO_TARGET_DIR {dir:?}"))?,
            None => root.join("target"),
        };
        Ok(Self { root: root.to_path_buf(), cargo_target })
    }

    /// The repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What setup fetched and what a local server writes.
    pub(crate) fn fetched(&self, name: &str) -> PathBuf {
        self.root.join("target").join(name)
    }

    /// The interpreter of the virtual environment.
    pub(crate) fn python(&self) -> PathBuf {
        self.fetched("python").join("bin/python")
    }

    /// ONNX Runtime's shared library.
    pub(crate) fn onnxruntime(&self) -> PathBuf {
        self.fetched("onnxruntime").join(format!("lib/libonnxruntime.so.{ONNXRUNTIME_VERSION}"))
    }

    /// The server, as built with this Cargo profile.
    pub(crate) fn airlock(&self, profile: &str) -> PathBuf {
        self.program(profile, "airlock")
    }

    /// A program of the workspace, as built with this Cargo profile.
    pub(crate) fn program(&self, profile: &str, name: &str) -> PathBuf {
        self.cargo_target.join(profile).join(name)
    }

    /// The sample repository.
    pub(crate) fn model_repository(&self) -> PathBuf {
        self.root.join("model_repository")
    }

    /// The manifest of the guests' workspace.
    pub(crate) fn plugins_manifest(&self) -> PathBuf {
        self.root.join("plugins/Cargo.toml")
    }

    /// Where the guests' workspace is built, as components and for its native tests.
    pub(crate) fn plugins_target(&self) -> PathBuf {
        self.root.join("plugins/target")
    }

    /// What the programs under test are told about this checkout. The server itself reads none of these but
    /// `ORT_DYLIB_PATH`.
    pub(crate) fn test_environment(&self, profile: &str) -> [(&'static str, PathBuf); 5] {
        [
            ("ORT_DYLIB_PATH", self.onnxruntime()),
            ("AIRLOCK_ROOT", self.root.clone()),
            ("AIRLOCK_BIN", self.airlock(profile)),
            ("AIRLOCK_PLUGINS", self.plugins_target().join("components")),
            ("AIRLOCK_PYTHON", self.python()),
        ]
    }
}
