//! The plugin's own settings (`[config]` of plugin.toml) and files (`assets/`).

use serde::de::DeserializeOwned;

use crate::{PluginError, host};

/// A setting: text as it is, anything else as JSON text. None where there is no such key.
#[must_use]
pub fn get(key: &str) -> Option<String> {
    host::config::get(key)
}

/// A setting that must be there.
///
/// # Errors
/// `internal`, with the key, where it is not.
pub fn required(key: &str) -> Result<String, PluginError> {
    get(key).ok_or_else(|| PluginError::internal(format!("plugin.toml has no `{key}` under [config]")))
}

/// A setting that is not text: a number, a boolean, a list or a table. None where there is no such key.
///
/// # Errors
/// `internal`, with the key and the value, where it is of another type.
pub fn value<T: DeserializeOwned>(key: &str) -> Result<Option<T>, PluginError> {
    let Some(text) = get(key) else { return Ok(None) };
    let value = serde_json::from_str(&text).map_err(|error| {
        PluginError::internal(format!("`{key}` under [config] in plugin.toml is `{text}`: {error}"))
    })?;
    Ok(Some(value))
}

/// A file of `assets/`. Each call copies the file: keep what you made of it in a [`crate::PerInstance`].
///
/// # Errors
/// `internal`, with the path, where there is no such file.
pub fn asset(path: &str) -> Result<Vec<u8>, PluginError> {
    host::config::asset(path).ok_or_else(|| PluginError::internal(format!("assets/{path} does not exist")))
}

/// A JSON file of `assets/`.
///
/// # Errors
/// `internal`, with the path, where there is no such file or where it says something else.
pub fn asset_json<T: DeserializeOwned>(path: &str) -> Result<T, PluginError> {
    serde_json::from_slice(&asset(path)?)
        .map_err(|error| PluginError::internal(format!("assets/{path} cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn internal<T: std::fmt::Debug>(result: Result<T, PluginError>) -> String {
        match result {
            Err(PluginError::Internal(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn settings_are_read_as_their_type() {
        testing::set_config("tag", "blue");
        testing::set_config("scale", "2.5");
        assert_eq!(required("tag").unwrap(), "blue");
        assert_eq!(value::<f32>("scale"), Ok(Some(2.5)));
        assert_eq!(value::<f32>("offset"), Ok(None));
        assert_eq!(internal(required("offset")), "plugin.toml has no `offset` under [config]");
        assert!(internal(value::<bool>("scale")).starts_with("`scale` under [config] in plugin.toml is `2.5`: "));
    }

    #[test]
    fn assets_are_read_by_path() {
        testing::set_asset("tables/a.json", "[1]");
        testing::set_asset("tables/b.json", "[");
        assert_eq!(asset_json::<Vec<u8>>("tables/a.json"), Ok(vec![1]));
        assert!(internal(asset_json::<Vec<u8>>("tables/b.json")).starts_with("assets/tables/b.json cannot be read: "));
        assert_eq!(internal(asset("c")), "assets/c does not exist");
    }
}
