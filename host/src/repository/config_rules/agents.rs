//! `model_repository_agents`: the `checksum` agent, which is built in. Other agents are native code and are never loaded.

use std::path::PathBuf;

use super::super::checksum::Checksum;
use super::block::Block;
use super::{Rules, stays_inside};

const AGENT: &str = "checksum";
/// What a parameter's key begins with; the file's path follows.
pub(in super::super) const MD5_PREFIX: &str = "MD5:";

/// The checksums of the folder's files. Those of the model itself are compared here, those of its versions when a version
/// is loaded.
pub(super) fn read(root: &Block<'_>, rules: &mut Rules<'_, '_>) -> Vec<Checksum> {
    let Some(agents) = root.block("model_repository_agents") else { return Vec::new() };
    let mut checksums = Vec::new();
    for agent in agents.blocks("agents") {
        if agent.text("name") != AGENT {
            let message = format!(
                "repository agent '{}' is native code and is never loaded, so nothing would do what it promises",
                agent.text("name")
            );
            rules.refuse(&agent, "name", message, "remove it; the agent that there is, is \"checksum\"".to_owned());
            continue;
        }
        for (key, value, at) in agent.text_entries("parameters") {
            let path = format!("{}[{key}]", agent.path("parameters"));
            let checked = checksum(key, value).and_then(|checksum| {
                let own = checksum.version().is_none();
                let verified = if own { checksum.verify(rules.dir) } else { Ok(()) };
                verified.map(|()| checksum).map_err(|error| (error.to_string(), None))
            });
            match checked {
                Ok(checksum) => checksums.push(checksum),
                Err((message, fix)) => rules.report.error(at, path, message, fix),
            }
        }
    }
    checksums
}

/// A parameter of the agent, or what is wrong with it and what to write.
fn checksum(key: &str, value: &str) -> Result<Checksum, (String, Option<String>)> {
    let Some(file) = key.strip_prefix(MD5_PREFIX) else {
        let fix = "write key: \"MD5:<path in the model's folder>\"".to_owned();
        return Err((format!("'{key}' is not a checksum that the checksum agent knows"), Some(fix)));
    };
    if !stays_inside(file) {
        return Err((format!("'{file}' leaves the model's folder"), Some("name a file inside it".to_owned())));
    }
    let md5 = value.trim().to_ascii_lowercase();
    if md5.len() != 32 || !md5.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let message = format!("'{value}' is not an MD5, which has 32 hexadecimal digits");
        return Err((message, Some(format!("write what md5sum prints for {file}"))));
    }
    Ok(Checksum { path: PathBuf::from(file), md5 })
}
