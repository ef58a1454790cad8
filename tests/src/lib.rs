//! The end-to-end harness: starts the real `airlock` binary on free ports with a model repository of real files, talks
//! HTTP to it with hyper's client, reads its log and its metrics, and stops it with signals. Nothing of Airlock's own
//! code is linked here, so whatever these tests see is what a user sees. Every wait has a bound and says what it waited
//! for; a server that a test leaves behind is killed when its handle is dropped.

pub mod command;
pub mod component;
pub mod fixtures;
pub mod grpc;
#[path = "../guests/component.rs"]
pub mod guests;
pub mod http;
pub mod load;
pub mod log;
pub mod metrics;
pub mod process;
pub mod repository;
pub mod scaler;
pub mod server;
pub mod soak;
pub mod statistics;
pub mod wait;

pub use http::{Answer, Client};
pub use load::{Caller, Load, LoadReport, Outgoing};
pub use repository::{ModelFolder, Repository};
pub use server::{Server, ServerOptions};
pub use wait::eventually;
