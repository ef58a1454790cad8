//! Answers: bodies, the headers every answer carries, and failures.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use model::ErrorCode;

use crate::failure::{RenderedFailure, RequestFailure};
use crate::observed;
use crate::registry::{PluginSlot, Release};

/// The model version that answered.
pub(super) static MODEL_VERSION: HeaderName = HeaderName::from_static("x-model-version");
/// The plugin generation that answered.
pub(super) static PLUGIN_GENERATION: HeaderName = HeaderName::from_static("x-plugin-generation");

/// 200 with a JSON body.
pub(super) fn json(body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A status without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A plugin's answer as it goes out. Status and headers were checked where they left the sandbox.
pub(super) fn from_plugin(answer: plugin::Response) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    for plugin::Header { name, value } in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    if let Ok(content_type) = HeaderValue::try_from(answer.content_type) {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    response
}

/// A failure with its status, its JSON body and, where known, when to try again.
pub(super) fn failure(failure: &RequestFailure) -> Response<Body> {
    rendered(failure, failure.render())
}

/// The same as TF Serving's clients know failures.
pub(super) fn tf_serving_failure(failure: &RequestFailure) -> Response<Body> {
    rendered(failure, failure.render_for_tf_serving())
}

fn rendered(failure: &RequestFailure, rendered: RenderedFailure) -> Response<Body> {
    observed::failed(failure.code);
    let mut response = Response::new(Body::from(rendered.body));
    *response.status_mut() = StatusCode::from_u16(rendered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(rendered.content_type));
    if let Some(delay) = failure.retry_after {
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    if failure.code == ErrorCode::ShuttingDown {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Tells the client that the connection ends with this answer: what it sent has not been read to its end.
pub(super) fn closing(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Says which version answered.
pub(super) fn with_version(mut response: Response<Body>, release: &Release) -> Response<Body> {
    if let Ok(value) = shared_text(&release.version.number_text) {
        response.headers_mut().insert(MODEL_VERSION.clone(), value);
    }
    response
}

/// Says which version and plugin generation answered.
pub(super) fn with_release(response: Response<Body>, release: &Release) -> Response<Body> {
    let mut response = with_version(response, release);
    if let PluginSlot::Serving(generation) = &release.plugin
        && let Ok(value) = shared_text(&generation.number_text)
    {
        response.headers_mut().insert(PLUGIN_GENERATION.clone(), value);
    }
    response
}

fn shared_text(text: &str) -> Result<HeaderValue, header::InvalidHeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::copy_from_slice(text.as_bytes()))
}
