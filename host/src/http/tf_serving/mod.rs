//! TF Serving's REST API on models without a plugin: predict in rows and columns, and for every model its status and its
//! metadata. Failures are `{"error"}` with TF Serving's text where it has one. Source: TensorFlow Serving, "RESTful API".

mod metadata;
mod predict;
mod status;

use model::ErrorCode;

use crate::failure::RequestFailure;

pub(super) use metadata::{metadata, metadata_label, metadata_version};
pub(super) use predict::predict;
pub(super) use status::{nameless, status, status_label, status_version};

/// Why a verb is refused that takes `tf.Example`.
pub(super) fn no_examples(verb: &str) -> RequestFailure {
    let text = format!(
        "':{verb}' takes tf.Example protos, and no model here has a signature for them; use ':predict' with 'instances' \
         or 'inputs'"
    );
    RequestFailure::new(ErrorCode::NotSupported, text)
}
