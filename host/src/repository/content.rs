//! Content of a unit, read once and hashed: plugin pieces into memory, model files through the hasher only. What a
//! version does not carry it takes from the model's folder, piece by piece.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::problem::not_text;
use super::regular;
use super::samples::{self, Sample};
use super::scan::Files;

/// Largest `plugin.toml`.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of all assets of a plugin together.
pub const ASSETS_BYTES_MAX: u64 = 512 << 20;

/// Why a unit could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A file cannot be read.
    #[error("reading {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is over its limit.
    #[error("{} has {got} bytes and may have {max}; make it smaller{}", path.display(), raise_limit(path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        got: u64,
        /// The limit.
        max: u64,
    },
    /// Texts of everything wrong with it.
    #[error("{}", .0.join("; "))]
    Problems(Vec<String>),
}

fn raise_limit(path: &Path) -> &'static str {
    if path.ends_with("plugin.wasm") { " or raise --plugin-component-mb" } else { "" }
}

/// What one folder, a model's or a version's, brings of a plugin.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// `plugin.wasm`.
    pub component: Option<Bytes>,
    /// `plugin.toml`, as text.
    pub manifest: Option<Arc<str>>,
    /// `assets/`, by path relative to it.
    pub assets: Option<Arc<BTreeMap<String, Bytes>>>,
    /// `samples/`.
    pub samples: Option<Arc<Vec<Sample>>>,
}

impl Pieces {
    /// Reads the pieces among `files`, which lie below `base` and, for a version, below its folder `prefix`. A component
    /// has at most `component_bytes_max`.
    ///
    /// # Errors
    /// A [`ContentError`] for the first file that cannot be read, or every problem of the samples.
    pub fn read(base: &Path, prefix: &Path, files: &Files, component_bytes_max: u64) -> Result<Self, ContentError> {
        let mut pieces = Self::default();
        let mut assets = BTreeMap::new();
        let mut assets_left = ASSETS_BYTES_MAX;
        for path in files.keys() {
            let Ok(relative) = path.strip_prefix(prefix) else { continue };
            let full = base.join(path);
            if relative == Path::new("plugin.wasm") {
                pieces.component = Some(read_bounded(&full, component_bytes_max)?);
            } else if relative == Path::new("plugin.toml") {
                let bytes = read_bounded(&full, MANIFEST_BYTES_MAX)?;
                let text = std::str::from_utf8(&bytes);
                let text = text.map_err(|_| ContentError::Problems(vec![not_text(&full).to_string()]))?;
                pieces.manifest = Some(text.into());
            } else if let Ok(asset) = relative.strip_prefix("assets") {
                let content = read_bounded(&full, assets_left)?;
                assets_left -= content.len() as u64;
                assets.insert(asset.to_string_lossy().into_owned(), content);
            }
        }
        if !assets.is_empty() {
            pieces.assets = Some(Arc::new(assets));
        }
        let samples_dir = prefix.join("samples");
        if files.keys().any(|path| path.starts_with(&samples_dir)) {
            pieces.samples = Some(Arc::new(read_samples(&base.join(samples_dir))?));
        }
        Ok(pieces)
    }

    /// Whether it brings something that makes another plugin: samples alone do not.
    #[must_use]
    pub fn makes_a_plugin(&self) -> bool {
        self.component.is_some() || self.manifest.is_some() || self.assets.is_some()
    }

    /// The plugin of a folder with these pieces that takes what it lacks from `shared`. `None` without a component.
    #[must_use]
    pub fn over(&self, shared: &Self) -> Option<PluginContent> {
        let component = self.component.clone().or_else(|| shared.component.clone())?;
        let manifest = self.manifest.clone().or_else(|| shared.manifest.clone());
        let assets = self.assets.clone().or_else(|| shared.assets.clone()).unwrap_or_default();
        let digest = plugin_digest(&component, manifest.as_deref(), &assets);
        Some(PluginContent { component, manifest, assets, digest })
    }
}

fn read_samples(dir: &Path) -> Result<Vec<Sample>, ContentError> {
    samples::read_samples(dir)
        .map_err(|problems| ContentError::Problems(problems.iter().map(ToString::to_string).collect()))
}

/// All of a plugin that decides what it does.
#[derive(Clone, Debug)]
pub struct PluginContent {
    /// The component.
    pub component: Bytes,
    /// `plugin.toml`.
    pub manifest: Option<Arc<str>>,
    /// Assets by path.
    pub assets: Arc<BTreeMap<String, Bytes>>,
    /// SHA-256 over all of these, in hexadecimal.
    pub digest: Arc<str>,
}

fn plugin_digest(component: &[u8], manifest: Option<&str>, assets: &BTreeMap<String, Bytes>) -> Arc<str> {
    let mut hash = Sha256::new();
    let mut part = |label: &[u8], content: &[u8]| {
        for bytes in [label, content] {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
    };
    part(b"component", component);
    if let Some(manifest) = manifest {
        part(b"manifest", manifest.as_bytes());
    }
    for (path, content) in assets {
        part(path.as_bytes(), content);
    }
    hex(&hash.finalize()).into()
}

/// SHA-256 of the files of a version that the engine reads: all but what belongs to its plugin.
///
/// # Errors
/// [`ContentError::Read`] for the first file that cannot be read.
pub fn version_digest(base: &Path, prefix: &Path, files: &Files) -> Result<Arc<str>, ContentError> {
    let mut hash = Sha256::new();
    for (path, stat) in files {
        let Ok(relative) = path.strip_prefix(prefix) else { continue };
        if !is_plugin_piece(relative) {
            hash.update(relative.as_os_str().as_encoded_bytes());
            hash.update(stat.size.to_le_bytes());
            let full = base.join(path);
            hash_file(&full, &mut hash).map_err(|error| ContentError::Read { path: full, error })?;
        }
    }
    Ok(hex(&hash.finalize()).into())
}

fn is_plugin_piece(relative: &Path) -> bool {
    ["plugin.wasm", "plugin.toml", "assets", "samples"].iter().any(|piece| relative.starts_with(piece))
}

fn hash_file(path: &Path, hash: &mut Sha256) -> io::Result<()> {
    let mut file = regular::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// The content of a file of at most `max` bytes.
///
/// # Errors
/// [`ContentError::Read`] and [`ContentError::TooLarge`]; no more than `max` bytes and one are read then.
pub fn read_bounded(path: &Path, max: u64) -> Result<Bytes, ContentError> {
    let fail = |error| ContentError::Read { path: path.to_path_buf(), error };
    let content = regular::read_up_to(path, max).map_err(fail)?;
    if content.len() as u64 > max {
        let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        // It may have changed since.
        let got = size.max(content.len() as u64);
        return Err(ContentError::TooLarge { path: path.to_path_buf(), got, max });
    }
    Ok(Bytes::from(content))
}

/// Bytes as lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a component's sections end exactly at the end of its bytes; the reason when they do not. A file that is
/// being copied almost always fails this.
///
/// # Errors
/// What is missing, for people.
pub fn component_is_whole(component: &[u8]) -> Result<(), String> {
    if component.len() < 8 || &component[..4] != b"\0asm" {
        // Too short to tell, or another kind of file: the compiler says so with a better text.
        return if component.len() < 8 { Err(format!("{} bytes so far", component.len())) } else { Ok(()) };
    }
    let mut position = 8;
    while position < component.len() {
        let (length, digits) = leb128(&component[position + 1..])
            .ok_or_else(|| format!("the section at byte {position} has no whole length"))?;
        position += 1 + digits + length;
    }
    if position == component.len() {
        Ok(())
    } else {
        Err(format!("its last section ends at byte {position}, the file at {}", component.len()))
    }
}

fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(component: Option<&'static [u8]>, manifest: Option<&str>) -> Pieces {
        Pieces { component: component.map(Bytes::from_static), manifest: manifest.map(Arc::from), ..Pieces::default() }
    }

    #[test]
    fn a_version_takes_what_it_lacks_from_the_model() {
        let shared = pieces(Some(b"shared"), Some("shared"));
        let own = pieces(None, Some("own")).over(&shared).expect("has a component");
        assert_eq!((&own.component[..], own.manifest.as_deref()), (&b"shared"[..], Some("own")));
        assert_ne!(own.digest, Pieces::default().over(&shared).expect("has a component").digest);
        assert!(Pieces::default().over(&Pieces::default()).is_none());
    }

    #[test]
    fn a_digest_tells_pieces_apart_that_read_the_same_in_a_row() {
        let digest = |component: &[u8], manifest| plugin_digest(component, manifest, &BTreeMap::new());
        assert_ne!(digest(b"ab", Some("c")), digest(b"a", Some("bc")));
        assert_ne!(digest(b"a", None), digest(b"a", Some("")));
    }

    #[test]
    fn a_half_copied_component_is_not_whole() {
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        component.extend([0, 3, 1, b'a', 7]);
        component.extend([0, 0x80, 0x01]);
        component.extend([0; 128]);
        assert_eq!(component_is_whole(&component), Ok(()));
        let whole_prefixes: Vec<usize> =
            (0..component.len()).filter(|&len| component_is_whole(&component[..len]).is_ok()).collect();
        assert_eq!(whole_prefixes, [8, 13], "only cuts between sections cannot be told");
    }
}
