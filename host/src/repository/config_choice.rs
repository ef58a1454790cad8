//! Which file of a model's folder is its configuration: `config.pbtxt`, or `configs/<name>.pbtxt` of the models that
//! have one, where the server is told a name (`--model-config-name`).

use std::path::{Path, PathBuf};

/// The folder of named configurations.
pub(super) const NAMED_CONFIGS: &str = "configs";
/// The configuration without a name.
pub(super) const CONFIG_FILE: &str = "config.pbtxt";

/// The choice that holds for all models of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChoice {
    /// `<name>.pbtxt`; `None` for `config.pbtxt` everywhere.
    file_name: Option<String>,
}

/// A name that is no file's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model config name '{0}' is not the name of a file in configs/; leave out slashes and the ending .pbtxt")]
pub struct ConfigNameError(String);

impl ConfigChoice {
    /// `configs/<name>.pbtxt` where a model has it, else `config.pbtxt`.
    ///
    /// # Errors
    /// A [`ConfigNameError`] for a name that leads elsewhere.
    pub fn named(name: &str) -> Result<Self, ConfigNameError> {
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        let is_plain = is_plain && !name.ends_with(".pbtxt");
        if is_plain {
            Ok(Self { file_name: Some(format!("{name}.pbtxt")) })
        } else {
            Err(ConfigNameError(name.to_owned()))
        }
    }

    /// The configuration of the model in `dir`. A link to nothing counts: it cannot be read, but it is there.
    #[must_use]
    pub fn file(&self, dir: &Path) -> PathBuf {
        let named = self.file_name.as_ref().map(|name| dir.join(NAMED_CONFIGS).join(name));
        named.filter(|file| file.symlink_metadata().is_ok()).unwrap_or_else(|| dir.join(CONFIG_FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_file_is_taken_where_there_is_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        std::fs::create_dir(dir.join("configs")).expect("created");
        std::fs::write(dir.join("configs/h100.pbtxt"), "").expect("written");
        let file = |choice: &ConfigChoice| choice.file(dir);
        assert_eq!(file(&ConfigChoice::default()), dir.join("config.pbtxt"));
        assert_eq!(file(&ConfigChoice::named("h100").expect("a name")), dir.join("configs/h100.pbtxt"));
        assert_eq!(file(&ConfigChoice::named("a10").expect("a name")), dir.join("config.pbtxt"));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["", "..", "a/b", "a\\b", ".hidden", "h100.pbtxt"] {
            let error = ConfigChoice::named(name).expect_err(name).to_string();
            assert!(error.starts_with(&format!("model config name '{name}' is not")), "{error}");
        }
    }
}
