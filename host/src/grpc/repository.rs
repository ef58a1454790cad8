//! The model repository extension over gRPC. Texts are Triton's.

use std::collections::HashMap;

use model::ErrorCode;

use super::proto::inference::model_repository_parameter::ParameterChoice;
use super::proto::inference::repository_index_response::ModelIndex;
use super::proto::inference::{
    ModelRepositoryParameter, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
    RepositoryModelUnloadRequest,
};
use crate::failure::RequestFailure;
use crate::repository::index::{IndexEntry, IndexState};
use crate::repository_api::{IndexScope, LoadParameters};
use crate::serving::ServingState;

pub(super) async fn index(
    state: &ServingState,
    request: &RepositoryIndexRequest,
) -> Result<RepositoryIndexResponse, RequestFailure> {
    check_unnamed(&request.repository_name)?;
    let scope = if request.ready { IndexScope::Ready } else { IndexScope::All };
    let entries = state.repository.index(&state.registry.snapshot(), scope).await;
    Ok(RepositoryIndexResponse { models: entries.into_iter().map(line).collect() })
}

fn line(entry: IndexEntry) -> ModelIndex {
    let IndexEntry { name, version, state, reason } = entry;
    let state = match state {
        Some(IndexState::Ready) => "READY",
        Some(IndexState::Unavailable) => "UNAVAILABLE",
        Some(IndexState::Loading) => "LOADING",
        None => "",
    };
    let (version, reason) = (version.unwrap_or_default(), reason.unwrap_or_default());
    ModelIndex { name, version, state: state.to_owned(), reason }
}

pub(super) async fn load(state: &ServingState, request: RepositoryModelLoadRequest) -> Result<(), RequestFailure> {
    check_unnamed(&request.repository_name)?;
    let parameters = load_parameters(request.parameters)?;
    state.repository.load(&request.model_name, parameters).await
}

pub(super) async fn unload(state: &ServingState, request: RepositoryModelUnloadRequest) -> Result<(), RequestFailure> {
    check_unnamed(&request.repository_name)?;
    let dependents = request.parameters.get("unload_dependents").map(|parameter| &parameter.parameter_choice);
    if dependents.is_some_and(|choice| !matches!(choice, Some(ParameterChoice::BoolParam(_)))) {
        return Err(malformed("invalid value type for 'unload_dependents' parameter, expected bool_param.".to_owned()));
    }
    state.repository.unload(&request.model_name).await
}

fn load_parameters(parameters: HashMap<String, ModelRepositoryParameter>) -> Result<LoadParameters, RequestFailure> {
    let mut read = LoadParameters::default();
    let mut sorted: Vec<_> = parameters.into_iter().collect();
    sorted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    for (name, parameter) in sorted {
        let wrong = |wanted| malformed(format!("invalid value type for load parameter '{name}', expected {wanted}."));
        match (name.strip_prefix("file:"), parameter.parameter_choice) {
            (None, Some(ParameterChoice::StringParam(config))) if name == "config" => read.config = Some(config),
            (None, _) if name == "config" => return Err(wrong("string_param")),
            (Some(path), Some(ParameterChoice::BytesParam(content))) => {
                read.files.push((path.to_owned(), content));
            }
            (Some(_), _) => return Err(wrong("bytes_param")),
            (None, _) => return Err(malformed(format!("unrecognized load parameter '{name}'."))),
        }
    }
    Ok(read)
}

/// A repository of a name of its own.
fn check_unnamed(repository: &str) -> Result<(), RequestFailure> {
    if repository.is_empty() {
        return Ok(());
    }
    Err(RequestFailure::new(ErrorCode::NotImplemented, "'repository_name' specification is not supported"))
}

fn malformed(text: String) -> RequestFailure {
    RequestFailure::new(ErrorCode::MalformedRequest, text)
}
