//! The `checksum` agent of Triton's `model_repository_agents`: files of a model's folder whose MD5 the configuration
//! names. It guards against copies that went wrong, not against people. A version's own files are checked when the
//! version is loaded, so that a wrong one refuses that version alone; all others when the configuration is read.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use md5::{Digest as _, Md5};
use model::VersionNumber;

use super::content::hex;
use super::regular;

/// What a file must hash to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The file, relative to the model's folder.
    pub path: PathBuf,
    /// Its MD5, in lower-case hexadecimal.
    pub md5: String,
}

/// A file that is not what its checksum promises.
#[derive(Debug, thiserror::Error)]
pub enum ChecksumError {
    /// Its content is another one.
    #[error(
        "{} has the MD5 {found}, but the checksum agent of model_repository_agents expects {expected}; copy the file \
         again, or correct the checksum",
        path.display()
    )]
    Differs {
        /// The file.
        path: PathBuf,
        /// The MD5 that the configuration names.
        expected: String,
        /// The MD5 of the file.
        found: String,
    },
    /// It cannot be read.
    #[error("{} cannot be read for its checksum, which model_repository_agents names: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Checksum {
    /// The version whose file this is, if it is one's.
    #[must_use]
    pub fn version(&self) -> Option<VersionNumber> {
        self.path.components().next()?.as_os_str().to_str().and_then(VersionNumber::from_folder)
    }

    /// Compares the file below `dir` with what is promised.
    ///
    /// # Errors
    /// A [`ChecksumError`] naming the file, the MD5 expected and the one found.
    pub fn verify(&self, dir: &Path) -> Result<(), ChecksumError> {
        let path = dir.join(&self.path);
        match md5_of(&path) {
            Ok(found) if found == self.md5 => Ok(()),
            Ok(found) => Err(ChecksumError::Differs { path, expected: self.md5.clone(), found }),
            Err(error) => Err(ChecksumError::Read { path, error }),
        }
    }
}

fn md5_of(path: &Path) -> io::Result<String> {
    let mut file = regular::open(path)?;
    let mut hash = Md5::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_its_checksum_says_or_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("labels.txt"), b"abc").expect("written");
        let checksum = |path: &str, md5: &str| Checksum { path: path.into(), md5: md5.to_owned() };
        // RFC 1321, A.5: the test suite's digest of "abc".
        const ABC: &str = "900150983cd24fb0d6963f7d28e17f72";
        assert!(checksum("labels.txt", ABC).verify(folder.path()).is_ok());
        let file = folder.path().join("labels.txt");
        let error = checksum("labels.txt", &"0".repeat(32)).verify(folder.path()).expect_err("differs").to_string();
        let expected = format!(
            "{} has the MD5 {ABC}, but the checksum agent of model_repository_agents expects {}; copy the file again, or correct the checksum",
            file.display(),
            "0".repeat(32)
        );
        assert_eq!(error, expected);
        let error = checksum("absent", ABC).verify(folder.path()).expect_err("absent").to_string();
        assert!(error.contains("absent cannot be read for its checksum"), "{error}");
    }

    #[test]
    fn a_versions_files_are_told_from_the_models() {
        let version = |path: &str| Checksum { path: path.into(), md5: String::new() }.version().map(VersionNumber::get);
        assert_eq!((version("2/model.onnx"), version("config.pbtxt"), version("02/x")), (Some(2), None, None));
    }
}
