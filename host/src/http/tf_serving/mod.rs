//! TF Serving's REST API on models without a plugin: predict in rows and columns, and for every model its status and its
//! metadata. Failures are `{"error"}` with TF Serving's text where it has one. Source: TensorFlow Serving, "RESTful API".

mod metadata;
mod predict;
mod status;

use axum::body::Body;
use axum::http::Response;
use model::ErrorCode;

use super::answer;
use crate::failure::RequestFailure;

pub(super) use metadata::{metadata, metadata_label, metadata_version};
pub(super) use predict::predict;
pub(super) use status::{nameless, status, status_label, status_version};

/// The verbs that take `tf.Example`.
pub(super) fn no_examples(verb: &str) -> Response<Body> {
    let text = format!(
        "':{verb}' takes tf.Example protos, and no model here has a signature for them; use ':predict' with 'instances' \
         or 'inputs'"
    );
    answer::tf_serving_failure(&RequestFailure::new(ErrorCode::NotSupported, text))
}
