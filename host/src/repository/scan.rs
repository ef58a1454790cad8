//! One look at a model repository: which models there are and which files each of their units has, by stat alone but for
//! the configurations, which are read for the files they name. A unit is what settles, loads and fails together: the
//! configuration, the model-level plugin, and each version folder.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::{ModelName, VersionNumber};

use super::config_choice::{CONFIG_FILE, NAMED_CONFIGS};
use super::config_text::files_named_in;
use super::problem::read_text;

/// Files looked at per model; more are reported and the model is left alone.
pub const FILES_PER_MODEL_MAX: usize = 20_000;
/// Folders inside folders.
pub(super) const DEPTH_MAX: usize = 8;

/// What changes when a file's content may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    device: u64,
    inode: u64,
    /// Bytes.
    pub size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stat {
    /// Looks at one file, through links.
    ///
    /// # Errors
    /// As `stat(2)`.
    pub fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::from(&metadata))
    }

    /// Looks at an entry of a folder: through links, or at the link itself where it leads nowhere. A link to nothing is a
    /// file that cannot be read, not the absence of one.
    fn of_entry(path: &Path) -> io::Result<Self> {
        Self::of(path).or_else(|_| std::fs::symlink_metadata(path).map(|metadata| Self::from(&metadata)))
    }
}

impl From<&Metadata> for Stat {
    fn from(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl Stat {
    /// Whether the file last changed at least `age` before `now`, as far as the clocks can be trusted.
    #[must_use]
    pub fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let (seconds, nanos) = self.changed.max(self.modified);
        let since_epoch = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
        let changed_at = since_epoch.map(|(s, n)| SystemTime::UNIX_EPOCH + Duration::new(s, n));
        changed_at.is_some_and(|at| now.duration_since(at).is_ok_and(|since| since >= age))
    }
}

/// Files by their path relative to the model's folder.
pub type Files = BTreeMap<PathBuf, Stat>;

/// What settles, loads and fails together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// `config.pbtxt`, `configs/`, `warmup/` and the files that the configurations name, such as labels.
    Config,
    /// The model-level `plugin.wasm`, `plugin.toml`, `assets/` and `samples/`.
    Plugin,
    /// A version folder with all it holds.
    Version(VersionNumber),
}

impl Unit {
    /// The version that a part of a model's problems is about, where it is about one.
    #[must_use]
    pub fn version_of(part: &str) -> Option<VersionNumber> {
        VersionNumber::new(part.strip_prefix("version ")?.parse().ok()?)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("config.pbtxt"),
            Self::Plugin => f.write_str("plugin"),
            Self::Version(number) => write!(f, "version {number}"),
        }
    }
}

/// A model's folder at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFiles {
    /// The folder.
    pub dir: PathBuf,
    /// Its units that have files, and each version folder, even an empty one.
    pub units: BTreeMap<Unit, Files>,
}

/// All models of a repository at one moment, and what could not be looked at.
#[derive(Debug, Default)]
pub struct RepositoryFiles {
    /// By name.
    pub models: BTreeMap<ModelName, ModelFiles>,
    /// Models whose folder is there and cannot be looked at, and why: nothing may be concluded from that.
    pub unreadable: BTreeMap<ModelName, (PathBuf, String)>,
    /// Folders that are no models, and why.
    pub skipped: Vec<(PathBuf, String)>,
}

/// Looks at every model folder of `root`. Hidden entries, `lost+found` and plain files are ignored.
///
/// # Errors
/// When `root` itself cannot be listed; nothing may be concluded from that.
pub fn scan_repository(root: &Path) -> io::Result<RepositoryFiles> {
    let mut found = RepositoryFiles::default();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let dir = entry.path();
        let Ok(text) = entry.file_name().into_string() else {
            found.skipped.push((dir, "its name is not UTF-8".to_owned()));
            continue;
        };
        if is_left_alone(&text) || !may_be_folder(&dir) {
            continue;
        }
        match ModelName::new(&text) {
            Err(error) => found.skipped.push((dir, error.to_string())),
            Ok(name) => match scan_model(&dir) {
                Ok(files) => drop(found.models.insert(name, files)),
                Err(error) => drop(found.unreadable.insert(name, (dir, error.to_string()))),
            },
        }
    }
    Ok(found)
}

/// The names of the model folders of `root`, without a look at what they hold.
///
/// # Errors
/// When `root` cannot be listed.
pub fn model_names(root: &Path) -> io::Result<Vec<ModelName>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let Ok(text) = entry.file_name().into_string() else { continue };
        if !is_left_alone(&text)
            && may_be_folder(&entry.path())
            && let Ok(name) = ModelName::new(&text)
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// Hidden entries, and what some file systems keep in their root.
fn is_left_alone(name: &str) -> bool {
    name.starts_with('.') || name == "lost+found"
}

/// Whether this is a folder, or something of which the file system cannot tell.
fn may_be_folder(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Looks at one model's folder.
///
/// # Errors
/// When it cannot be listed, or holds more than [`FILES_PER_MODEL_MAX`] files.
pub fn scan_model(dir: &Path) -> io::Result<ModelFiles> {
    let mut files = ModelFiles { dir: dir.to_path_buf(), units: BTreeMap::new() };
    let mut left = FILES_PER_MODEL_MAX;
    for entry in std::fs::read_dir(dir)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let Some(unit) = unit_of(&name) else { continue };
        let path = dir.join(&name);
        let is_dir = path.is_dir();
        if matches!(unit, Unit::Version(_)) && !is_dir {
            continue;
        }
        let into = files.units.entry(unit).or_default();
        if is_dir && !is_file_by_name(&name) {
            walk(dir, Path::new(&name), DEPTH_MAX, &mut left, into)?;
        } else if let Ok(stat) = Stat::of_entry(&path) {
            into.insert(PathBuf::from(name), stat);
        }
    }
    add_named_files(dir, &mut files);
    Ok(files)
}

/// Adds the files that the configurations name to their unit, so that a change of one is a change of it.
fn add_named_files(dir: &Path, files: &mut ModelFiles) {
    let Some(of_config) = files.units.get_mut(&Unit::Config) else { return };
    let is_config = |path: &&PathBuf| path.as_path() == Path::new(CONFIG_FILE) || path.starts_with(NAMED_CONFIGS);
    let configs: Vec<PathBuf> = of_config.keys().filter(is_config).cloned().collect();
    for config in configs {
        // One that cannot be read names nothing; its reader says why.
        let Ok(Some(text)) = read_text(&dir.join(config)) else { continue };
        for path in files_named_in(&text) {
            if let Ok(stat) = Stat::of_entry(&dir.join(&path)) {
                of_config.insert(path, stat);
            }
        }
    }
}

/// Names under which a file is expected: a folder there is a file that cannot be read, not the absence of one.
fn is_file_by_name(name: &str) -> bool {
    matches!(name, CONFIG_FILE | "plugin.wasm" | "plugin.toml")
}

fn unit_of(name: &str) -> Option<Unit> {
    match name {
        CONFIG_FILE | NAMED_CONFIGS | "warmup" => Some(Unit::Config),
        "plugin.wasm" | "plugin.toml" | "assets" | "samples" => Some(Unit::Plugin),
        _ => VersionNumber::from_folder(name).map(Unit::Version),
    }
}

/// Adds every file below `base/relative`. A file that vanishes meanwhile is not there.
fn walk(base: &Path, relative: &Path, depth: usize, left: &mut usize, into: &mut Files) -> io::Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(io::Error::other(format!("{} is nested deeper than {DEPTH_MAX} folders", relative.display())));
    };
    for entry in std::fs::read_dir(base.join(relative))? {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let below = relative.join(&name);
        let path = base.join(&below);
        *left = left.checked_sub(1).ok_or_else(|| {
            io::Error::other(format!("{} has more than {FILES_PER_MODEL_MAX} files and folders", base.display()))
        })?;
        if path.is_dir() && !is_file_by_name(&name.to_string_lossy()) {
            walk(base, &below, depth, left, into)?;
        } else if let Ok(stat) = Stat::of_entry(&path) {
            into.insert(below, stat);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("folder");
        std::fs::write(path, b"x").expect("file");
    }

    #[test]
    fn files_belong_to_the_unit_that_reads_them() {
        let root = tempfile::tempdir().expect("temporary folder");
        for path in [
            "m/config.pbtxt",
            "m/plugin.wasm",
            "m/plugin.wasm.tmp",
            "m/samples/a/request.json",
            "m/1/model.onnx",
            "m/2/plugin.wasm",
            "m/02/model.onnx",
            "m/.git/x",
            "m/traffic.toml",
            "m/configs/h100.pbtxt",
            "m/labels/y.csv",
            "m/labels/other.csv",
            ".hidden/config.pbtxt",
            "lost+found/1/model.onnx",
            "file",
        ] {
            write(root.path(), path);
        }
        let labelled = "parameters { key: \"MD5:1/model.onnx\" value: \"0\" } output [ { name: \"y\" label_filename: \"labels/y.csv\" }, { label_filename: \"../file\" } ]";
        std::fs::write(root.path().join("m/configs/h100.pbtxt"), labelled).expect("written");
        let found = scan_repository(root.path()).expect("listed");
        assert_eq!(found.models.keys().map(ModelName::as_str).collect::<Vec<_>>(), ["m"]);
        let units: Vec<(String, Vec<String>)> = found.models["m"]
            .units
            .iter()
            .map(|(unit, files)| (unit.to_string(), files.keys().map(|p| p.display().to_string()).collect()))
            .collect();
        let expected = [
            ("config.pbtxt", vec!["config.pbtxt", "configs/h100.pbtxt", "labels/y.csv"]),
            ("plugin", vec!["plugin.wasm", "samples/a/request.json"]),
            ("version 1", vec!["1/model.onnx"]),
            ("version 2", vec!["2/plugin.wasm"]),
        ];
        let expected: Vec<(String, Vec<String>)> = expected
            .into_iter()
            .map(|(unit, files)| (unit.to_owned(), files.into_iter().map(str::to_owned).collect()))
            .collect();
        assert_eq!(units, expected);
    }

    #[test]
    fn a_model_that_cannot_be_looked_at_is_told_from_one_that_is_gone() {
        let root = tempfile::tempdir().expect("temporary folder");
        write(root.path(), "deep/assets/1/2/3/4/5/6/7/8/x");
        write(root.path(), "fine/1/model.onnx");
        std::os::unix::fs::symlink("loop", root.path().join("loop")).expect("linked");
        std::os::unix::fs::symlink("nowhere", root.path().join("gone")).expect("linked");
        let found = scan_repository(root.path()).expect("listed");
        let names = |names: Vec<&ModelName>| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(found.models.keys().collect()), ["fine"]);
        assert_eq!(names(found.unreadable.keys().collect()), ["deep", "loop"]);
    }

    #[test]
    fn a_root_that_cannot_be_listed_says_nothing_about_its_models() {
        assert!(scan_repository(Path::new("/nonexistent/repository")).is_err());
    }

    #[test]
    fn a_replaced_file_is_another_file_even_with_the_same_size() {
        let root = tempfile::tempdir().expect("temporary folder");
        write(root.path(), "a");
        write(root.path(), "b");
        let before = Stat::of(&root.path().join("a")).expect("there");
        std::fs::rename(root.path().join("b"), root.path().join("a")).expect("renamed");
        assert_ne!(Stat::of(&root.path().join("a")).expect("there"), before);
    }
}
