//! Shared memory objects for tests, as a client on the same machine makes them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use tempfile::NamedTempFile;

use super::{RegionLimits, RegionPlace, SharedMemory};

/// An object that is gone once this is dropped.
pub(crate) struct ClientObject(NamedTempFile);

impl ClientObject {
    pub(crate) fn new(content: &[u8]) -> Self {
        let file = tempfile::Builder::new().prefix("airlock-test-").tempfile_in("/dev/shm").expect("an object");
        file.as_file().write_all_at(content, 0).expect("written");
        Self(file)
    }

    pub(crate) fn key(&self) -> String {
        let name = self.0.path().file_name().and_then(|name| name.to_str()).expect("made of letters");
        format!("/{name}")
    }

    /// Where a region of `byte_size` bytes from `offset` on lies in it.
    pub(crate) fn place(&self, offset: u64, byte_size: u64) -> RegionPlace {
        RegionPlace { key: self.key(), offset, byte_size }
    }

    pub(crate) fn file(&self) -> &File {
        self.0.as_file()
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        std::fs::read(self.0.path()).expect("read")
    }
}

/// Shared memory that is on, with room for what tests do.
pub(crate) fn memory() -> SharedMemory {
    SharedMemory::new(Some(RegionLimits { regions_max: 4, bytes_max: 1 << 20, request_bytes_max: 1 << 10 }))
}
