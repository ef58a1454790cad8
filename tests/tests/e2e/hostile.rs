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
    text: &'static str,
}

const HOSTILE: [Hostile; 12] = [
    Hostile {
        guest: "trap",
        body: b"x",
        status: 500,
        code: "plugin_crashed",
        kind: "crashed",
        text: "plugin of model 'trap' (generation 1) in preprocess crashed; the plugin's log has the reason",
    },
    Hostile {
        guest: "trap-at-start",
        body: b"x",
        status: 500,
        code: "plugin_crashed",
        kind: "crashed",
        text: "plugin of model 'trap-at-start' (generation 1) in instantiate crashed; the plugin's log has the reason",
    },
    Hostile {
        guest: "loop",
        body: b"x",
        status: 504,
        code: "plugin_timeout",
        kind: "timeout",
        text: "plugin of model 'loop' (generation 1) in preprocess ran longer than limits.time_ms of 100 ms; the \
               instance was dropped, make the stage quicker or raise the limit in plugin.toml",
    },
    Hostile {
        guest: "loop-at-start",
        body: b"x",
        status: 504,
        code: "plugin_timeout",
        kind: "timeout",
        text: "plugin of model 'loop-at-start' (generation 1) in instantiate ran longer than limits.time_ms of 100 ms; \
               the instance was dropped, make the stage quicker or raise the limit in plugin.toml",
    },
    Hostile {
        guest: "memory",
        body: b"x",
        status: 500,
        code: "plugin_crashed",
        kind: "out_of_memory",
        text: "plugin of model 'memory' (generation 1) in preprocess ran out of memory: it asked for 16908288 bytes \
               where limits.memory_mb allows 16777216; use less memory or raise the limit in plugin.toml",
    },
    Hostile {
        guest: "handles",
        body: b"pollables",
        status: 500,
        code: "plugin_crashed",
        kind: "crashed",
        text: "plugin of model 'handles' (generation 1) in preprocess crashed; the plugin's log has the reason",
    },
    Hostile {
        guest: "bad-pointer",
        body: b"x",
        status: 500,
        code: "plugin_crashed",
        kind: "crashed",
        text: "plugin of model 'bad-pointer' (generation 1) in preprocess crashed; the plugin's log has the reason",
    },
    Hostile {
        guest: "huge-output",
        body: b"\x04",
        status: 500,
        code: "plugin_contract",
        kind: "contract",
        text: "plugin of model 'huge-output' (generation 1) in preprocess broke its contract: what it gave back is larger \
               than 3145728 bytes, the largest of limits.output_mb (1048576, tensors 1048576) with \
               limits.carry_kb (1048576), and 1 MiB for the rest",
    },
    Hostile {
        guest: "tensor",
        body: b"abc",
        status: 500,
        code: "plugin_contract",
        kind: "contract",
        text: "the plugin's tensors do not fit the model: inference input 'x' data-type is 'UINT8', but model 'tensor' \
               expects 'FP32'",
    },
    Hostile {
        guest: "wrong-length",
        body: b"abc",
        status: 500,
        code: "plugin_contract",
        kind: "contract",
        text: "plugin of model 'wrong-length' (generation 1) in preprocess broke its contract: tensor 'x' of type UINT8 \
               and shape [1,4] needs 4 bytes, got 3",
    },
    Hostile {
        guest: "wrong-status",
        body: b"x",
        status: 500,
        code: "plugin_contract",
        kind: "contract",
        text: "plugin of model 'wrong-status' (generation 1) in preprocess broke its contract: expected a status from \
               200 to 599, got 99",
    },
    Hostile {
        guest: "hop-by-hop",
        body: b"x",
        status: 500,
        code: "plugin_contract",
        kind: "contract",
        text: "plugin of model 'hop-by-hop' (generation 1) in preprocess broke its contract: the header \
               'transfer-encoding' is the host's to set, expected an answer without it",
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
    add(&repository, "log-flood")?;
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
            assert_eq!(text, hostile.text);
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
    for guest in ["trap", "loop", "memory", "handles", "huge-output"] {
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
