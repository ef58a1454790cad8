//! Load and unload requests.

use std::path::PathBuf;

use model::ModelName;

use super::Loop;
use super::discover::DUPLICATE;
use crate::repository::control::{Answer, ControlError, ControlRequest, REQUESTS_WAITING_MAX};
use crate::repository::model_state::Order;
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
        self.take_queued();
    }

    /// Takes load requests in hand that waited for others of the same model.
    fn take_queued(&mut self) {
        let now = self.now();
        for name in std::mem::take(&mut self.queued) {
            let Some(state) = self.models.get_mut(&name) else { continue };
            if state.is_free() {
                state.next_order(now);
                self.scan_one(&name, now);
            }
            if self.models.get(&name).is_some_and(|state| !state.later.is_empty()) {
                self.queued.insert(name);
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
        let now = self.now();
        let state = self.state_of(name, &dir);
        if state.later.len() >= REQUESTS_WAITING_MAX {
            let _ = answer.send(Err(ControlError::Busy));
            return;
        }
        state.order(Order { dir, overrides, answer }, now);
        if state.later.is_empty() {
            self.scan_one(name, now);
        } else {
            self.queued.insert(name.clone());
        }
    }

    fn folder_to_load(&self, name: &ModelName, overrides: Option<&Overrides>) -> Result<PathBuf, String> {
        if let Some(dir) = overrides.and_then(Overrides::dir) {
            return Ok(dir.to_path_buf());
        }
        let folders = self.folders_of(name);
        match &folders[..] {
            [] => Err(self.nowhere(name)),
            [dir] => Ok(dir.clone()),
            _ => Err(DUPLICATE.to_owned()),
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
