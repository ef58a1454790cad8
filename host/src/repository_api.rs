//! The model repository extension without its envelopes: index, load and unload as every surface offers them. Texts are
//! Triton's where it has one.

use std::path::PathBuf;
use std::sync::Arc;

use model::{ErrorCode, ModelName};

use crate::failure::RequestFailure;
use crate::registry::ModelMap;
use crate::repository::control::{ControlError, ModelControlQueue};
use crate::repository::index::{IndexEntry, IndexState, index, names_on_disk};
use crate::repository::overrides::{Overrides, OverridesError, OverridesFolder};

/// The repositories, and who loads from them.
#[derive(Clone)]
pub struct RepositoryApi {
    /// Model repositories.
    pub roots: Vec<PathBuf>,
    /// Where load and unload requests go; `None` where there are none.
    pub requests: Option<ModelControlQueue>,
    /// Where files go that come with them.
    pub overrides: OverridesFolder,
}

/// What a load request puts in place of a model's files.
#[derive(Debug, Default)]
pub struct LoadParameters {
    /// The configuration as JSON.
    pub config: Option<String>,
    /// Paths and contents.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Which lines of the index are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexScope {
    /// All of them.
    All,
    /// Those of versions that serve.
    Ready,
}

impl RepositoryApi {
    /// The index of everything in `map` and in the repositories.
    pub async fn index(&self, map: &ModelMap, scope: IndexScope) -> Vec<IndexEntry> {
        let roots = self.roots.clone();
        // A listing that panics lists nothing; what is known is told all the same.
        let on_disk = tokio::task::spawn_blocking(move || names_on_disk(&roots)).await.unwrap_or_default();
        let mut entries = index(map, &on_disk);
        entries.retain(|entry| scope == IndexScope::All || entry.state == Some(IndexState::Ready));
        entries
    }

    /// Loads a model, or loads it again. Returns once it serves, or once it is known why not.
    ///
    /// # Errors
    /// A [`RequestFailure`] with Triton's text.
    pub async fn load(&self, model: &str, parameters: LoadParameters) -> Result<(), RequestFailure> {
        let (queue, name) = self.target(model)?;
        let LoadParameters { config, files } = parameters;
        let overrides = match config {
            None if files.is_empty() => None,
            None => {
                let text = "Load parameter 'config' must be specified for model file override";
                return Err(RequestFailure::new(ErrorCode::MalformedRequest, text));
            }
            Some(config) => Some(self.overrides(&name, config, files).await?),
        };
        queue.load(name, overrides).await.map_err(RequestFailure::from)
    }

    /// Serves a model no longer.
    ///
    /// # Errors
    /// A [`RequestFailure`] with Triton's text.
    pub async fn unload(&self, model: &str) -> Result<(), RequestFailure> {
        let (queue, name) = self.target(model)?;
        queue.unload(name).await.map_err(RequestFailure::from)
    }

    /// The server is about to stop: load requests that wait are answered.
    pub fn close(&self) {
        self.requests.iter().for_each(ModelControlQueue::close);
    }

    /// Whether load and unload requests about `model` are taken.
    ///
    /// # Errors
    /// As [`load`](Self::load) before it looks at anything else.
    pub fn check_target(&self, model: &str) -> Result<(), RequestFailure> {
        self.target(model).map(drop)
    }

    async fn overrides(
        &self,
        name: &ModelName,
        config: String,
        files: Vec<(String, Vec<u8>)>,
    ) -> Result<Overrides, RequestFailure> {
        let (folders, name) = (self.overrides.clone(), name.clone());
        let write = move || (!files.is_empty()).then(|| folders.write(&name, &files)).transpose();
        let written = tokio::task::spawn_blocking(write).await;
        let folder = written.map_err(|error| RequestFailure::new(ErrorCode::Internal, error.to_string()))??;
        Ok(Overrides { config: Arc::from(config), folder })
    }

    /// Where a request goes and whom it is about.
    fn target(&self, model: &str) -> Result<(&ModelControlQueue, ModelName), RequestFailure> {
        let Some(queue) = &self.requests else {
            let text = "explicit model load / unload is not allowed if polling is enabled";
            return Err(RequestFailure::new(ErrorCode::ModelControlDisabled, text));
        };
        let malformed = |text: String| RequestFailure::new(ErrorCode::MalformedRequest, text);
        if model.is_empty() {
            let text = "Model name cannot be empty. Please enter a valid name to deploy.";
            return Err(malformed(text.to_owned()));
        }
        if model.contains('/') || model.contains("..") {
            return Err(malformed(format!(
                "invalid model name '{model}', model name must not contain path traversal characters"
            )));
        }
        let name = ModelName::new(model).map_err(|error| malformed(error.to_string()))?;
        Ok((queue, name))
    }
}

impl From<ControlError> for RequestFailure {
    fn from(error: ControlError) -> Self {
        let code = match error {
            ControlError::NotFound { .. } => ErrorCode::RepositoryFailed,
            ControlError::Refused { .. } => ErrorCode::LoadFailed,
            ControlError::Overtaken { .. } | ControlError::Busy => ErrorCode::Overloaded,
        };
        Self::new(code, error.to_string())
    }
}

impl From<OverridesError> for RequestFailure {
    fn from(error: OverridesError) -> Self {
        let code = match error {
            OverridesError::Outside { .. } | OverridesError::Unusable { .. } => ErrorCode::MalformedRequest,
            OverridesError::Write { .. } => ErrorCode::Internal,
        };
        Self::new(code, error.to_string())
    }
}
