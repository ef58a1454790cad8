//! Airlock's host: it composes the engine, the batcher and the plugin sandbox into one serving process. Direction:
//! `cli -> app -> {http, grpc, repository} -> {pipeline, registry}`; the surfaces do not know each other.

pub mod app;
pub mod check;
pub mod classification;
pub mod cli;
mod counted_body;
pub mod failure;
pub mod generation;
pub mod grpc;
pub mod http;
pub mod janitor;
mod line_queue;
pub mod logging;
pub mod metrics;
pub mod non_finite;
pub mod observed;
mod otlp;
pub mod pipeline;
pub mod raw_tensor;
pub mod registry;
pub mod repository;
pub mod repository_api;
pub mod request_id;
pub mod response_cache;
pub mod serving;
pub mod settings;
pub mod shared_memory;
mod tally;
pub mod tasks;
