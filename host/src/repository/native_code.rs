//! Native code in a model's folder that Triton would load into its own process: custom batching strategies and backends.
//! Nothing of it is ever loaded here, and whoever relies on it is to know.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use model::VersionNumber;

/// The libraries that Triton would load for this version, in the model's folder `dir` and in the version's. A folder that
/// cannot be listed has none.
#[must_use]
pub(super) fn native_libraries(dir: &Path, number: VersionNumber) -> Vec<PathBuf> {
    let folders = [dir.to_path_buf(), dir.join(number.to_string())];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| is_library(&entry.file_name())).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn is_library(name: &OsStr) -> bool {
    let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".so")) else { return false };
    name == "batchstrategy" || name.starts_with("libtriton_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_triton_would_load_are_found_in_both_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        for name in ["1", "2"] {
            fs::create_dir(place(name)).expect("a folder");
        }
        for name in ["batchstrategy.so", "1/libtriton_own.so", "2/batchstrategy.so", "libother.so", "1/model.onnx"] {
            fs::write(place(name), "").expect("a file");
        }
        let version = VersionNumber::new(1).expect("not 0");
        assert_eq!(native_libraries(folder.path(), version), [place("1/libtriton_own.so"), place("batchstrategy.so")]);
        assert_eq!(native_libraries(&place("none"), version), <[PathBuf; 0]>::default());
    }
}
