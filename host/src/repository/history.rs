//! Good plugin generations on disk: `state_dir/history/<model>/<generation>/`, the newest few per model. Written
//! after a publish (see `history_writer`), read when a model has no plugin that can serve. A generation's folder appears
//! whole or not at all: it is written under a temporary name, synced and renamed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use model::ModelName;
use serde::{Deserialize, Serialize};

use super::content::{ContentError, Pieces, PluginContent};
use super::scan::scan_model;
use super::scan::{Files, Unit};

const RECORD: &str = "record.json";

/// The history of all models.
#[derive(Clone, Debug)]
pub struct History {
    root: PathBuf,
    keep: usize,
}

/// What is kept of a generation beside its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRecord {
    /// The generation's number.
    pub generation: u64,
    /// Content hash.
    pub digest: String,
    /// When it was published, in seconds since 1970-01-01 UTC.
    pub published_unix_seconds: u64,
}

impl History {
    /// The history below `state_dir`, keeping `keep` generations per model.
    #[must_use]
    pub fn new(state_dir: &Path, keep: usize) -> Self {
        Self { root: state_dir.join("history"), keep }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Generations of `model` on record, oldest first. Entries that cannot be read are left out.
    #[must_use]
    pub fn records(&self, model: &ModelName) -> Vec<GenerationRecord> {
        let mut records: Vec<GenerationRecord> = self
            .numbers(model)
            .into_iter()
            .filter_map(|number| fs::read(self.folder(model, number).join(RECORD)).ok())
            .filter_map(|text| serde_json::from_slice(&text).ok())
            .collect();
        records.sort_by_key(|record| record.generation);
        records
    }

    /// The content of a generation on record. It has served, so it is read whatever its size.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn content(&self, model: &ModelName, generation: u64) -> Result<Option<PluginContent>, ContentError> {
        let folder = self.folder(model, generation);
        let files: Files = scan_model(&folder)
            .map_err(|error| ContentError::Read { path: folder.clone(), error })?
            .units
            .remove(&Unit::Plugin)
            .unwrap_or_default();
        Ok(Pieces::read(&folder, Path::new(""), &files, u64::MAX)?.over(&Pieces::default()))
    }

    /// Writes a generation and forgets the oldest ones over the limit.
    ///
    /// # Errors
    /// As the file system says.
    pub fn save(&self, model: &ModelName, record: &GenerationRecord, content: &PluginContent) -> io::Result<()> {
        let folder = self.folder(model, record.generation);
        let parent = self.root.join(model.as_str());
        fs::create_dir_all(&parent)?;
        let temporary = parent.join(format!(".{}.tmp", record.generation));
        if temporary.exists() {
            fs::remove_dir_all(&temporary)?;
        }
        write_folder(&temporary, record, content).inspect_err(|_| {
            // What could not be written whole is worth nothing; where it cannot be removed either, the next one does.
            let _ = fs::remove_dir_all(&temporary);
        })?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::rename(&temporary, &folder)?;
        File::open(&parent)?.sync_all()?;
        let numbers = self.numbers(model);
        for surplus in &numbers[..numbers.len().saturating_sub(self.keep)] {
            fs::remove_dir_all(self.folder(model, *surplus))?;
        }
        Ok(())
    }

    fn folder(&self, model: &ModelName, generation: u64) -> PathBuf {
        self.root.join(model.as_str()).join(generation.to_string())
    }

    fn numbers(&self, model: &ModelName) -> Vec<u64> {
        let entries = fs::read_dir(self.root.join(model.as_str())).into_iter().flatten().flatten();
        let mut numbers: Vec<u64> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }
}

fn write_folder(folder: &Path, record: &GenerationRecord, content: &PluginContent) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    write_file(&folder.join("plugin.wasm"), &content.component)?;
    if let Some(manifest) = &content.manifest {
        write_file(&folder.join("plugin.toml"), manifest.as_bytes())?;
    }
    write_assets(&folder.join("assets"), &content.assets)?;
    write_file(&folder.join(RECORD), &serde_json::to_vec(record)?)
}

fn write_assets(folder: &Path, assets: &Arc<BTreeMap<String, Bytes>>) -> io::Result<()> {
    for (path, bytes) in assets.iter() {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        write_file(&path, bytes)?;
    }
    Ok(())
}

fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(byte: u8) -> PluginContent {
        let pieces = Pieces {
            component: Some(Bytes::from(vec![byte])),
            manifest: Some("kind = 'adapter'".into()),
            assets: Some(Arc::new(BTreeMap::from([("a/b.txt".to_owned(), Bytes::from_static(b"asset"))]))),
            samples: None,
        };
        pieces.over(&Pieces::default()).expect("has a component")
    }

    fn record(generation: u64) -> GenerationRecord {
        GenerationRecord { generation, digest: format!("d{generation}"), published_unix_seconds: 7 }
    }

    #[test]
    fn the_newest_generations_come_back_as_they_were() {
        let state = tempfile::tempdir().expect("temporary folder");
        let history = History::new(state.path(), 2);
        let model = ModelName::new("m").expect("a name");
        assert!(history.records(&model).is_empty());
        for generation in 9..=11 {
            let byte = u8::try_from(generation).expect("small");
            history.save(&model, &record(generation), &content(byte)).expect("saved");
        }
        assert_eq!(history.records(&model), [record(10), record(11)]);
        let back = history.content(&model, 11).expect("readable").expect("has a component");
        assert_eq!(back.digest, content(11).digest);
        assert_eq!(&back.assets["a/b.txt"][..], b"asset");
    }
}
