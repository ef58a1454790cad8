//! The end: readiness fails first, work in flight finishes, a second signal ends at once.

use anyhow::{Context, Result};
use tests::process::Signal;
use tests::scaler::{self, Scaling};
use tests::{Answer, Repository, Server, ServerOptions, guests};
use tokio::task::JoinHandle;

/// A server that holds one request of a plugin that loops until its limit of `time_ms` ends it.
async fn holding_a_request(time_ms: u32) -> Result<(Repository, Server, JoinHandle<Result<Answer>>)> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let looping = scaler::add(&repository, "looping", &Scaling::new("one", 10.0))?;
    looping.write("plugin.toml", format!("[limits]\ntime_ms = {time_ms}\n"))?;
    looping.write("plugin.wasm", guests::guest("loop"))?;
    let server = ServerOptions::new(&repository).flag("--request-timeout-ms", "600000").start().await?;
    let mut client = server.client();
    let held = tokio::spawn(async move { client.predict("looping", "{}").await });
    server.wait_for_metric("airlock_requests_in_flight", &[], 1.0).await?;
    Ok((repository, server, held))
}

#[tokio::test]
async fn work_in_flight_finishes_while_new_work_is_refused() -> Result<()> {
    let (_repository, mut server, held) = holding_a_request(3000).await?;
    let mut keep_alive = server.client();
    keep_alive.get("/v2/health/ready").await?.expect(200)?;
    let before = server.log().mark();
    server.signal(Signal::TERM)?;
    server.log().wait_for(before, &["stopping: readiness fails from now on"]).await?;

    server.get("/v2/health/live").await?.expect(200)?;
    assert_eq!(server.get("/v2/health/ready").await?.expect_failure(503, "shutting_down")?, "Server exiting");
    let refused = keep_alive.predict("scaler", scaler::body([1.0, 2.0, 3.0, 4.0])).await?;
    assert_eq!(refused.expect_failure(503, "shutting_down")?, "Server exiting");
    assert_eq!((refused.header("retry-after"), refused.header("connection")), (Some("1"), Some("close")));

    let text = held.await??.expect_failure(504, "plugin_timeout")?;
    assert!(text.contains("looping") && text.contains("3000 ms"), "{text}");
    let status = server.wait().await?;
    assert!(status.success(), "ended with {status}");
    assert!(server.log().find(before, &["message=stopped", "clean=true"]).is_some(), "{}", server.log().tail(before));
    Ok(())
}

#[tokio::test]
async fn readiness_fails_while_the_server_still_serves() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    let mut server = ServerOptions::new(&repository).drain_secs(2).start().await?;
    let mut keep_alive = server.client();
    keep_alive.get("/v2/health/ready").await?.expect(200)?;
    let before = server.log().mark();
    server.signal(Signal::TERM)?;
    server.log().wait_for(before, &["stopping: readiness fails from now on"]).await?;
    assert_eq!(server.get("/v2/health/ready").await?.expect_failure(503, "shutting_down")?, "Server exiting");
    for mut client in [keep_alive, server.client()] {
        let answer = client.predict("scaler", scaler::body([1.0, 2.0, 3.0, 4.0])).await?.expect(200)?;
        assert_eq!(answer.header("connection"), Some("close"), "so that the next request goes elsewhere");
    }
    let status = server.wait().await?;
    assert!(status.success(), "ended with {status}");
    Ok(())
}

#[tokio::test]
async fn a_second_signal_ends_at_once() -> Result<()> {
    for second in [Signal::TERM, Signal::INT] {
        let (_repository, mut server, held) = holding_a_request(600_000).await?;
        let before = server.log().mark();
        server.signal(Signal::TERM)?;
        server.log().wait_for(before, &["stopping: readiness fails from now on"]).await?;
        server.signal(second)?;
        let status = server.wait().await?;
        assert_eq!(status.code(), Some(130), "{second:?}: {status}");
        assert!(server.log().find(before, &["second signal; ending at once"]).is_some());
        held.await?.err().context("the request held was answered although the server ended at once")?;
    }
    Ok(())
}

#[tokio::test]
async fn patience_with_work_in_flight_has_an_end() -> Result<()> {
    let repository = Repository::new()?;
    let looping = scaler::add(&repository, "looping", &Scaling::new("one", 10.0))?;
    looping.write("plugin.toml", "[limits]\ntime_ms = 600000\n")?;
    looping.write("plugin.wasm", guests::guest("loop"))?;
    let options = ServerOptions::new(&repository).flag("--exit-timeout-secs", "1");
    let mut server = options.flag("--request-timeout-ms", "600000").start().await?;
    let mut client = server.client();
    let held = tokio::spawn(async move { client.predict("looping", "{}").await });
    server.wait_for_metric("airlock_requests_in_flight", &[], 1.0).await?;
    let before = server.log().mark();
    server.signal(Signal::TERM)?;
    let status = server.wait().await?;
    assert_eq!(status.code(), Some(1), "an unclean end says so");
    assert!(server.log().find(before, &["message=stopped", "clean=false"]).is_some(), "{}", server.log().tail(before));
    held.await?.err().context("the request held was answered")?;
    Ok(())
}

#[tokio::test]
async fn a_server_without_work_stops_at_once_and_cleanly() -> Result<()> {
    let repository = Repository::new()?;
    scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&repository).await?;
        let mut idle = server.client();
        idle.get("/v2/health/ready").await?.expect(200)?;
        server.signal(signal)?;
        let status = server.wait().await?;
        assert!(status.success(), "{signal:?}: ended with {status}");
    }
    Ok(())
}
