//! gRPC where it meets plugins and the end of the server; the rest of it is tested with Triton's own clients, in Python.

use anyhow::{Context, Result};
use tests::grpc::GrpcClient;
use tests::process::Signal;
use tests::scaler::{self, Scaling};
use tests::{Repository, ServerOptions, guests};

/// gRPC's codes.
const OK: u32 = 0;
const DEADLINE_EXCEEDED: u32 = 4;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;

#[tokio::test]
async fn work_in_flight_finishes_while_new_work_is_refused() -> Result<()> {
    let repository = Repository::new()?;
    let looping = scaler::add(&repository, "looping", &Scaling::new("one", 10.0))?;
    looping.write("plugin.toml", "[limits]\ntime_ms = 3000\n")?;
    looping.write("plugin.wasm", guests::guest("loop"))?;
    let mut server = ServerOptions::new(&repository).start().await?;
    let mut client = GrpcClient::connect(server.grpc_address()?).await?;
    let mut holder = client.clone();
    let held = tokio::spawn(async move { holder.predict("looping", b"{}").await });
    server.wait_for_metric("airlock_requests_in_flight", &[], 1.0).await?;
    let before = server.log().mark();
    server.signal(Signal::TERM)?;
    server.log().wait_for(before, &["stopping: readiness fails from now on"]).await?;
    server.get("/v2/health/live").await?.expect(200)?;

    let text = "GRPC server is shutting down and has stopped accepting new requests.";
    client.server_live().await?.expect(UNAVAILABLE, text)?;
    client.predict("looping", b"{}").await?.expect(UNAVAILABLE, text)?;
    held.await??.expect(DEADLINE_EXCEEDED, "3000 ms")?;
    let status = server.wait().await?;
    assert!(status.success(), "ended with {status}");
    let stopped = server.log().find(before, &["message=stopped", "clean=true"]);
    stopped.with_context(|| server.log().tail(before))?;
    Ok(())
}

#[tokio::test]
async fn a_plugin_that_crashes_costs_one_request() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let crashing = scaler::add(&repository, "crashing", &Scaling::new("one", 10.0))?;
    crashing.write("plugin.wasm", guests::guest("trap"))?;
    let server = ServerOptions::new(&repository).start().await?;
    let mut client = GrpcClient::connect(server.grpc_address()?).await?;
    let figures = scaler::body([1.0, 2.0, 3.0, 4.0]);
    for _ in 0..3 {
        client.predict("crashing", b"{}").await?.expect(INTERNAL, "crashed; the plugin's log has the reason")?;
        client.predict("scaler", &figures).await?.expect(OK, "")?;
    }
    let labels = [("model", "crashing"), ("code", "plugin_crashed")];
    assert_eq!(server.metrics().await?.value("airlock_requests_total", &labels), 3.0);
    server.stop().await?;
    Ok(())
}
