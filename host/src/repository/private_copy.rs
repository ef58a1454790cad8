//! A private copy of a model whose weights are in files of their own. ONNX Runtime maps such files instead of reading
//! them, so somebody who writes over them in the repository would write into a model that serves, or cut it short and end
//! the process. The version is loaded from a copy instead. The copy's names are removed as soon as the load is over: what
//! is mapped stays until it is unmapped, and nothing is left behind by a crash but an unfinished load, which the next
//! start removes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use engine::{Completeness, ExternalFile};
use model::LoadError;
use tempfile::TempDir;

/// Where private copies live for the time of a load.
#[derive(Clone, Debug)]
pub struct LoadingFolder(PathBuf);

/// The file to load a version from.
pub(super) enum ModelSource {
    /// It holds all weights: the file itself.
    Own(PathBuf),
    /// A copy beside its weights; gone once this is dropped.
    Copy {
        /// The copied model file.
        path: PathBuf,
        _folder: TempDir,
    },
}

impl ModelSource {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Own(path) | Self::Copy { path, .. } => path,
        }
    }
}

impl LoadingFolder {
    /// The folder below `state_dir`; made when it is first needed.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self(state_dir.join("loading"))
    }

    /// Removes what a load that never finished has left.
    pub fn clear(&self) {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(folder = %self.0.display(), %error, "files of an unfinished load could not be removed");
            }
            _ => {}
        }
    }

    /// The file to load the model at `path` from: itself, or a private copy where its weights are in other files.
    ///
    /// # Errors
    /// [`LoadError::File`] when it names files it must not, or the copy cannot be made.
    pub(super) fn source(&self, path: &Path) -> Result<ModelSource, LoadError> {
        let failed = |message: String| LoadError::File { path: path.to_path_buf(), message };
        match engine::onnx_is_complete(path) {
            Ok(Completeness::Complete { external_files }) if !external_files.is_empty() => {
                self.copy(path, &external_files).map_err(|error| {
                    let folder = self.0.display();
                    failed(format!(
                        "copying it and its external data to {folder}: {error}; make room there, or set --state-dir"
                    ))
                })
            }
            Ok(Completeness::Refused { reason }) => Err(failed(reason)),
            // What is no model, not whole any more or cannot be read is for the loader to report.
            _ => Ok(ModelSource::Own(path.to_path_buf())),
        }
    }

    fn copy(&self, path: &Path, external_files: &[ExternalFile]) -> io::Result<ModelSource> {
        fs::create_dir_all(&self.0)?;
        let folder = tempfile::tempdir_in(&self.0)?;
        let original = path.parent().unwrap_or(Path::new(""));
        for ExternalFile { path: file, .. } in external_files {
            let relative = file.strip_prefix(original).map_err(io::Error::other)?;
            let target = folder.path().join(relative);
            fs::create_dir_all(target.parent().unwrap_or(folder.path()))?;
            fs::copy(file, target)?;
        }
        let copied = folder.path().join(path.file_name().unwrap_or_default());
        fs::copy(path, &copied)?;
        Ok(ModelSource::Copy { path: copied, _folder: folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixtures() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models")
    }

    #[test]
    fn a_model_with_its_weights_outside_is_copied_with_them_and_the_copy_goes_away() {
        let state = tempfile::tempdir().expect("temporary folder");
        let loading = LoadingFolder::new(state.path());
        let source = loading.source(&fixtures().join("external.onnx")).expect("copied");
        let copy = source.path().to_owned();
        assert!(copy.starts_with(state.path()), "{}", copy.display());
        let same = |name: &str| {
            let read = |folder: &Path| fs::read(folder.join(name)).expect("readable");
            assert_eq!(read(copy.parent().expect("has a folder")), read(&fixtures()), "{name}");
        };
        same("external.onnx");
        same("external.bin");
        drop(source);
        assert!(!copy.exists());
    }

    #[test]
    fn a_model_that_holds_its_weights_is_loaded_where_it_is() {
        let state = tempfile::tempdir().expect("temporary folder");
        let model = fixtures().join("add.onnx");
        assert_eq!(LoadingFolder::new(state.path()).source(&model).expect("is whole").path(), model);
        assert_eq!(fs::read_dir(state.path()).expect("there").count(), 0);
    }

    #[test]
    fn weights_outside_the_models_folder_are_refused() {
        let state = tempfile::tempdir().expect("temporary folder");
        let model = state.path().join("model.onnx");
        let text = fs::read(fixtures().join("external.onnx")).expect("readable");
        let at = text.windows(12).position(|window| window == b"external.bin").expect("named in the model");
        let escaped = [&text[..at], b"../secret.bn", &text[at + 12..]].concat();
        fs::write(&model, escaped).expect("written");
        match LoadingFolder::new(state.path()).source(&model) {
            Err(LoadError::File { message, .. }) => assert_eq!(
                message,
                "external data location '../secret.bn' is not a path inside the model's folder; export the model with its \
                 data beside it"
            ),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("accepted"),
        }
    }

    #[test]
    fn what_an_unfinished_load_left_is_removed() {
        let state = tempfile::tempdir().expect("temporary folder");
        let loading = LoadingFolder::new(state.path());
        loading.clear();
        fs::create_dir_all(state.path().join("loading/.tmpabc")).expect("made");
        loading.clear();
        assert!(!state.path().join("loading").exists());
    }
}
