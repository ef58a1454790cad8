//! Compiled components on disk, by the digest of the component and all that its code depends on. A file that is damaged,
//! foreign or of another wasmtime is a miss and gets replaced, never an error. Files are read whole, never mapped, so
//! that removing or replacing one disturbs nobody.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::deserialise;

const MAGIC: &[u8; 8] = b"AIRLOCK1";
const DIGEST_BYTES: usize = 32;
const HEADER_BYTES: usize = MAGIC.len() + 8 + DIGEST_BYTES;
const EXTENSION: &str = "compiled";
const UNFINISHED: &str = "unfinished";

/// Compiled components on disk, bounded in bytes.
pub(crate) struct ArtifactCache {
    folder: PathBuf,
    compatibility: String,
    bytes_max: u64,
    written: AtomicU64,
}

/// Makes `folder` and keeps everybody else out of it.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

impl ArtifactCache {
    pub(crate) fn open(folder: &Path, bytes_max: u64, engine: &Engine) -> io::Result<Self> {
        private_folder(folder)?;
        for path in files(folder)?.into_iter().filter(|path| has_extension(path, UNFINISHED)) {
            remove(&path);
        }
        let mut hasher = StableHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        hasher.0.update(std::env::consts::ARCH);
        let compatibility = super::hex(&hasher.0.finalize()[..8]);
        Ok(Self { folder: folder.to_path_buf(), compatibility, bytes_max, written: AtomicU64::new(0) })
    }

    /// The compiled form of the component with `digest`, where one lies here whole.
    pub(crate) fn load(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(digest);
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "a compiled component cannot be read; compiling anew");
                }
                return None;
            }
        };
        let Some(payload) = unwrap(&content) else {
            tracing::warn!(path = %path.display(), "a compiled component is damaged; compiling anew");
            return None;
        };
        match deserialise::component(engine, payload) {
            Ok(component) => {
                touch(&path);
                Some(component)
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), error = format!("{error:#}"), "a compiled component does not load; compiling anew");
                None
            }
        }
    }

    /// Keeps `payload`, replacing what lies there, then removes the least recently used files past the bound. A failure
    /// costs only the next compilation.
    pub(crate) fn store(&self, digest: &str, payload: &[u8]) {
        let path = self.path(digest);
        if let Err(error) = self.write(&path, payload) {
            tracing::warn!(path = %path.display(), %error, "a compiled component cannot be kept; check the cache folder");
            return;
        }
        if let Err(error) = self.prune(&path) {
            tracing::warn!(folder = %self.folder.display(), %error, "the compile cache cannot be pruned; check the cache folder");
        }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}-{}.{EXTENSION}", self.compatibility))
    }

    fn write(&self, path: &Path, payload: &[u8]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.folder.join(format!("{}-{number}.{UNFINISHED}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        let result = write_wrapped(&mut file, payload)
            .and_then(|()| fs::rename(&unfinished, path))
            .and_then(|()| File::open(&self.folder)?.sync_all());
        if result.is_err() {
            remove(&unfinished);
        }
        result
    }

    /// Removes the oldest files until the rest fits; `newest` stays whatever its size.
    fn prune(&self, newest: &Path) -> io::Result<()> {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for path in files(&self.folder)?.into_iter().filter(|path| has_extension(path, EXTENSION)) {
            // A file that another process removed meanwhile counts nothing.
            if let Ok(stat) = fs::metadata(&path) {
                kept.push((stat.modified()?, stat.len(), path));
            }
        }
        kept.sort();
        let mut total: u64 = kept.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in kept.iter().filter(|(_, _, path)| path != newest) {
            if total <= self.bytes_max {
                break;
            }
            remove(path);
            total -= len;
        }
        Ok(())
    }
}

fn write_wrapped(file: &mut File, payload: &[u8]) -> io::Result<()> {
    file.write_all(MAGIC)?;
    file.write_all(&(payload.len() as u64).to_le_bytes())?;
    file.write_all(&Sha256::digest(payload))?;
    file.write_all(payload)?;
    file.sync_all()
}

/// The payload, where the content is exactly what [`write_wrapped`] wrote.
fn unwrap(content: &[u8]) -> Option<&[u8]> {
    let (header, payload) = content.split_at_checked(HEADER_BYTES)?;
    let (length, digest) = header.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let whole = u64::from_le_bytes(*length) == payload.len() as u64 && digest == Sha256::digest(payload).as_slice();
    whole.then_some(payload)
}

/// Marks a file as used now.
fn touch(path: &Path) {
    let touched = File::options().write(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = touched {
        tracing::debug!(path = %path.display(), %error, "a compiled component's time of use cannot be written");
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a file of the compile cache cannot be removed");
    }
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|given| given == extension)
}

/// Hashes the same in every process, unlike the standard library's hasher, which may change with the compiler.
struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        u64::from_le_bytes(*digest.first_chunk().expect("a SHA-256 has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_content_unwraps() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x");
        write_wrapped(&mut File::create(&path).expect("created"), b"payload").expect("written");
        let content = fs::read(&path).expect("read");
        assert_eq!(unwrap(&content), Some(&b"payload"[..]));
        for cut in 0..content.len() {
            assert_eq!(unwrap(&content[..cut]), None, "cut at {cut}");
            let mut flipped = content.clone();
            flipped[cut] ^= 1;
            assert_eq!(unwrap(&flipped), None, "flipped at {cut}");
        }
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = ArtifactCache::open(folder.path(), 250, &Engine::default()).expect("opened");
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        for (digest, seconds) in [("a", 20), ("b", 10), ("c", 30)] {
            cache.store(digest, &[0; 60]);
            File::options()
                .write(true)
                .open(cache.path(digest))
                .and_then(|f| f.set_modified(at(seconds)))
                .expect("set");
        }
        cache.store("d", &[0; 60]);
        let kept: Vec<bool> = ["a", "b", "c", "d"].iter().map(|digest| cache.path(digest).exists()).collect();
        assert_eq!(kept, [false, false, true, true]);
    }

    #[test]
    fn the_folder_is_ours_alone_and_clean_at_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("set");
        let leftover = folder.path().join("1-2.unfinished");
        fs::write(&leftover, b"half").expect("written");
        ArtifactCache::open(folder.path(), 1, &Engine::default()).expect("opened");
        let mode = fs::metadata(folder.path()).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(!leftover.exists());
    }
}
