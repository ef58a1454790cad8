//! Calls of Triton's gRPC service over hyper's HTTP/2 client. The few messages that the tests need are encoded here, by
//! hand: their fields are three strings and a shape.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// gRPC's code; 0 is success.
    pub code: u32,
    /// The text.
    pub message: String,
}

/// One connection; clones share it.
#[derive(Clone, Debug)]
pub struct GrpcClient {
    address: SocketAddr,
    connection: SendRequest<Full<Bytes>>,
}

impl GrpcClient {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = shaken.context("starting HTTP/2")?;
        // Ends with the connection, whose errors reach the sender.
        tokio::spawn(connection);
        Ok(Self { address, connection: sender })
    }

    /// Asks the plugin of `model` with this body.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn predict(&mut self, model: &str, body: &[u8]) -> Result<Status> {
        self.call("ModelInfer", &plugin_request(model, body)).await
    }

    /// Whether the server is live, which the answer to this rpc says by being there.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn server_live(&mut self) -> Result<Status> {
        self.call("ServerLive", &[]).await
    }

    async fn call(&mut self, rpc: &str, message: &[u8]) -> Result<Status> {
        let mut frame = vec![0];
        frame.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
        frame.extend_from_slice(message);
        let request = Request::post(format!("http://{}/inference.GRPCInferenceService/{rpc}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(frame)))?;
        let exchange = async {
            let response = self.connection.send_request(request).await.context("sending the request")?;
            let (head, body) = response.into_parts();
            let collected = body.collect().await.context("reading the answer")?;
            status_of(collected.trailers().unwrap_or(&head.headers))
        };
        let answer = tokio::time::timeout(ANSWER_LIMIT, exchange).await;
        answer.with_context(|| format!("no answer in {} s", ANSWER_LIMIT.as_secs())).flatten()
    }
}

fn status_of(headers: &HeaderMap) -> Result<Status> {
    let code = headers.get("grpc-status").context("an answer has a status")?.to_str()?.parse()?;
    let message = headers.get("grpc-message").map_or(Ok(""), |message| message.to_str())?;
    let message = percent_decoded(message)?;
    Ok(Status { code, message })
}

fn percent_decoded(text: &str) -> Result<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = after.get(..2).context("two digits follow a percent sign")?;
            decoded.push(u8::from_str_radix(std::str::from_utf8(digits)?, 16)?);
            rest = &after[2..];
        } else {
            decoded.push(byte);
            rest = after;
        }
    }
    Ok(String::from_utf8(decoded)?)
}

/// `ModelInferRequest` with the one BYTES input `body`.
fn plugin_request(model: &str, body: &[u8]) -> Vec<u8> {
    const MODEL_NAME: u8 = 1;
    const INPUTS: u8 = 5;
    const NAME: u8 = 1;
    const DATATYPE: u8 = 2;
    const SHAPE: u8 = 3;
    const CONTENTS: u8 = 5;
    const BYTES_CONTENTS: u8 = 8;
    let input = [
        field(NAME, b"body"),
        field(DATATYPE, b"BYTES"),
        field(SHAPE, &[1]),
        field(CONTENTS, &field(BYTES_CONTENTS, body)),
    ];
    [field(MODEL_NAME, model.as_bytes()), field(INPUTS, &input.concat())].concat()
}

/// A field of protobuf that has a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let mut encoded = vec![number << 3 | LENGTH_DELIMITED];
    let mut length = content.len();
    while length >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "seven bits")]
        encoded.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "seven bits")]
    encoded.push(length as u8);
    encoded.extend_from_slice(content);
    encoded
}

impl Status {
    /// Refuses any status but this.
    ///
    /// # Errors
    /// When it is another.
    pub fn expect(&self, code: u32, text: &str) -> Result<()> {
        ensure!(self.code == code && self.message.contains(text), "{self:?} is not {code} with {text:?}");
        Ok(())
    }
}
