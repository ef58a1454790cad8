//! A model repository of real files in a temporary folder, changed as people and tools change one: a whole file renamed
//! into place, a whole folder renamed into place, or a slow copy that can be looked at half way.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A model repository; removed when dropped.
#[derive(Debug)]
pub struct Repository {
    folder: TempDir,
    root: PathBuf,
}

impl Repository {
    /// An empty repository.
    ///
    /// # Errors
    /// As the file system says.
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("making a folder for the model repository")?;
        let root = folder.path().join("models");
        fs::create_dir(&root).with_context(|| format!("creating {}", root.display()))?;
        Ok(Self { folder, root })
    }

    /// The repository's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// A place beside the repository, on the same file system.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a model: its folder is filled under a hidden name and renamed, so it appears whole.
    ///
    /// # Errors
    /// What `fill` or the file system says.
    pub fn add(&self, name: &str, fill: impl FnOnce(&ModelFolder) -> Result<()>) -> Result<ModelFolder> {
        let staged = ModelFolder { path: self.root.join(format!(".{name}")), name: name.to_owned() };
        fs::create_dir(&staged.path).with_context(|| format!("creating {}", staged.path.display()))?;
        fill(&staged)?;
        let added = ModelFolder { path: self.root.join(name), name: name.to_owned() };
        fs::rename(&staged.path, &added.path).with_context(|| format!("renaming to {}", added.path.display()))?;
        Ok(added)
    }

    /// Adds a copy of a model's folder that lies elsewhere, under the same name.
    ///
    /// # Errors
    /// As the file system says.
    pub fn copy(&self, source: &Path) -> Result<ModelFolder> {
        let files = contents(source)?;
        self.add(&file_name(source)?, |folder| {
            for (path, content) in &files {
                folder.write(path.strip_prefix(source)?.to_str().context("names are UTF-8 here")?, content)?;
            }
            Ok(())
        })
    }

    /// Every file below the repository with its content.
    ///
    /// # Errors
    /// As the file system says.
    pub fn contents(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        contents(&self.root)
    }
}

/// Every file below `folder` with its content; folders without files are left out.
///
/// # Errors
/// As the file system says.
pub fn contents(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                found.insert(path, content);
            }
        }
    }
    Ok(found)
}

/// One model's folder.
#[derive(Clone, Debug)]
pub struct ModelFolder {
    path: PathBuf,
    name: String,
}

impl ModelFolder {
    /// The model's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file or folder of the model.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.path.join(relative)
    }

    /// Puts a whole file into place: written under a hidden name beside it, then renamed.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let path = self.path(relative);
        let temporary = hidden(&path)?;
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(&temporary, content).with_context(|| format!("writing {}", temporary.display()))?;
        fs::rename(&temporary, &path).with_context(|| format!("renaming to {}", path.display()))
    }

    /// Puts a whole folder into place in the same way, over the one that is there.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write_folder(&self, relative: &str, files: &[(&str, &[u8])]) -> Result<()> {
        let path = self.path(relative);
        let staged = ModelFolder { path: hidden(&path)?, name: self.name.clone() };
        for (file, content) in files {
            staged.write(file, content)?;
        }
        let replaced = path.with_file_name(format!(".old-{}", file_name(&path)?));
        if path.exists() {
            fs::rename(&path, &replaced).with_context(|| format!("taking {} away", path.display()))?;
        }
        fs::rename(&staged.path, &path).with_context(|| format!("renaming to {}", path.display()))?;
        if replaced.exists() {
            fs::remove_dir_all(&replaced).with_context(|| format!("removing {}", replaced.display()))?;
        }
        Ok(())
    }

    /// Takes a file or a folder away in one step: renamed to a hidden name, then deleted.
    ///
    /// # Errors
    /// As the file system says.
    pub fn remove(&self, relative: &str) -> Result<()> {
        let path = self.path(relative);
        let doomed = hidden(&path)?;
        fs::rename(&path, &doomed).with_context(|| format!("taking {} away", path.display()))?;
        let removed = if doomed.is_dir() { fs::remove_dir_all(&doomed) } else { fs::remove_file(&doomed) };
        removed.with_context(|| format!("removing {}", doomed.display()))
    }

    /// Starts to copy over a file as `cp` does, and stops half way.
    ///
    /// # Errors
    /// As the file system says.
    pub fn start_copy<'a>(&self, relative: &str, content: &'a [u8]) -> Result<SlowCopy<'a>> {
        let path = self.path(relative);
        let (first, rest) = content.split_at(content.len() / 2);
        let mut file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        file.write_all(first).with_context(|| format!("writing {}", path.display()))?;
        Ok(SlowCopy { file, rest })
    }
}

/// A copy that has stopped half way.
#[derive(Debug)]
pub struct SlowCopy<'a> {
    file: File,
    rest: &'a [u8],
}

impl SlowCopy<'_> {
    /// Writes the rest.
    ///
    /// # Errors
    /// As the file system says.
    pub fn finish(mut self) -> Result<()> {
        self.file.write_all(self.rest).context("writing the second half of a file")
    }
}

/// A hidden name beside `path`.
fn hidden(path: &Path) -> Result<PathBuf> {
    Ok(path.with_file_name(format!(".tmp-{}", file_name(path)?)))
}

fn file_name(path: &Path) -> Result<String> {
    let name = path.file_name().with_context(|| format!("{} has no name", path.display()))?;
    Ok(name.to_string_lossy().into_owned())
}
