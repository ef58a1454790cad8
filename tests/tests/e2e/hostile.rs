//! Plugins that pass verification because they have no samples, and misbehave when called: each costs exactly its own
//! request, with its own status and code, and the model beside it answers on.

use anyhow::{Context, Result, ensure};
use tests::scaler::{self, Scaled, Scaling};
use tests::{Answer, Caller, Load, Outgoing, Repository, Server, guests};

/// A guest of `tests/guests`, the body that makes it misbehave, and what its caller gets.
struct Hostile {
    guest: &'static str,
    body: &'static [u8],
    status: u16,
    code: &'static str,
    /// How the metric calls it.
    kind: &'static str,
    /// Pieces of the text: what happened, and what to do where something can be done.
    says: &'static [&'static str],
}

const HOSTILE: [Hostile; 9] = [
    Hostile { guest: "trap", body: b"x", status: 500, code: "plugin_crashed", kind: "crashed", says: &[] },
    Hostile { guest: "trap-at-start", body: b"x", status: 500, code: "plugin_crashed", kind: "crashed", says: &[] },
    Hostile { guest: "loop", body: b"x", status: 504, code: "plugin_timeout", kind: "timeout", says: &["100 ms"] },
    Hostile {
        guest: "loop-at-start",
        body: b"x",
        status: 504,
        code: "plugin_timeout",
        kind: "timeout",
        says: &["100 ms"],
    },
    Hostile {
        guest: "memory",
        body: b"x",
        status: 500,
        code: "plugin_crashed",
        kind: "out_of_memory",
        says: &["memory"],
    },
    Hostile { guest: "huge-output", body: b"\x04", status: 500, code: "plugin_contract", kind: "contract", says: &[] },
    Hostile {
        guest: "tensor",
        body: b"abc",
        status: 500,
        code: "plugin_contract",
        kind: "contract",
        says: &["UINT8", "FP32"],
    },
    Hostile { guest: "wrong-length", body: b"abc", status: 500, code: "plugin_contract", kind: "contract", says: &[] },
    Hostile {
        guest: "wrong-status",
        body: b"x",
        status: 500,
        code: "plugin_contract",
        kind: "contract",
        says: &["99"],
    },
];

/// Tight limits, so that every bound is reached quickly.
const LIMITS: &str = "[limits]\nmemory_mb = 16\ntime_ms = 100\noutput_mb = 1\nlog_lines = 5\n";

const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

fn add(repository: &Repository, guest: &str) -> Result<()> {
    let folder = scaler::add(repository, guest, &Scaling::new("unused", 1.0))?;
    folder.write("plugin.toml", LIMITS)?;
    folder.write("plugin.wasm", guests::guest(guest))
}

/// Asks the good model over and over.
struct Neighbour(u64);

impl Neighbour {
    fn figures(&self, number: u64) -> [f64; 4] {
        scaler::figures(self.0 * 131 + number)
    }
}

impl Caller for Neighbour {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request("good", self.figures(number))
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        let scaled = Scaled::read(answer, self.figures(number))?;
        ensure!(scaled.scaling.tag == "good" && scaled.generation == 1, "{scaled:?}");
        Ok(())
    }
}

async fn server() -> Result<(Repository, Server)> {
    let repository = Repository::new()?;
    scaler::add(&repository, "good", &Scaling::new("good", 10.0))?;
    for hostile in &HOSTILE {
        add(&repository, hostile.guest)?;
    }
    for guest in ["log-flood", "hop-by-hop", "bad-pointer"] {
        add(&repository, guest)?;
    }
    let server = Server::start(&repository).await?;
    Ok((repository, server))
}

#[tokio::test]
async fn each_costs_exactly_its_own_request() -> Result<()> {
    const TIMES: u32 = 3;
    let (_repository, server) = server().await?;
    let load = Load::start(server.address(), (0..4).map(Neighbour));
    let mut client = server.client();
    for hostile in &HOSTILE {
        for _ in 0..TIMES {
            let answer = client.predict(hostile.guest, hostile.body).await?;
            let text = answer.expect_failure(hostile.status, hostile.code).with_context(|| hostile.guest)?;
            for part in hostile.says {
                assert!(text.contains(part), "{}: {part:?} is not in {text:?}", hostile.guest);
            }
        }
        let metrics = server.metrics().await?;
        let labels = [("model", hostile.guest), ("kind", hostile.kind)];
        let counted = metrics.value("airlock_plugin_failures_total", &labels);
        assert_eq!(counted, f64::from(TIMES), "{}", hostile.guest);
        ensure!(load.failed() == 0, "beside {}: {:?}", hostile.guest, load.stop().await?.failures);
    }
    load.stop().await?.expect_no_failure()?;
    let answer = client.predict("good", scaler::body(X)).await?;
    assert_eq!(Scaled::read(&answer, X)?.scaling.tag, "good");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn the_same_plugins_answer_a_request_that_does_not_provoke_them() -> Result<()> {
    let (_repository, server) = server().await?;
    let mut client = server.client();
    for guest in ["trap", "loop", "memory", "huge-output"] {
        let provoking = HOSTILE.iter().find(|hostile| hostile.guest == guest).context("is in the table")?;
        for _ in 0..3 {
            client.predict(guest, provoking.body).await?.expect(provoking.status)?;
            client.predict(guest, "").await?.expect(200).with_context(|| guest)?;
        }
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn what_breaks_the_abi_or_http_is_stopped() -> Result<()> {
    let (_repository, server) = server().await?;
    let mut client = server.client();
    let answer = client.predict("bad-pointer", "x").await?;
    answer.expect_failure(500, "plugin_crashed")?;
    let answer = client.predict("hop-by-hop", "x").await?;
    let text = answer.expect_failure(500, "plugin_contract")?;
    assert!(text.to_ascii_lowercase().contains("transfer-encoding"), "{text}");
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_flood_of_log_lines_is_cut_and_counted() -> Result<()> {
    let (_repository, server) = server().await?;
    let before = server.log().mark();
    server.predict("log-flood", "x").await?.expect(200)?;
    let lines = [("model", "log-flood"), ("what", "log_lines")];
    server.wait_for_metric("airlock_plugin_dropped_total", &lines, 995.0).await?;
    let dropped = server.metrics().await?.value("airlock_plugin_dropped_total", &lines);
    assert_eq!(dropped, 995.0, "1,000 lines, of which 5 are allowed");
    let log = server.stop().await?;
    assert_eq!(log.count(before, &["model=log-flood", "message=ten bytes."]), 5);
    Ok(())
}

#[tokio::test]
async fn many_hostile_requests_at_once_leave_the_neighbour_alone() -> Result<()> {
    let (_repository, server) = server().await?;
    let load = Load::start(server.address(), (0..2).map(Neighbour));
    let mut attacks = tokio::task::JoinSet::new();
    for index in 0..24 {
        let hostile = &HOSTILE[index % HOSTILE.len()];
        let mut client = server.client();
        attacks.spawn(async move { (hostile, client.predict(hostile.guest, hostile.body).await) });
    }
    while let Some(attack) = attacks.join_next().await {
        let (hostile, answer) = attack?;
        answer?.expect_failure(hostile.status, hostile.code).with_context(|| hostile.guest)?;
    }
    load.stop().await?.expect_no_failure()?;
    server.stop().await?;
    Ok(())
}
