//! Files that came with a load request: a folder of their own below the state folder, which stands in for the model's
//! until the model is loaded without them or unloaded.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use model::ModelName;
use tempfile::TempDir;

use super::scan::{DEPTH_MAX, FILES_PER_MODEL_MAX};

/// Where such folders live.
#[derive(Clone, Debug)]
pub struct OverridesFolder(PathBuf);

/// What a load request puts in place of a model's files.
#[derive(Clone, Debug)]
pub struct Overrides {
    /// The model's configuration as JSON.
    pub config: Arc<str>,
    /// The folder that stands in for the model's, where files were given; gone with the last holder.
    pub folder: Option<Arc<TempDir>>,
}

impl Overrides {
    /// The folder that stands in for the model's.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.path())
    }
}

/// Why the files of a load request cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OverridesError {
    /// A path leads elsewhere. The text is Triton's.
    #[error("Invalid file parameter 'file:{path}' with normalized path '{path}' must stay within model directory.")]
    Outside {
        /// The path.
        path: String,
    },
    /// There are too many, or one lies too deep.
    #[error("the files of model '{model}' cannot be kept: {reason}")]
    Unusable {
        /// The model.
        model: ModelName,
        /// What is wrong.
        reason: String,
    },
    /// The disk refuses them.
    #[error("writing the files of model '{model}' below {}: {error}; make room there, or set --state-dir", dir.display())]
    Write {
        /// The model.
        model: ModelName,
        /// Where.
        dir: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl OverridesFolder {
    /// The folder below `state_dir`; made when it is first needed.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self(state_dir.join("overrides"))
    }

    /// Removes what a server that did not end in order has left.
    pub fn clear(&self) {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(folder = %self.0.display(), %error, "files of earlier load requests could not be removed");
            }
            _ => {}
        }
    }

    /// Writes `files`, each by its path inside the model's folder, into a folder for `model`. Blocks.
    ///
    /// # Errors
    /// An [`OverridesError`]; nothing stays behind then.
    pub fn write(&self, model: &ModelName, files: &[(String, Vec<u8>)]) -> Result<Arc<TempDir>, OverridesError> {
        if let Some((path, _)) = files.iter().find(|(path, _)| !stays_inside(path)) {
            return Err(OverridesError::Outside { path: path.clone() });
        }
        let unusable = |reason| OverridesError::Unusable { model: model.clone(), reason };
        if let Some(reason) = never_read(files) {
            return Err(unusable(reason));
        }
        let failed = |error: io::Error| match error.kind() {
            // Two paths of which one is a folder of the other, or a name that no disk takes.
            io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidFilename => unusable(error.to_string()),
            _ => OverridesError::Write { model: model.clone(), dir: self.0.clone(), error },
        };
        let folder = self.make(files).map_err(failed)?;
        Ok(Arc::new(folder))
    }

    fn make(&self, files: &[(String, Vec<u8>)]) -> io::Result<TempDir> {
        fs::create_dir_all(&self.0)?;
        let folder = tempfile::tempdir_in(&self.0)?;
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(path, content)?;
        }
        Ok(folder)
    }
}

/// Why files would be written and never be read: a model's folder has bounds.
fn never_read(files: &[(String, Vec<u8>)]) -> Option<String> {
    if files.len() > FILES_PER_MODEL_MAX {
        return Some(format!("a model has {FILES_PER_MODEL_MAX} files at most, not {}", files.len()));
    }
    let is_deep = |path: &&String| Path::new(path).components().count() > DEPTH_MAX;
    let deep = files.iter().map(|(path, _)| path).find(is_deep)?;
    let start: String = deep.chars().take(80).collect();
    Some(format!("'{start}' is nested deeper than {DEPTH_MAX} folders"))
}

/// Whether a path names a file below the folder it is relative to.
fn stays_inside(path: &str) -> bool {
    let path_is_plain = |path: &Path| path.components().all(|component| matches!(component, Component::Normal(_)));
    !path.is_empty() && !path.contains('\0') && !path.ends_with('/') && path_is_plain(Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_live_as_long_as_their_last_holder() {
        let state = tempfile::tempdir().expect("a folder");
        let folders = OverridesFolder::new(state.path());
        let name = ModelName::new("m").expect("a name");
        let files = [("1/model.onnx".to_owned(), b"x".to_vec()), ("labels.txt".to_owned(), b"y".to_vec())];
        let folder = folders.write(&name, &files).expect("written");
        let other = Arc::clone(&folder);
        drop(folder);
        assert_eq!(fs::read(other.path().join("1/model.onnx")).expect("there"), b"x");
        let path = other.path().to_path_buf();
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn what_would_never_be_read_is_not_written() {
        let state = tempfile::tempdir().expect("a folder");
        let folders = OverridesFolder::new(state.path());
        let write = |paths: &[String]| {
            let files: Vec<_> = paths.iter().map(|path| (path.clone(), Vec::new())).collect();
            folders.write(&ModelName::new("m").expect("a name"), &files).map_err(|error| error.to_string())
        };
        let refused = |paths: &[String], expected: &str| {
            let text = write(paths).expect_err("refused");
            assert!(text.starts_with("the files of model 'm' cannot be kept: ") && text.contains(expected), "{text}");
        };
        refused(&["d/".repeat(DEPTH_MAX) + "f"], "nested deeper than 8 folders");
        refused(&["1".to_owned(), "1/model.onnx".to_owned()], "");
        refused(&["f".repeat(300)], "");
        let many: Vec<String> = (0..=FILES_PER_MODEL_MAX).map(|number| number.to_string()).collect();
        refused(&many, "20000 files at most, not 20001");
        write(&["d/".repeat(DEPTH_MAX - 1) + "f"]).expect("written");
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let state = tempfile::tempdir().expect("a folder");
        let folders = OverridesFolder::new(state.path());
        for path in ["../x", "/x", "1/../../x", "", "1/", "./x", "1/\0"] {
            let error = folders.write(&ModelName::new("m").expect("a name"), &[(path.to_owned(), Vec::new())]);
            let error = error.expect_err("refused").to_string();
            assert!(error.contains("must stay within model directory."), "{path}: {error}");
        }
        assert!(!state.path().join("overrides").exists());
    }
}
