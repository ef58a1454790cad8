//! Counts what goes over the gRPC port: every call by its method and the code that it ends with, and the bytes of its
//! messages. A stream is one call. A client that leaves before the end counts as `CANCELLED`.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use prost_reflect::DescriptorPool;
use tonic::body::Body;
use tonic::{Code, Status};

use super::proto::DESCRIPTIONS;
use super::status::code_name;
use crate::counted_body::CountedBody;
use crate::metrics::{Endpoint, Traffic};

/// The rpcs of the reflection services, whose description is not among ours.
const REFLECTION: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// The method of a path that none has.
const UNKNOWN_METHOD: &str = "unknown";

/// The rpcs that are counted by name.
pub(super) struct Rpcs {
    traffic: Traffic,
    names: HashSet<String>,
}

impl Rpcs {
    /// Those that are served.
    pub(super) fn new(traffic: Traffic) -> Self {
        let mut pool = DescriptorPool::new();
        for set in DESCRIPTIONS {
            pool.decode_file_descriptor_set(set).expect("the descriptions were compiled by the build script");
        }
        let rpcs = pool.services().flat_map(|service| {
            let name = |method: prost_reflect::MethodDescriptor| format!("{}/{}", service.full_name(), method.name());
            service.methods().map(name).collect::<Vec<_>>()
        });
        Self { traffic, names: rpcs.chain(REFLECTION.map(str::to_owned)).collect() }
    }

    /// A call of this path begins.
    pub(super) fn begin(&self, path: &str) -> Call {
        let known = path.strip_prefix('/').filter(|name| self.names.contains(*name));
        Call { endpoint: self.traffic.endpoint(known.unwrap_or(UNKNOWN_METHOD)), code: None }
    }
}

/// A call until its end; dropped before, its client has left.
pub(super) struct Call {
    endpoint: Arc<Endpoint>,
    code: Option<Code>,
}

impl Call {
    /// Its messages, counted.
    pub(super) fn received<B>(&self, body: B) -> CountedBody<B> {
        CountedBody::new(body, self.endpoint.received.clone())
    }

    /// Its answer, counted. The code is in its head where there is nothing else, else behind its body.
    pub(super) fn answer(mut self, response: Response<Body>) -> Response<Body> {
        if let Some(status) = Status::from_header_map(response.headers()) {
            self.code = Some(status.code());
            return response;
        }
        response
            .map(|body| Body::new(AnswerBody { body: CountedBody::new(body, self.endpoint.sent.clone()), call: self }))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.endpoint.answered(code_name(self.code.unwrap_or(Code::Cancelled)));
    }
}

/// The body of an answer, which ends with its code.
struct AnswerBody {
    body: CountedBody<Body>,
    call: Call,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    this.call.code = Some(status.code());
                }
            }
            Some(Err(status)) => this.call.code = Some(status.code()),
            // It has ended without a code.
            None => drop(this.call.code.get_or_insert(Code::Unknown)),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
