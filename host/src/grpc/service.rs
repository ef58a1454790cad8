//! The rpcs of `inference.GRPCInferenceService`: each unwraps its message, calls what answers it, and wraps the answer.

use std::sync::Arc;

use model::ErrorCode;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::forward::Forwarding;
use super::front::{StreamDeadline, Ticket};
use super::infer::{Outcome, infer};
use super::proto::EncodedConfigResponse;
use super::proto::inference as wire;
use super::proto::inference::grpc_inference_service_server::GrpcInferenceService;
use super::statistics::statistics;
use super::stream::{Answers, StreamTerms, answers};
use super::{metadata, repository, settings, shared_memory};
use crate::failure::RequestFailure;
use crate::registry::{PluginSlot, Release};
use crate::serving::ServingState;
use crate::settings::HeaderPattern;
use crate::shared_memory::cuda;

/// The service.
pub(super) struct InferenceService {
    pub(super) state: Arc<ServingState>,
    pub(super) stream_requests_max: usize,
    pub(super) message_bytes_max: usize,
    pub(super) stop: CancellationToken,
    /// Which metadata become parameters of an inference request.
    pub(super) forwarded_headers: Option<HeaderPattern>,
}

/// What an rpc answers.
type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl GrpcInferenceService for InferenceService {
    type ModelStreamInferStream = Answers;

    async fn server_live(&self, _: Request<wire::ServerLiveRequest>) -> Answer<wire::ServerLiveResponse> {
        Ok(Response::new(wire::ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<wire::ServerReadyRequest>) -> Answer<wire::ServerReadyResponse> {
        Ok(Response::new(wire::ServerReadyResponse { ready: self.state.is_ready() }))
    }

    async fn model_ready(&self, request: Request<wire::ModelReadyRequest>) -> Answer<wire::ModelReadyResponse> {
        let ready = metadata::is_ready(&self.state, request.get_ref())?;
        Ok(Response::new(wire::ModelReadyResponse { ready }))
    }

    async fn server_metadata(&self, _: Request<wire::ServerMetadataRequest>) -> Answer<wire::ServerMetadataResponse> {
        Ok(Response::new(metadata::server(&self.state)))
    }

    async fn model_metadata(
        &self,
        request: Request<wire::ModelMetadataRequest>,
    ) -> Answer<wire::ModelMetadataResponse> {
        Ok(Response::new(metadata::model(&self.state, request.get_ref())?))
    }

    async fn model_config(&self, request: Request<wire::ModelConfigRequest>) -> Answer<EncodedConfigResponse> {
        Ok(Response::new(metadata::config(&self.state, request.get_ref())?))
    }

    async fn model_infer(&self, request: Request<wire::ModelInferRequest>) -> Answer<wire::ModelInferResponse> {
        let (metadata, extensions, message) = request.into_parts();
        let ticket = extensions.get::<Ticket>().ok_or_else(no_ticket)?;
        ticket.take_over();
        let Outcome { release, result } =
            infer(&self.state, self.forwarding(metadata).as_ref(), message, ticket.deadline).await;
        let named = |metadata: &mut MetadataMap| release.iter().for_each(|release| name_release(metadata, release));
        match result {
            Ok(message) => {
                let mut response = Response::new(message);
                named(response.metadata_mut());
                Ok(response)
            }
            Err(failure) => {
                let mut status = Status::from(failure);
                named(status.metadata_mut());
                Err(status)
            }
        }
    }

    async fn model_stream_infer(&self, request: Request<Streaming<wire::ModelInferRequest>>) -> Answer<Answers> {
        let (metadata, extensions, requests) = request.into_parts();
        let StreamDeadline(deadline) = *extensions.get().ok_or_else(no_ticket)?;
        let terms = StreamTerms {
            forwarding: self.forwarding(metadata.clone()),
            metadata,
            deadline,
            requests_max: self.stream_requests_max,
            message_bytes_max: self.message_bytes_max,
            stop: self.stop.clone(),
        };
        Ok(Response::new(answers(Arc::clone(&self.state), requests, terms)))
    }

    async fn repository_index(
        &self,
        request: Request<wire::RepositoryIndexRequest>,
    ) -> Answer<wire::RepositoryIndexResponse> {
        Ok(Response::new(repository::index(&self.state, request.get_ref()).await?))
    }

    async fn repository_model_load(
        &self,
        request: Request<wire::RepositoryModelLoadRequest>,
    ) -> Answer<wire::RepositoryModelLoadResponse> {
        repository::load(&self.state, request.into_inner()).await?;
        Ok(Response::new(wire::RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<wire::RepositoryModelUnloadRequest>,
    ) -> Answer<wire::RepositoryModelUnloadResponse> {
        repository::unload(&self.state, request.into_inner()).await?;
        Ok(Response::new(wire::RepositoryModelUnloadResponse {}))
    }

    async fn model_statistics(
        &self,
        request: Request<wire::ModelStatisticsRequest>,
    ) -> Answer<wire::ModelStatisticsResponse> {
        Ok(Response::new(statistics(&self.state, request.get_ref())?))
    }

    async fn system_shared_memory_status(
        &self,
        request: Request<wire::SystemSharedMemoryStatusRequest>,
    ) -> Answer<wire::SystemSharedMemoryStatusResponse> {
        let status = shared_memory::status(&self.state, request.into_inner()).map_err(RequestFailure::from)?;
        Ok(Response::new(status))
    }

    async fn system_shared_memory_register(
        &self,
        request: Request<wire::SystemSharedMemoryRegisterRequest>,
    ) -> Answer<wire::SystemSharedMemoryRegisterResponse> {
        shared_memory::register(&self.state, request.into_inner()).map_err(RequestFailure::from)?;
        Ok(Response::new(wire::SystemSharedMemoryRegisterResponse {}))
    }

    async fn system_shared_memory_unregister(
        &self,
        request: Request<wire::SystemSharedMemoryUnregisterRequest>,
    ) -> Answer<wire::SystemSharedMemoryUnregisterResponse> {
        shared_memory::unregister(&self.state, request.get_ref()).map_err(RequestFailure::from)?;
        Ok(Response::new(wire::SystemSharedMemoryUnregisterResponse {}))
    }

    async fn cuda_shared_memory_status(
        &self,
        request: Request<wire::CudaSharedMemoryStatusRequest>,
    ) -> Answer<wire::CudaSharedMemoryStatusResponse> {
        Ok(Response::new(shared_memory::cuda_status(&self.state, request.get_ref())?))
    }

    async fn cuda_shared_memory_register(
        &self,
        request: Request<wire::CudaSharedMemoryRegisterRequest>,
    ) -> Answer<wire::CudaSharedMemoryRegisterResponse> {
        Err(cuda::refuse(&self.state.shared_memory, &request.get_ref().name).into())
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _: Request<wire::CudaSharedMemoryUnregisterRequest>,
    ) -> Answer<wire::CudaSharedMemoryUnregisterResponse> {
        self.state.shared_memory.check_enabled().map_err(RequestFailure::from)?;
        Ok(Response::new(wire::CudaSharedMemoryUnregisterResponse {}))
    }

    async fn trace_setting(&self, request: Request<wire::TraceSettingRequest>) -> Answer<wire::TraceSettingResponse> {
        Ok(Response::new(settings::trace(&self.state, request.into_inner())?))
    }

    async fn log_settings(&self, request: Request<wire::LogSettingsRequest>) -> Answer<wire::LogSettingsResponse> {
        Ok(Response::new(settings::log(request.into_inner())?))
    }
}

impl InferenceService {
    fn forwarding(&self, metadata: MetadataMap) -> Option<Forwarding> {
        let pattern = self.forwarded_headers.clone()?;
        Some(Forwarding { pattern, headers: metadata.into_headers() })
    }
}

/// Says which version and plugin generation answered.
fn name_release(metadata: &mut MetadataMap, release: &Release) {
    let mut insert = |key: &'static str, number: &str| {
        if let Ok(value) = number.parse() {
            metadata.insert(key, value);
        }
    };
    insert("x-model-version", &release.version.number_text);
    if let PluginSlot::Serving(generation) = &release.plugin {
        insert("x-plugin-generation", &generation.number_text);
    }
}

/// The front gives each inference its ticket.
fn no_ticket() -> Status {
    RequestFailure::new(ErrorCode::Internal, "the request did not come through the front").into()
}
