//! POSIX shared memory objects. On Linux `shm_open` is `open` below `/dev/shm`, and so is this, with more care: the key
//! comes from a client.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{FsWord, Mode, OFlags, fstatfs, open};

use super::RegionPlace;
use super::error::{RegionError, shown};

/// Where objects are.
const FOLDER: &str = "/dev/shm";
/// Objects of Triton's Python backend, which clients have no business with.
const RESERVED: &str = "triton_python_backend_shm_region_";
/// Source: the kernel's `TMPFS_MAGIC`.
const TMPFS: FsWord = 0x0102_1994;

/// An object that is open for reading and writing.
#[derive(Debug)]
pub(super) struct Object {
    file: File,
}

impl Object {
    /// Opens the object that `shm_open` would find as `key`, for the region `name`.
    pub(super) fn open(name: &str, key: &str) -> Result<Self, RegionError> {
        let refused = |reason: String| RegionError::Open { key: shown(key), reason };
        let file_name = file_name(key).map_err(|reason| refused(reason.to_owned()))?;
        if file_name.starts_with(RESERVED) {
            return Err(RegionError::Reserved { name: shown(name), key: shown(key), prefix: RESERVED });
        }
        let file = open_in_memory(&Path::new(FOLDER).join(file_name)).map_err(|error| refused(error.to_string()))?;
        Ok(Self { file })
    }

    /// Whether a region lies within the object as it is now.
    pub(super) fn check_holds(&self, name: &str, place: &RegionPlace) -> Result<(), RegionError> {
        let RegionPlace { key, offset, byte_size } = place;
        let len = self.len().map_err(|error| RegionError::Open { key: shown(key), reason: error.to_string() })?;
        let end = offset.checked_add(*byte_size).filter(|&end| end <= len && *byte_size > 0);
        end.map(drop).ok_or_else(|| RegionError::place(name, place, len))
    }

    /// Its length in bytes now.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Fills `bytes` from `offset` on.
    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Puts all of `bytes` at `offset`.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
}

/// The file that `shm_open` takes for `key`: slashes at its start do not count, others are not allowed.
fn file_name(key: &str) -> Result<&str, &'static str> {
    match key.trim_start_matches('/') {
        "" => Err("a key names an object"),
        "." | ".." => Err("a key is no folder"),
        name if name.contains('/') => Err("a key has no slash but at its start"),
        name if name.contains('\0') => Err("a key has no character 0"),
        name => Ok(name),
    }
}

/// Opens a file that is kept in memory, without waiting for anybody.
fn open_in_memory(path: &Path) -> io::Result<File> {
    // Not waiting matters for pipes, which are refused only once they are open.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no shared memory object"));
    }
    if fstatfs(&file)?.f_type != TMPFS {
        return Err(io::Error::other("it is not kept in memory"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_below_one_folder() {
        for (key, expected) in [
            ("/a", Ok("a")),
            ("a", Ok("a")),
            ("//a b", Ok("a b")),
            ("..a", Ok("..a")),
            ("", Err("a key names an object")),
            ("///", Err("a key names an object")),
            ("/.", Err("a key is no folder")),
            ("/..", Err("a key is no folder")),
            ("/../etc/passwd", Err("a key has no slash but at its start")),
            ("a/", Err("a key has no slash but at its start")),
            ("/a/b", Err("a key has no slash but at its start")),
            ("/a\0b", Err("a key has no character 0")),
        ] {
            assert_eq!(file_name(key), expected, "{key:?}");
        }
    }

    #[test]
    fn only_files_in_memory_are_opened() {
        for (path, expected) in [
            ("/dev/null", "it is no shared memory object"),
            ("/proc/self/comm", "it is not kept in memory"),
            ("/dev/shm", "Is a directory"),
        ] {
            let error = open_in_memory(Path::new(path)).expect_err("refused").to_string();
            assert!(error.starts_with(expected), "{path}: {error}");
        }
    }
}
