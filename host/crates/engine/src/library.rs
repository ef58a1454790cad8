//! Where ONNX Runtime's library is looked for. The order is fixed: what the operator names (`--onnxruntime`, then
//! `ORT_DYLIB_PATH`), what xtask fetched, an installed `onnxruntime` Python package. A named library that is not there is
//! an error, never a reason to look further. Nothing is loaded here.

mod python;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use self::python::PythonPlaces;

/// The variable that names the library.
pub(crate) const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// What the library's file is called, up to its version.
const FILE_NAME: &str = "libonnxruntime.so";

/// A library that was found, not yet opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryLocation {
    /// Its file.
    pub path: PathBuf,
    /// What led to it.
    pub source: LibrarySource,
}

/// What leads to a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibrarySource {
    /// The flag `--onnxruntime`, or the setting of that name.
    Setting,
    /// The environment variable `ORT_DYLIB_PATH`.
    Variable,
    /// `target/onnxruntime`, where xtask puts what it fetches.
    Fetched,
    /// An installed `onnxruntime` Python package.
    PythonPackage,
}

impl fmt::Display for LibrarySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Setting => "--onnxruntime",
            Self::Variable => LIBRARY_VARIABLE,
            Self::Fetched => "target/onnxruntime",
            Self::PythonPackage => "the Python package onnxruntime",
        })
    }
}

/// ONNX Runtime's library is missing or unusable.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// No library anywhere.
    #[error(
        "ONNX Runtime's library was not found; provide it in one of three ways: name it with --onnxruntime PATH, name it \
         with the environment variable {LIBRARY_VARIABLE}, or put one where it is looked for (`cargo xtask serve` fetches \
         one into target/onnxruntime, `pip install onnxruntime` brings one). Looked at: {}", looked_at.join(", ")
    )]
    NotFound {
        /// Every place, in order.
        looked_at: Vec<String>,
    },
    /// A named library is not there.
    #[error(
        "{named_by} names {}, where there is no ONNX Runtime library; name the file libonnxruntime.so or the folder that \
         holds it", path.display()
    )]
    Missing {
        /// The path given.
        path: PathBuf,
        /// What gave it.
        named_by: LibrarySource,
    },
    /// The file cannot be opened as a library.
    #[error(
        "opening ONNX Runtime's library {}: {message}; use a library built for this machine, such as the one `cargo xtask \
         serve` fetches", path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The loader's words.
        message: String,
    },
    /// A library, but another one.
    #[error(
        "{} is a library without OrtGetApiBase, so it is not ONNX Runtime's; name the file libonnxruntime.so",
        path.display()
    )]
    NotOnnxRuntime {
        /// The file.
        path: PathBuf,
    },
    /// ONNX Runtime of a version that this build cannot use.
    #[error(
        "ONNX Runtime's library {} is version {version}; 1.{oldest} or a later 1.x is needed: name another with \
         --onnxruntime or {LIBRARY_VARIABLE}, or install a newer one", path.display()
    )]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
        /// The oldest minor version that will do.
        oldest: u32,
    },
    /// The library is right but does not start.
    #[error("starting ONNX Runtime from {}: {message}", path.display())]
    Start {
        /// The file.
        path: PathBuf,
        /// ONNX Runtime's words.
        message: String,
    },
}

impl From<LibraryError> for model::LoadError {
    fn from(error: LibraryError) -> Self {
        Self::Library(error.to_string())
    }
}

/// Finds the library. `setting` is what `--onnxruntime` gave: a file, or a folder that holds one.
///
/// Of Python packages, those of an active virtual or Conda environment come first, then `PYTHONPATH`, the `python3` on
/// `PATH`, the user's and the system's. The folders are searched without Python; only when none holds the package is
/// `python3` asked for its own, once and for five seconds at most.
///
/// # Errors
/// [`LibraryError::Missing`] for a named library that is not there; [`LibraryError::NotFound`] with every place looked
/// at.
pub fn find_library(setting: Option<&Path>) -> Result<LibraryLocation, LibraryError> {
    Surroundings::of_this_process(setting).find()
}

/// What the search depends on.
#[derive(Debug, Default)]
struct Surroundings {
    setting: Option<PathBuf>,
    variable: Option<OsString>,
    working_folder: Option<PathBuf>,
    executable: Option<PathBuf>,
    python: PythonPlaces,
}

impl Surroundings {
    fn of_this_process(setting: Option<&Path>) -> Self {
        Self {
            setting: setting.map(Path::to_path_buf),
            variable: std::env::var_os(LIBRARY_VARIABLE),
            working_folder: std::env::current_dir().ok(),
            executable: std::env::current_exe().ok(),
            python: PythonPlaces::of_this_process(),
        }
    }

    fn find(&self) -> Result<LibraryLocation, LibraryError> {
        if let Some(path) = &self.setting {
            return named(path, LibrarySource::Setting);
        }
        if let Some(path) = self.variable.as_ref().filter(|path| !path.is_empty()) {
            return named(Path::new(path), LibrarySource::Variable);
        }
        let mut looked_at = vec!["--onnxruntime (not given)".to_owned(), format!("{LIBRARY_VARIABLE} (not set)")];
        for folder in self.fetched_folders() {
            if let Some(path) = library_in(&folder) {
                return Ok(LibraryLocation { path, source: LibrarySource::Fetched });
            }
            looked_at.push(folder.display().to_string());
        }
        match self.python.find(library_in, &mut looked_at) {
            Some(path) => Ok(LibraryLocation { path, source: LibrarySource::PythonPackage }),
            None => Err(LibraryError::NotFound { looked_at }),
        }
    }

    /// `target/onnxruntime/lib` below the working folder, and in the `target` folder the executable is in.
    fn fetched_folders(&self) -> Vec<PathBuf> {
        let here = self.working_folder.iter().map(|folder| folder.join("target"));
        let target_folders = self.executable.iter().flat_map(|path| path.ancestors());
        let built_in = target_folders.filter(|path| path.file_name().is_some_and(|name| name == "target"));
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in here.chain(built_in.map(Path::to_path_buf)) {
            let folder = folder.join("onnxruntime/lib");
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders
    }
}

fn named(path: &Path, source: LibrarySource) -> Result<LibraryLocation, LibraryError> {
    let found = if path.is_dir() { library_in(path) } else { path.is_file().then(|| path.to_path_buf()) };
    found
        .map(|path| LibraryLocation { path, source })
        .ok_or_else(|| LibraryError::Missing { path: path.to_path_buf(), named_by: source })
}

/// The library in a folder: without a version in its name first, then the highest version.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let versions = entries.filter_map(|entry| {
        let name = entry.file_name();
        let version = name.to_str()?.strip_prefix(FILE_NAME)?;
        let preference = if version.is_empty() { vec![u32::MAX] } else { numbers(version.strip_prefix('.')?)? };
        entry.path().is_file().then(|| (preference, entry.path()))
    });
    versions.max().map(|(_, path)| path)
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("folder");
        fs::write(&path, b"").expect("file");
        path
    }

    #[test]
    fn named_libraries_come_first_and_must_exist() {
        let folder = tempfile::tempdir().expect("folder");
        let fetched = file(folder.path(), "target/onnxruntime/lib/libonnxruntime.so.1.28.0");
        let own = file(folder.path(), "own/libonnxruntime.so");
        let here = || Surroundings { working_folder: Some(folder.path().to_path_buf()), ..Surroundings::default() };

        let found = here().find().expect("fetched");
        assert_eq!(found, LibraryLocation { path: fetched, source: LibrarySource::Fetched });

        let by_variable = Surroundings { variable: Some(own.clone().into()), ..here() };
        assert_eq!(by_variable.find().expect("named").source, LibrarySource::Variable);

        let by_setting = Surroundings { setting: own.parent().map(Path::to_path_buf), ..by_variable };
        let found = by_setting.find().expect("the folder holds one");
        assert_eq!(found, LibraryLocation { path: own, source: LibrarySource::Setting });

        let absent = Surroundings { setting: Some(folder.path().join("absent.so")), ..here() };
        let error = absent.find().expect_err("a named library that is absent").to_string();
        assert!(error.starts_with("--onnxruntime names ") && error.contains("absent.so"), "{error}");

        let unset = Surroundings { variable: Some(OsString::new()), ..here() };
        assert_eq!(unset.find().expect("an empty variable is none").source, LibrarySource::Fetched);
    }

    #[test]
    fn the_executables_target_folder_is_searched() {
        let folder = tempfile::tempdir().expect("folder");
        let path = file(folder.path(), "target/onnxruntime/lib/libonnxruntime.so");
        let executable = Some(folder.path().join("target/release/deps/airlock"));
        let found = Surroundings { executable, ..Surroundings::default() }.find().expect("fetched");
        assert_eq!(found, LibraryLocation { path, source: LibrarySource::Fetched });
    }

    #[test]
    fn the_highest_version_of_a_folder_is_taken() {
        let folder = tempfile::tempdir().expect("folder");
        for name in ["libonnxruntime_providers_shared.so", "libonnxruntime.so.1.9.0", "libonnxruntime.so.bak"] {
            file(folder.path(), name);
        }
        fs::create_dir(folder.path().join("libonnxruntime.so.9.0.0")).expect("a folder of that name");
        let newest = file(folder.path(), "libonnxruntime.so.1.28.0");
        assert_eq!(library_in(folder.path()), Some(newest));
        let plain = file(folder.path(), "libonnxruntime.so");
        assert_eq!(library_in(folder.path()), Some(plain));
    }

    #[test]
    fn without_a_library_the_three_ways_and_all_places_are_listed() {
        let folder = tempfile::tempdir().expect("folder");
        let surroundings = Surroundings {
            working_folder: Some(folder.path().join("work")),
            executable: Some(folder.path().join("target/release/airlock")),
            python: PythonPlaces { prefixes: vec![folder.path().join("venv")], ..PythonPlaces::default() },
            ..Surroundings::default()
        };
        let error = surroundings.find().expect_err("nothing is there").to_string();
        let expected = [
            "--onnxruntime PATH".to_owned(),
            "environment variable ORT_DYLIB_PATH".to_owned(),
            "cargo xtask serve".to_owned(),
            "pip install onnxruntime".to_owned(),
            folder.path().join("work/target/onnxruntime/lib").display().to_string(),
            folder.path().join("target/onnxruntime/lib").display().to_string(),
            folder.path().join("venv/lib/python3*/{site,dist}-packages/onnxruntime/capi").display().to_string(),
        ];
        for part in expected {
            assert!(error.contains(&part), "{part} is missing from: {error}");
        }
    }
}
