//! What can be said of the gRPC port. Names are Triton's where the same thing is meant.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::bounds::Bounds;
use super::groups::header_pattern;
use super::restricted::RestrictedApis;
use super::triton::switch;
use super::{HeaderPattern, RequestLimits, ServeArgs};

/// Flags of the gRPC port.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GrpcArgs {
    /// Listen on the gRPC port [default: true]
    #[arg(long, env = "AIRLOCK_ALLOW_GRPC", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_grpc: Option<bool>,
    /// Address that the gRPC port listens on [default: that of --http-address]
    #[arg(long, env = "AIRLOCK_GRPC_ADDRESS", value_name = "IP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_address: Option<IpAddr>,
    /// Port of gRPC; 0 takes a free one [default: 8001]
    #[arg(long, env = "AIRLOCK_GRPC_PORT", value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_port: Option<u16>,
    /// Largest request message in bytes, compressed or not [default: 67108864]
    #[arg(long, env = "AIRLOCK_GRPC_MAX_MESSAGE_SIZE", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_max_message_size: Option<usize>,
    /// Most requests of one ModelStreamInfer stream that are worked on at once; more wait to be read [default: 64]
    #[arg(long, env = "AIRLOCK_GRPC_STREAM_REQUESTS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_stream_requests: Option<usize>,
    /// Milliseconds of silence after which a connection is asked whether it lives [default: 7200000]
    #[arg(long, env = "AIRLOCK_GRPC_KEEPALIVE_TIME", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_keepalive_time: Option<u64>,
    /// Milliseconds that it gets to answer [default: 20000]
    #[arg(long, env = "AIRLOCK_GRPC_KEEPALIVE_TIMEOUT", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_keepalive_timeout: Option<u64>,
    /// Milliseconds after which a connection's client is asked to open another [default: never]
    #[arg(long, env = "AIRLOCK_GRPC_MAX_CONNECTION_AGE", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_max_connection_age: Option<u64>,
    /// Milliseconds that the requests on it then get [default: until they end]
    #[arg(long, env = "AIRLOCK_GRPC_MAX_CONNECTION_AGE_GRACE", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_max_connection_age_grace: Option<u64>,
    /// Compress answers with gzip where the client takes it; low, medium and high are one level here [default: none]
    #[arg(long, env = "AIRLOCK_GRPC_INFER_RESPONSE_COMPRESSION_LEVEL", value_name = "LEVEL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_infer_response_compression_level: Option<CompressionLevel>,
    /// Serve gRPC over TLS only [default: false]
    #[arg(long, env = "AIRLOCK_GRPC_USE_SSL", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_use_ssl: Option<bool>,
    /// The same, and clients need a certificate of --grpc-root-cert [default: false]
    #[arg(long, env = "AIRLOCK_GRPC_USE_SSL_MUTUAL", value_name = "BOOL", value_parser = switch)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_use_ssl_mutual: Option<bool>,
    /// PEM file of the server's certificate and those between it and the root
    #[arg(long, env = "AIRLOCK_GRPC_SERVER_CERT", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_server_cert: Option<PathBuf>,
    /// PEM file of its private key
    #[arg(long, env = "AIRLOCK_GRPC_SERVER_KEY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_server_key: Option<PathBuf>,
    /// PEM file of the certificates that sign those of clients
    #[arg(long, env = "AIRLOCK_GRPC_ROOT_CERT", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_root_cert: Option<PathBuf>,
    /// gRPC requests of these kinds must bring the header triton-grpc-protocol-KEY with this value; kinds are those of
    /// --http-restricted-api; may be given several times
    #[arg(long, env = "AIRLOCK_GRPC_RESTRICTED_PROTOCOL", value_name = "API[,API]:KEY=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grpc_restricted_protocol: Vec<String>,
    /// Metadata whose names match this regular expression become parameters of their inference request, whatever their
    /// case; a part of a name is enough
    #[arg(long, env = "AIRLOCK_GRPC_HEADER_FORWARD_PATTERN", value_name = "REGEX")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_header_forward_pattern: Option<String>,
}

/// Triton's `--grpc-infer-response-compression-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CompressionLevel {
    /// Answers are not compressed.
    None,
    /// They are.
    Low,
    /// They are.
    Medium,
    /// They are.
    High,
}

/// Checked settings of the gRPC port.
#[derive(Clone, Debug)]
pub struct GrpcSettings {
    /// Where it listens; `None` where gRPC is not served.
    pub address: Option<SocketAddr>,
    /// Bytes of a request message.
    pub message_bytes_max: usize,
    /// Requests of one stream that are worked on at once.
    pub stream_requests_max: usize,
    /// Most streams, unary or not, of one connection.
    pub connection_streams_max: u32,
    /// Silence after which a connection is asked whether it lives.
    pub keepalive_time: Duration,
    /// How long it gets to answer.
    pub keepalive_timeout: Duration,
    /// How old a connection gets.
    pub connection_age: Option<ConnectionAge>,
    /// Whether answers are compressed where the client takes it.
    pub compresses_answers: bool,
    /// The server's certificate, and whose clients it serves; `None` without TLS.
    pub tls: Option<TlsFiles>,
    /// What requests must bring.
    pub restricted: RestrictedApis,
    /// Which metadata become parameters of an inference request.
    pub forwarded_headers: Option<HeaderPattern>,
}

/// How old a connection gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionAge {
    /// Its client is asked to open another after this.
    pub max: Duration,
    /// The requests on it then get this, where it is bounded.
    pub grace: Option<Duration>,
}

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and the root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Those that sign clients' certificates; `None` where clients need none.
    pub client_roots: Option<PathBuf>,
}

impl GrpcSettings {
    pub(super) fn of(
        args: &ServeArgs,
        limits: &RequestLimits,
        bounds: &mut Bounds,
        problems: &mut Vec<String>,
    ) -> Self {
        /// The longest time that can be asked for, a year.
        const MILLIS_MAX: u64 = 31_536_000_000;
        let grpc = &args.grpc;
        let address = grpc.grpc_address.or(args.http_address).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let address = SocketAddr::new(address, grpc.grpc_port.unwrap_or(8001));
        let (age, grace) = (grpc.grpc_max_connection_age, grpc.grpc_max_connection_age_grace);
        let mut millis = |name, given, default| bounds.millis(name, given, default, (1, MILLIS_MAX));
        let keepalive_time = millis("grpc_keepalive_time", grpc.grpc_keepalive_time, 7_200_000);
        let keepalive_timeout = millis("grpc_keepalive_timeout", grpc.grpc_keepalive_timeout, 20_000);
        let connection_age = age.map(|age| ConnectionAge {
            max: millis("grpc_max_connection_age", Some(age), 1),
            grace: grace.map(|grace| millis("grpc_max_connection_age_grace", Some(grace), 1)),
        });
        let message_size = grpc.grpc_max_message_size;
        Self {
            address: grpc.allow_grpc.unwrap_or(true).then_some(address),
            message_bytes_max: bounds.within("grpc_max_message_size", message_size, 64 << 20, (1, i32::MAX as u64)),
            stream_requests_max: bounds.within("grpc_stream_requests", grpc.grpc_stream_requests, 64, (1, 65_536)),
            connection_streams_max: u32::try_from(limits.in_flight_max).unwrap_or(u32::MAX),
            keepalive_time,
            keepalive_timeout,
            connection_age,
            compresses_answers: grpc
                .grpc_infer_response_compression_level
                .is_some_and(|level| level != CompressionLevel::None),
            tls: tls_files(grpc, problems),
            restricted: RestrictedApis::of_grpc(&grpc.grpc_restricted_protocol, problems),
            forwarded_headers: header_pattern(
                "grpc_header_forward_pattern",
                grpc.grpc_header_forward_pattern.as_deref(),
                problems,
            ),
        }
    }
}

fn tls_files(args: &GrpcArgs, problems: &mut Vec<String>) -> Option<TlsFiles> {
    let is_mutual = args.grpc_use_ssl_mutual.unwrap_or(false);
    if !is_mutual && !args.grpc_use_ssl.unwrap_or(false) {
        return None;
    }
    let mut file = |flag: &str, given: &Option<PathBuf>| {
        if given.is_none() {
            problems.push(format!("gRPC is to be served over TLS, which needs --{flag} FILE"));
        }
        given.clone()
    };
    let certificate = file("grpc-server-cert", &args.grpc_server_cert);
    let key = file("grpc-server-key", &args.grpc_server_key);
    let client_roots = if is_mutual { file("grpc-root-cert", &args.grpc_root_cert) } else { None };
    Some(TlsFiles { certificate: certificate?, key: key?, client_roots })
}
