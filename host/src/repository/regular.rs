//! Reading files of a repository: regular files only, and no more than a bound. A pipe or a device in a model's folder
//! would hold a load thread for ever, or fill the memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// Opens a regular file.
///
/// # Errors
/// As the system says; [`ErrorKind::InvalidInput`] for anything but a regular file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder; put a file there"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file; put the file itself there"));
    }
    File::open(path)
}

/// At most `max` bytes of a regular file, and one more where it has more.
///
/// # Errors
/// As [`open`].
pub(super) fn read_up_to(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.take(max.saturating_add(1)).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_not_read() {
        for (path, expected) in [("/dev/zero", "not a regular file"), ("/", "it is a folder")] {
            let error = read_up_to(Path::new(path), 10).expect_err("no file");
            assert!(error.to_string().contains(expected), "{path}: {error}");
        }
    }

    #[test]
    fn one_byte_more_than_the_bound_tells_that_there_is_more() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), b"abcdef").expect("written");
        assert_eq!(read_up_to(file.path(), 6).expect("read"), b"abcdef");
        assert_eq!(read_up_to(file.path(), 3).expect("read"), b"abcd");
    }
}
