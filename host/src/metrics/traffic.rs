//! What goes over the edge of the server: answers by endpoint and code, and bytes both ways. An endpoint is a route's
//! template or an rpc's name, never what a client wrote, so that the series are as few as the endpoints.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::{names, registered};

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// v2 and predict.
    Http,
    /// Triton's gRPC service and its companions.
    Grpc,
}

impl Surface {
    const ALL: [Self; 2] = [Self::Http, Self::Grpc];

    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

/// Requests held now, of each surface in the order of its kinds.
pub(super) fn in_flight(registry: &Registry) -> [IntGauge; 2] {
    let options = Opts::new(names::IN_FLIGHT, "Requests to models and plugins held now");
    let gauges = registered(registry, IntGaugeVec::new(options, &["surface"]));
    Surface::ALL.map(|surface| gauges.with_label_values(&[surface.as_str()]))
}

/// What the series of a surface are called.
pub(super) struct Names {
    answers: (&'static str, &'static str),
    received: (&'static str, &'static str),
    sent: (&'static str, &'static str),
    /// The label that names the endpoint.
    endpoint: &'static str,
    /// The code of a success.
    success: &'static str,
}

impl Names {
    pub(super) const HTTP: Self = Self {
        answers: (
            names::HTTP_ANSWERS,
            "Answers over HTTP by route and status, 499 where the client left before its answer",
        ),
        received: (names::HTTP_RECEIVED, "Bytes of request bodies read over HTTP, compressed as they came"),
        sent: (names::HTTP_SENT, "Bytes of answers' bodies over HTTP, compressed as they went"),
        endpoint: "route",
        success: "200",
    };
    pub(super) const GRPC: Self = Self {
        answers: (names::GRPC_ANSWERS, "Calls over gRPC that have ended, streams as one call, by method and code"),
        received: (names::GRPC_RECEIVED, "Bytes of messages read over gRPC, compressed as they came"),
        sent: (names::GRPC_SENT, "Bytes of messages written over gRPC, compressed as they went"),
        endpoint: "method",
        success: "OK",
    };
}

/// The traffic of one surface. Clones share it.
#[derive(Clone)]
pub struct Traffic {
    answers: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    success: &'static str,
    /// Those that have been asked for: read by every request, written once for each.
    endpoints: Arc<ArcSwap<Endpoints>>,
}

type Endpoints = HashMap<Box<str>, Arc<Endpoint>>;

/// One endpoint, its series resolved once.
pub struct Endpoint {
    name: Box<str>,
    answers: IntCounterVec,
    success: (&'static str, IntCounter),
    /// Bytes of requests.
    pub received: IntCounter,
    /// Bytes of answers.
    pub sent: IntCounter,
}

impl Traffic {
    pub(super) fn new(registry: &Registry, names: &Names) -> Self {
        let counters =
            |(name, help), labels: &[&str]| registered(registry, IntCounterVec::new(Opts::new(name, help), labels));
        Self {
            answers: counters(names.answers, &[names.endpoint, "code"]),
            received: counters(names.received, &[names.endpoint]),
            sent: counters(names.sent, &[names.endpoint]),
            success: names.success,
            endpoints: Arc::default(),
        }
    }

    /// The endpoint `name`, which must be one of few.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Arc<Endpoint> {
        if let Some(known) = self.endpoints.load().get(name) {
            return Arc::clone(known);
        }
        let endpoint = Arc::new(Endpoint {
            name: name.into(),
            answers: self.answers.clone(),
            success: (self.success, self.answers.with_label_values(&[name, self.success])),
            received: self.received.with_label_values(&[name]),
            sent: self.sent.with_label_values(&[name]),
        });
        self.endpoints.rcu(|endpoints| {
            let mut endpoints = Endpoints::clone(endpoints);
            endpoints.insert(name.into(), Arc::clone(&endpoint));
            endpoints
        });
        endpoint
    }
}

impl Endpoint {
    /// Counts an answer.
    pub fn answered(&self, code: &str) {
        let (success, count) = &self.success;
        match code == *success {
            true => count.inc(),
            false => self.answers.with_label_values(&[&*self.name, code]).inc(),
        }
    }
}
