//! Files that are shipped inside Python wheels: fetched by pip with a pinned version and hash, taken out with Python's
//! zip reader and checked again. A file is in its place whole or not at all, and one that is right is left alone.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::layout::Layout;
use crate::process;

/// Writes the member argv[2] of the archive argv[1] to the file argv[3].
const UNPACK: &str = "import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive, archive.open(sys.argv[2]) as member, open(sys.argv[3], 'wb') as file:
    shutil.copyfileobj(member, file)";

/// A wheel, pinned.
pub(crate) struct Wheel {
    /// `name==version`.
    pub(crate) requirement: String,
    /// The platform tags to ask for, and the Python version where the wheel depends on it.
    pub(crate) tags: &'static [&'static str],
    /// SHA-256 of the wheel, in hex.
    pub(crate) sha256: &'static str,
}

/// A file inside a wheel and where it goes.
pub(crate) struct Member {
    /// Its path in the wheel.
    pub(crate) path: String,
    /// Where it goes.
    pub(crate) destination: PathBuf,
    /// SHA-256 of the file, in hex; a file whose wheel is pinned may do without, and is then only looked for.
    pub(crate) sha256: Option<&'static str>,
}

impl Member {
    fn is_in_place(&self) -> Result<bool> {
        let Some(expected) = self.sha256 else { return Ok(self.destination.is_file()) };
        Ok(self.destination.is_file() && sha256_of(&self.destination)? == expected)
    }
}

/// Puts every member in its place, fetching the wheel only where one is missing or wrong.
pub(crate) fn install(layout: &Layout, wheel: &Wheel, members: &[Member]) -> Result<()> {
    let missing = members.iter().map(Member::is_in_place).collect::<Result<Vec<_>>>()?.contains(&false);
    if !missing {
        return Ok(());
    }
    let scratch = layout.fetched(&format!("wheels-{}", std::process::id()));
    fs::create_dir_all(&scratch).with_context(|| format!("create {}", scratch.display()))?;
    let outcome = download(layout, wheel, &scratch)
        .and_then(|archive| members.iter().try_for_each(|member| unpack(layout, &archive, member)));
    fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    outcome
}

/// SHA-256 of a file, in hex.
pub(crate) fn sha256_of(path: &Path) -> Result<String> {
    let mut file = fs::File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut file, &mut hasher).with_context(|| format!("read {}", path.display()))?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn download(layout: &Layout, wheel: &Wheel, scratch: &Path) -> Result<PathBuf> {
    eprintln!("fetching {}", wheel.requirement);
    let requirements = scratch.join("requirements.txt");
    fs::write(&requirements, format!("{} --hash=sha256:{}\n", wheel.requirement, wheel.sha256))?;
    let mut pip = Command::new(layout.python());
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary", ":all:", "--require-hashes"])
        .args(wheel.tags)
        .arg("--dest")
        .arg(scratch)
        .arg("--requirement")
        .arg(&requirements);
    process::capture(&mut pip).with_context(|| format!("fetch {}", wheel.requirement))?;
    let mut archives = Vec::new();
    for entry in fs::read_dir(scratch)? {
        archives.push(entry?.path());
    }
    archives.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    match <[PathBuf; 1]>::try_from(archives) {
        Ok([archive]) => Ok(archive),
        Err(archives) => bail!("pip left {} wheels for {}, 1 expected", archives.len(), wheel.requirement),
    }
}

fn unpack(layout: &Layout, archive: &Path, member: &Member) -> Result<()> {
    let folder = member.destination.parent().context("a destination in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let temporary = beside(&member.destination);
    let mut python = Command::new(layout.python());
    python.args(["-c", UNPACK]).arg(archive).arg(&member.path).arg(&temporary);
    let outcome = process::capture(&mut python).map(drop).and_then(|()| publish(&temporary, member));
    if outcome.is_err() {
        // Nothing to add where it cannot be removed: the outcome already says what failed.
        let _ = fs::remove_file(&temporary);
    }
    outcome.with_context(|| format!("take {} out of {}", member.path, archive.display()))
}

fn publish(temporary: &Path, member: &Member) -> Result<()> {
    if let Some(expected) = member.sha256 {
        let found = sha256_of(temporary)?;
        ensure!(found == expected, "its sha256 is {found}, {expected} expected");
    }
    fs::File::open(temporary)?.sync_all()?;
    fs::rename(temporary, &member.destination)?;
    eprintln!("installed {}", member.destination.display());
    Ok(())
}

fn beside(destination: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(destination.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    destination.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_lies_hidden_in_the_folder_of_its_destination() {
        let temporary = beside(Path::new("models/1/model.onnx"));
        assert_eq!(temporary.parent(), Some(Path::new("models/1")));
        let name = temporary.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(name.starts_with(".model.onnx."), "{name}");
    }

    #[test]
    fn a_file_with_other_content_is_refused_and_the_one_in_place_stays() {
        let folder = std::env::temp_dir().join(format!("xtask-wheels-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let destination = folder.join("model.onnx");
        let temporary = beside(&destination);
        fs::write(&destination, b"old").expect("write");
        fs::write(&temporary, b"abc").expect("write");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let member = |sha256| Member { path: "m".into(), destination: destination.clone(), sha256: Some(sha256) };

        let refusal = publish(&temporary, &member("00")).expect_err("another hash");
        assert_eq!(refusal.to_string(), format!("its sha256 is {abc}, 00 expected"));
        assert_eq!(fs::read(&destination).expect("read"), b"old");
        assert!(!member(abc).is_in_place().expect("readable"));

        publish(&temporary, &member(abc)).expect("the right hash");
        assert!(member(abc).is_in_place().expect("readable"));
        assert!(!temporary.exists());
        fs::remove_dir_all(&folder).expect("remove");
    }
}
