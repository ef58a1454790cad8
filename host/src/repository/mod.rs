//! The model repositories: what the files say, when they have come to rest, what is built of them and how it comes to
//! serve. The files are the desired state; [`reconciler`] is the one owner of what has been made of them.

pub mod assemble;
pub mod checksum;
pub mod config_choice;
pub mod config_correction;
pub mod config_json;
mod config_mistakes;
pub mod config_rules;
pub mod config_text;
pub mod content;
pub mod control;
pub mod declared_config;
pub mod headroom;
pub mod history;
mod history_writer;
pub mod index;
mod job_queue;
mod manifest;
mod model_state;
mod native_code;
pub mod overrides;
pub mod plugin_toml;
pub mod private_copy;
pub mod problem;
pub mod reconciler;
mod regular;
pub mod samples;
pub mod scan;
pub mod settle;
mod toml_reader;
pub mod verify;
pub mod watcher;
pub mod workshop;
