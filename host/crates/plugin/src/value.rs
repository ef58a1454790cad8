//! What goes into a plugin and what comes out, in the host's own types: no caller needs to know the generated bindings.
//! Everything that came from a guest was checked before it became one of these.

use std::sync::Arc;

use bytes::Bytes;
use model::{Signature, Tensor, VersionNumber};

/// What a plugin is told of a request beside its body. One value serves both stages of a request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The client's request id or one the host made; it is on every log line.
    pub request_id: String,
    /// The trace that the request belongs to, likewise; never told to the guest.
    pub trace_id: Option<String>,
    /// The model version that serves this request.
    pub version: VersionNumber,
    /// The request's content type.
    pub content_type: Option<String>,
    /// What the client accepts.
    pub accept: Option<String>,
    /// The headers granted to this plugin, names in lower case.
    pub headers: Vec<Header>,
    /// The signature of the version that serves this request; answers `model-info`.
    pub signature: Arc<Signature>,
    /// Whether a client asked. What a sample does shows in no metric.
    pub is_counted: bool,
}

/// One header of a request or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name, in lower case.
    pub name: String,
    /// The value.
    pub value: String,
}

/// What `preprocess` decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Prepared {
    /// Run the model, then `postprocess`.
    Infer(Inference),
    /// Answer at once.
    Respond(Response),
}

/// What to ask of the model. The tensors are whole (their bytes fit type and shape); whether they fit the model is the
/// caller's check.
#[derive(Clone, Debug, PartialEq)]
pub struct Inference {
    /// The model's inputs, in any order.
    pub inputs: Vec<Tensor>,
    /// Outputs that `postprocess` wants; empty for all.
    pub outputs: Vec<String>,
    /// Request parameters.
    pub parameters: Vec<Parameter>,
    /// Handed to `postprocess` as it is.
    pub carry: Bytes,
}

/// A request parameter of the v2 protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The key.
    pub name: String,
    /// The value.
    pub value: ParameterValue,
}

/// The value of a request parameter.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the contract's")]
pub enum ParameterValue {
    Boolean(bool),
    Signed(i64),
    Unsigned(u64),
    Real(f64),
    Text(String),
}

/// A plugin's answer, ready for a transport: the status is 200 to 599, every header is valid and none is hop-by-hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status, 200 to 599.
    pub status: u16,
    /// The content type; empty only where the body is.
    pub content_type: String,
    /// Further headers, names in lower case.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Bytes,
}

/// One wrong field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// A JSON Pointer (RFC 6901); empty for the whole body.
    pub pointer: String,
    /// Stable and for programs.
    pub code: String,
    /// For people.
    pub message: String,
}
