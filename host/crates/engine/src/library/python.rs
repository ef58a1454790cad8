//! Where an installed `onnxruntime` Python package may be: it holds the same library. Folders are read; Python itself is
//! asked last, because starting it takes long and the folders nearly always answer.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The package's folder that holds the library, below a folder of packages.
const LIBRARY_FOLDER: &str = "onnxruntime/capi";

/// How long Python may take to say where its packages are.
const PYTHON_TIMEOUT: Duration = Duration::from_secs(5);

/// Where Python packages may be.
#[derive(Debug, Default)]
pub(super) struct PythonPlaces {
    /// Installations and environments: packages are below `lib/python3*`.
    pub(super) prefixes: Vec<PathBuf>,
    /// Folders of packages, as `PYTHONPATH` lists them.
    pub(super) folders: Vec<PathBuf>,
    /// The interpreter to ask when nothing is found.
    pub(super) interpreter: Option<PathBuf>,
}

impl PythonPlaces {
    pub(super) fn of_this_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let interpreter = variable("PATH").and_then(|path| {
            std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|program| program.is_file())
        });
        let mut prefixes: Vec<PathBuf> =
            ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable).map(PathBuf::from).collect();
        // An environment's python3 is a link, so that its own prefix and the one it leads to both count.
        let real = interpreter.as_ref().and_then(|program| program.canonicalize().ok());
        for program in interpreter.iter().chain(&real) {
            prefixes.extend(program.parent().and_then(Path::parent).map(Path::to_path_buf));
        }
        prefixes.extend(variable("HOME").map(|home| PathBuf::from(home).join(".local")));
        prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
        let mut seen = Vec::new();
        prefixes.retain(|prefix| {
            !seen.contains(prefix) && {
                seen.push(prefix.clone());
                true
            }
        });
        let folders = variable("PYTHONPATH").map(|path| std::env::split_paths(&path).collect());
        Self { prefixes, folders: folders.unwrap_or_default(), interpreter }
    }

    /// The first library that `library_in` sees in a package; every place is noted in `looked_at`.
    pub(super) fn find(
        &self,
        library_in: impl Fn(&Path) -> Option<PathBuf>,
        looked_at: &mut Vec<String>,
    ) -> Option<PathBuf> {
        let library_of = |folder: &PathBuf| library_in(&folder.join(LIBRARY_FOLDER));
        let mut note = |folder: &Path| looked_at.push(folder.join(LIBRARY_FOLDER).display().to_string());
        for folder in &self.folders {
            note(folder);
        }
        for prefix in &self.prefixes {
            note(&prefix.join("lib/python3*/{site,dist}-packages"));
        }
        let below_prefixes = self.prefixes.iter().flat_map(|prefix| package_folders(prefix));
        if let Some(found) = self.folders.iter().cloned().chain(below_prefixes).find_map(|folder| library_of(&folder)) {
            return Some(found);
        }
        let interpreter = self.interpreter.as_ref()?;
        let folders = ask(interpreter);
        looked_at.push(format!("the packages of {} ({} folders)", interpreter.display(), folders.len()));
        folders.iter().find_map(library_of)
    }
}

/// `lib/python3*/{site,dist}-packages` below a prefix, newest Python first.
fn package_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut pythons: Vec<(Vec<u32>, PathBuf)> = ["lib", "lib64"]
        .iter()
        .filter_map(|lib| std::fs::read_dir(prefix.join(lib)).ok())
        .flat_map(|entries| entries.filter_map(Result::ok))
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix("python")?;
            let numbers: Vec<u32> = version.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
            (numbers.first() == Some(&3)).then(|| (numbers, entry.path()))
        })
        .collect();
    pythons.sort_by(|a, b| b.cmp(a));
    let both = |folder: PathBuf| [folder.join("site-packages"), folder.join("dist-packages")];
    pythons.into_iter().flat_map(|(_, folder)| both(folder)).collect()
}

/// The folders an interpreter takes packages from; none when it fails or takes too long. It runs isolated, so that
/// neither the working folder nor the environment decides what it runs.
fn ask(interpreter: &Path) -> Vec<PathBuf> {
    let child = Command::new(interpreter)
        .args(["-I", "-c", "import sys; print('\\n'.join(sys.path))"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return Vec::new() };
    let Some(mut output) = child.stdout.take() else { return Vec::new() };
    let (sender, receiver) = mpsc::channel();
    // Ends when the child closes its output, at the latest when it is killed below.
    let reader = std::thread::Builder::new().name("python-packages".to_owned()).spawn(move || {
        let mut text = String::new();
        let read = std::io::Read::read_to_string(&mut output, &mut text);
        let _ = sender.send(read.map(|_| text));
    });
    let answer = reader.ok().and_then(|_| receiver.recv_timeout(PYTHON_TIMEOUT).ok());
    let _ = child.kill();
    let _ = child.wait();
    let text = answer.and_then(Result::ok).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn library_in(folder: &Path) -> Option<PathBuf> {
        Some(folder.join("libonnxruntime.so")).filter(|path| path.is_file())
    }

    fn install(packages: &Path) -> PathBuf {
        let folder = packages.join(LIBRARY_FOLDER);
        fs::create_dir_all(&folder).expect("folder");
        fs::write(folder.join("libonnxruntime.so"), b"").expect("file");
        folder.join("libonnxruntime.so")
    }

    #[test]
    fn the_newest_python_of_a_prefix_is_taken() {
        let prefix = tempfile::tempdir().expect("folder");
        install(&prefix.path().join("lib/python2.7/site-packages"));
        install(&prefix.path().join("lib/python3.9/site-packages"));
        let newest = install(&prefix.path().join("lib/python3.11/dist-packages"));
        let places = PythonPlaces { prefixes: vec![prefix.path().to_path_buf()], ..PythonPlaces::default() };
        assert_eq!(places.find(library_in, &mut Vec::new()), Some(newest));
    }

    #[test]
    fn listed_folders_come_before_prefixes() {
        let folder = tempfile::tempdir().expect("folder");
        install(&folder.path().join("prefix/lib/python3.12/site-packages"));
        let listed = install(&folder.path().join("listed"));
        let places = PythonPlaces {
            prefixes: vec![folder.path().join("prefix")],
            folders: vec![folder.path().join("listed")],
            interpreter: None,
        };
        assert_eq!(places.find(library_in, &mut Vec::new()), Some(listed));
    }

    #[test]
    fn the_interpreter_is_asked_last() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("folder");
        let packages = folder.path().join("packages");
        let path = install(&packages);
        let program = folder.path().join("python3");
        fs::write(&program, format!("#!/bin/sh\necho\necho {}\n", packages.display())).expect("script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");

        let places = PythonPlaces { interpreter: Some(program.clone()), ..PythonPlaces::default() };
        let mut looked_at = Vec::new();
        assert_eq!(places.find(library_in, &mut looked_at), Some(path));
        assert_eq!(looked_at, [format!("the packages of {} (1 folders)", program.display())]);

        assert_eq!(ask(&folder.path().join("absent")), Vec::<PathBuf>::new());
    }
}
