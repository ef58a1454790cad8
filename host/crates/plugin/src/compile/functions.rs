//! Compiled functions on disk: two Python plugins share almost all of their code, so the second one compiles in a part of
//! the time. One file is written, the one before it is only read; when the written one is full it takes the place of the
//! other. What is used is copied into the written file, so what stays is what was used of late. One process at a time
//! keeps this cache; a second one on the same folder goes without.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use wasmtime::CacheStore;

const MAGIC: &[u8; 8] = b"AIRFUNC1";
const KEY_BYTES: usize = 32;
const CHECK_BYTES: usize = 8;
const RECORD_BYTES: usize = KEY_BYTES + 4 + CHECK_BYTES;

type Key = [u8; KEY_BYTES];

/// Where the value of each record begins (its check first), and its length.
type Places = HashMap<Key, (u64, u32)>;

/// The cache that wasmtime asks for each function.
pub(crate) struct FunctionCache {
    folder: PathBuf,
    segment_bytes_max: u64,
    segments: Mutex<Segments>,
    _lock: File,
}

struct Segments {
    written: Segment,
    earlier: Option<Segment>,
}

struct Segment {
    file: File,
    places: Places,
    end: u64,
}

impl std::fmt::Debug for FunctionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionCache").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl FunctionCache {
    /// Opens the cache in `folder`; `None` where another process keeps it.
    pub(crate) fn open(folder: &Path, bytes_max: u64) -> io::Result<Option<Self>> {
        super::private_folder(folder)?;
        let lock = open_file(&folder.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        let written = Segment::open(&folder.join("written"))?;
        let earlier = folder.join("earlier");
        let earlier = if earlier.exists() { Some(Segment::open(&earlier)?) } else { None };
        let segments = Mutex::new(Segments { written, earlier });
        Ok(Some(Self { folder: folder.to_path_buf(), segment_bytes_max: bytes_max / 2, segments, _lock: lock }))
    }

    fn find(&self, key: &Key) -> Option<Vec<u8>> {
        let mut segments = self.lock();
        if let Some(value) = segments.written.read(key) {
            return Some(value);
        }
        let value = segments.earlier.as_ref()?.read(key)?;
        self.keep(&mut segments, key, &value).ok()?;
        Some(value)
    }

    fn keep(&self, segments: &mut Segments, key: &Key, value: &[u8]) -> io::Result<()> {
        let size = (RECORD_BYTES + value.len()) as u64;
        if size > self.segment_bytes_max {
            return Ok(());
        }
        if segments.written.end + size > self.segment_bytes_max {
            let (written, earlier) = (self.folder.join("written"), self.folder.join("earlier"));
            fs::rename(&written, earlier)?;
            let full = std::mem::replace(&mut segments.written, Segment::open(&written)?);
            segments.earlier = Some(full);
        }
        segments.written.append(key, value)
    }

    fn lock(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheStore for FunctionCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.find(&to_key(key)).map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let kept = self.keep(&mut self.lock(), &to_key(key), &value);
        if let Err(error) = &kept {
            tracing::warn!(folder = %self.folder.display(), %error, "a compiled function cannot be kept; check the cache folder");
        }
        kept.is_ok()
    }
}

impl Segment {
    /// Opens or makes a file, finds the whole records in it and cuts off what follows them.
    fn open(path: &Path) -> io::Result<Self> {
        let file = open_file(path)?;
        let len = file.metadata()?.len();
        let mut magic = [0; MAGIC.len()];
        let ours = file.read_exact_at(&mut magic, 0).is_ok() && magic == *MAGIC;
        if !ours {
            file.set_len(0)?;
            file.write_all_at(MAGIC, 0)?;
            return Ok(Self { file, places: Places::new(), end: MAGIC.len() as u64 });
        }
        let (places, end) = survey(&file, len)?;
        file.set_len(end)?;
        Ok(Self { file, places, end })
    }

    fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let &(at, len) = self.places.get(key)?;
        let mut record = vec![0; CHECK_BYTES + len as usize];
        self.file.read_exact_at(&mut record, at).ok()?;
        let value = record.split_off(CHECK_BYTES);
        (record == check(key, &value)).then_some(value)
    }

    fn append(&mut self, key: &Key, value: &[u8]) -> io::Result<()> {
        let len = u32::try_from(value.len()).map_err(io::Error::other)?;
        let mut record = Vec::with_capacity(RECORD_BYTES + value.len());
        record.extend_from_slice(key);
        record.extend_from_slice(&len.to_le_bytes());
        record.extend_from_slice(&check(key, value));
        record.extend_from_slice(value);
        self.file.write_all_at(&record, self.end)?;
        self.places.insert(*key, (self.end + KEY_BYTES as u64 + 4, len));
        self.end += record.len() as u64;
        Ok(())
    }
}

/// The places of the whole records, and where the last one ends.
fn survey(file: &File, len: u64) -> io::Result<(Places, u64)> {
    let mut places = Places::new();
    let mut reader = BufReader::new(file);
    reader.seek_relative(MAGIC.len() as i64)?;
    let mut end = MAGIC.len() as u64;
    let mut head = [0; RECORD_BYTES - CHECK_BYTES];
    while end + RECORD_BYTES as u64 <= len {
        reader.read_exact(&mut head)?;
        let (key, size) = head.split_first_chunk::<KEY_BYTES>().expect("a head holds a key");
        let size = u32::from_le_bytes(*size.first_chunk().expect("a head holds a size"));
        let next = end + RECORD_BYTES as u64 + u64::from(size);
        if next > len {
            break;
        }
        places.insert(*key, (end + head.len() as u64, size));
        reader.seek_relative(CHECK_BYTES as i64 + i64::from(size))?;
        end = next;
    }
    Ok((places, end))
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn to_key(key: &[u8]) -> Key {
    Key::try_from(key).unwrap_or_else(|_| Sha256::digest(key).into())
}

fn check(key: &Key, value: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Sha256::new_with_prefix(key).chain_update(value).finalize();
    *digest.first_chunk().expect("a SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, bytes_max: u64) -> FunctionCache {
        FunctionCache::open(folder, bytes_max).expect("opened").expect("nobody else keeps it")
    }

    fn get(cache: &FunctionCache, key: &[u8]) -> Option<Vec<u8>> {
        cache.get(key).map(Cow::into_owned)
    }

    #[test]
    fn values_survive_a_restart_and_a_torn_end_does_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = open(folder.path(), 1 << 20);
        assert!(cache.insert(&[1; 32], b"one".to_vec()) && cache.insert(b"short key", b"two".to_vec()));
        assert!(FunctionCache::open(folder.path(), 1 << 20).expect("opened").is_none(), "one process keeps it");
        drop(cache);
        let path = folder.path().join("written");
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() - 1]).expect("written");
        let cache = open(folder.path(), 1 << 20);
        assert_eq!(get(&cache, &[1; 32]).as_deref(), Some(&b"one"[..]));
        assert_eq!(get(&cache, b"short key"), None);
        assert!(cache.insert(b"short key", b"again".to_vec()));
        assert_eq!(get(&cache, b"short key").as_deref(), Some(&b"again"[..]));
    }

    #[test]
    fn damaged_values_are_misses() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = open(folder.path(), 1 << 20);
        assert!(cache.insert(b"k", b"value".to_vec()));
        drop(cache);
        let path = folder.path().join("written");
        let mut content = fs::read(&path).expect("read");
        *content.last_mut().expect("not empty") ^= 1;
        fs::write(&path, content).expect("written");
        assert_eq!(get(&open(folder.path(), 1 << 20), b"k"), None);
        fs::write(&path, b"not ours at all").expect("written");
        assert_eq!(get(&open(folder.path(), 1 << 20), b"k"), None);
    }

    #[test]
    fn the_size_is_bounded_and_what_is_used_stays() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes_max = 2_000;
        let cache = open(folder.path(), bytes_max);
        assert!(cache.insert(b"used", vec![7; 100]));
        for number in 0..100_u32 {
            assert!(cache.insert(&number.to_le_bytes(), vec![0; 100]));
            assert_eq!(get(&cache, b"used"), Some(vec![7; 100]), "after {number}");
            let size = |name: &str| fs::metadata(folder.path().join(name)).map_or(0, |stat| stat.len());
            assert!(size("written") + size("earlier") <= bytes_max);
        }
        assert_eq!(get(&cache, &0_u32.to_le_bytes()), None, "what nobody asked for is gone");
        assert!(cache.insert(b"huge", vec![0; 2_000]) && get(&cache, b"huge").is_none());
    }
}
