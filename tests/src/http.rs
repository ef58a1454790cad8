//! A minimal HTTP client: one keep-alive connection, opened again when the server has closed it. It never sends a
//! request twice, so a request that fails is seen to fail.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// What the server answered, refusals included.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {self}"))
    }

    /// A header as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A header that is a number.
    ///
    /// # Errors
    /// When it is absent or no number.
    pub fn number(&self, name: &str) -> Result<u64> {
        let text = self.header(name).with_context(|| format!("no header {name}: {self}"))?;
        text.parse().with_context(|| format!("header {name} is {text:?}: {self}"))
    }

    /// The same answer, if it has this status.
    ///
    /// # Errors
    /// When it has another one.
    pub fn expect(self, status: u16) -> Result<Self> {
        ensure!(self.status == status, "expected status {status}, got {self}");
        Ok(self)
    }

    /// The same answer, if it is a failure with this status and stable code; the text is for the caller to check.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_failure(&self, status: u16, code: &str) -> Result<String> {
        ensure!(self.status == status, "expected {status} {code}, got {self}");
        let body = self.json()?;
        ensure!(body["code"] == code, "expected {status} {code}, got {self}");
        let text = body["error"].as_str().with_context(|| format!("no text in `error`: {self}"))?;
        Ok(text.to_owned())
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 600;
        let text = self.text();
        let shown = text.char_indices().nth(SHOWN).map_or(text.as_str(), |(end, _)| &text[..end]);
        write!(f, "{} {shown}", self.status)
    }
}

/// One connection to one address.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// A client that connects at its first request.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Result<Answer> {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.into()).await
    }

    /// `POST /v1/models/{model}:predict` with a JSON body.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn predict(&mut self, model: &str, body: impl Into<Bytes>) -> Result<Answer> {
        self.post(&format!("/v1/models/{model}:predict"), body).await
    }

    /// Sends a request and waits for the whole answer.
    ///
    /// # Errors
    /// When there is none: the connection cannot be made or breaks off, or a minute has passed.
    pub async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Answer> {
        let mut request = Request::builder().method(method.clone()).uri(path).header(HOST, self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).with_context(|| format!("{method} {path} is no request"))?;
        let answer = tokio::time::timeout(ANSWER_LIMIT, self.exchange(request)).await;
        let answer = answer.with_context(|| format!("no answer in {} s", ANSWER_LIMIT.as_secs())).flatten();
        if answer.is_err() {
            self.connection = None;
        }
        answer.with_context(|| format!("{method} http://{}{path}", self.address))
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer> {
        let response = self.open_connection().await?.send_request(request).await.context("sending the request")?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.context("reading the answer")?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    async fn open_connection(&mut self) -> Result<&mut SendRequest<Full<Bytes>>> {
        let mut usable = None;
        if let Some(mut connection) = self.connection.take()
            && connection.ready().await.is_ok()
        {
            usable = Some(connection);
        }
        let connection = match usable {
            Some(connection) => connection,
            None => connect(self.address).await?,
        };
        Ok(self.connection.insert(connection))
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("starting HTTP/1")?;
    // Ends with the connection, whose errors reach the sender.
    tokio::spawn(connection);
    Ok(sender)
}
