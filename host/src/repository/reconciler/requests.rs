//! Load and unload requests.

use std::path::PathBuf;

use model::ModelName;

use super::Loop;
use crate::repository::control::{Answer, ControlError, ControlRequest};
use crate::repository::overrides::Overrides;

impl Loop {
    pub(super) fn take_requests(&mut self) {
        for request in self.parts.requests.take() {
            match request {
                ControlRequest::Load { name, overrides, answer } => self.load(&name, overrides, answer),
                ControlRequest::Unload { name, answer } => {
                    self.unload(&name);
                    // Whoever does not wait any more needs no answer.
                    let _ = answer.send(Ok(()));
                }
            }
        }
    }

    /// Has a model read again, whatever has changed, and answers when it is known what came of it.
    fn load(&mut self, name: &ModelName, overrides: Option<Overrides>, answer: Answer) {
        let dir = match self.folder_to_load(name, overrides.as_ref()) {
            Ok(dir) => dir,
            Err(reason) => {
                let _ = answer.send(Err(ControlError::NotFound { name: name.clone(), reason }));
                return;
            }
        };
        self.wanted.insert(name.clone());
        self.state_of(name, &dir).order(dir, overrides, answer);
        self.scan_one(name, self.now());
    }

    fn folder_to_load(&self, name: &ModelName, overrides: Option<&Overrides>) -> Result<PathBuf, String> {
        if let Some(dir) = overrides.and_then(Overrides::dir) {
            return Ok(dir.to_path_buf());
        }
        let folders = self.folders_of(name);
        match &folders[..] {
            [] => Err(self.nowhere(name)),
            [dir] => Ok(dir.clone()),
            _ => Err("model appears in two or more repositories; remove all but one".to_owned()),
        }
    }

    /// Takes a model out of service. What is being loaded for it is thrown away when it comes.
    fn unload(&mut self, name: &ModelName) {
        self.wanted.remove(name);
        self.waiting.remove(name);
        if let Some(mut state) = self.models.remove(name) {
            state.answer(&Err(ControlError::Overtaken { name: name.clone() }));
        }
        if let Some(old) = self.parts.registry.unload(name) {
            tracing::info!(model = %name, "model unloaded on request");
            self.retire(&old, None);
        }
    }
}
