//! A version that brings its own plugin is published and rolled back as one pair: no answer ever mixes the weights of one
//! with the scaler of the other.

use anyhow::{Context, Result, ensure};
use tests::scaler::{self, Scaled, Scaling, Weights};
use tests::wait::PATIENCE;
use tests::{Answer, Caller, Load, ModelFolder, Outgoing, Repository, Server, ServerOptions, eventually};

const MODEL: &str = "pair";
const CONCURRENCY: u64 = 8;
const ROUNDS: usize = 6;

/// Weights, version and scaling that belong together.
#[derive(Clone, Debug)]
struct Pair {
    version: u64,
    weights: Weights,
    scaling: Scaling,
}

impl Pair {
    fn new(version: u64, weights: Weights, tag: &str, scale: f64) -> Self {
        Self { version, weights, scaling: Scaling::new(tag, scale) }
    }

    fn explains(&self, answer: &Scaled) -> bool {
        answer.version == self.version
            && answer.scaling == self.scaling
            && (answer.weights_factor - self.weights.factor()).abs() < 1e-6
    }

    /// Renames a version folder with all of the pair into place.
    fn publish(&self, folder: &ModelFolder) -> Result<()> {
        let sample = scaler::sample_of_values(self.weights, &self.scaling);
        self.publish_with_sample(folder, &sample)
    }

    fn publish_with_sample(&self, folder: &ModelFolder, sample: &[(&'static str, Vec<u8>)]) -> Result<()> {
        let (weights, manifest) = (self.weights.onnx()?, self.scaling.manifest());
        let component = scaler::component(&self.scaling.tag)?;
        let sample: Vec<(String, &[u8])> =
            sample.iter().map(|(file, content)| (format!("samples/{file}"), &content[..])).collect();
        let mut files: Vec<(&str, &[u8])> =
            vec![("model.onnx", &weights), ("plugin.toml", manifest.as_bytes()), ("plugin.wasm", &component)];
        files.extend(sample.iter().map(|(file, content)| (file.as_str(), *content)));
        folder.write_folder(&self.version.to_string(), &files)
    }
}

struct PairCaller {
    connection: u64,
    legal: Vec<Pair>,
}

impl PairCaller {
    fn figures(&self, number: u64) -> [f64; 4] {
        scaler::figures(self.connection * 131 + number)
    }
}

impl Caller for PairCaller {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request(MODEL, self.figures(number))
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        let scaled = Scaled::read(answer, self.figures(number))?;
        ensure!(self.legal.iter().any(|pair| pair.explains(&scaled)), "no pair explains {scaled:?}");
        Ok(())
    }
}

async fn wait_for(server: &Server, pair: &Pair) -> Result<()> {
    let (mut client, x) = (server.client(), [1.0, 2.0, 3.0, 4.0]);
    let serves = eventually(&format!("{pair:?} to serve"), PATIENCE, async || {
        let answer = Scaled::read(&client.predict(MODEL, scaler::body(x)).await.ok()?, x).ok()?;
        pair.explains(&answer).then_some(())
    })
    .await;
    serves.with_context(|| server.log().tail(server.log().mark_of_start()))
}

#[tokio::test]
async fn weights_and_scaler_are_published_and_rolled_back_together() -> Result<()> {
    let first = Pair::new(1, Weights::Double, "first", 10.0);
    let second = Pair::new(2, Weights::Triple, "second", 7.0);
    let replaced = Pair::new(2, Weights::Double, "replaced", 5.0);
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &first.scaling)?;
    let sample = scaler::sample_of_values(first.weights, &first.scaling);
    let sample: Vec<(&str, &[u8])> = sample.iter().map(|(file, content)| (*file, &content[..])).collect();
    folder.write_folder("samples", &sample)?;
    let server = Server::start(&repository).await?;
    wait_for(&server, &first).await?;

    let legal = vec![first.clone(), second.clone(), replaced.clone()];
    let caller = |connection| PairCaller { connection, legal: legal.clone() };
    let load = Load::start(server.address(), (0..CONCURRENCY).map(caller));
    for round in 0..ROUNDS {
        second.publish(&folder)?;
        wait_for(&server, &second).await?;
        if round % 2 == 1 {
            replaced.publish(&folder)?;
            wait_for(&server, &replaced).await?;
        }
        folder.remove("2")?;
        wait_for(&server, &first).await?;
        ensure!(load.failed() == 0, "in round {round}: {:?}", load.stop().await?.failures);
    }
    let report = load.stop().await?.expect_no_failure()?;
    assert!(report.requests > 0);
    assert_eq!(server.log().count(server.log().mark_of_start(), &["message=refused"]), 0);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_pair_that_fails_its_samples_is_refused_as_a_pair() -> Result<()> {
    let first = Pair::new(1, Weights::Double, "first", 10.0);
    let second = Pair::new(2, Weights::Triple, "second", 7.0);
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &first.scaling)?;
    let server = Server::start(&repository).await?;
    let load = Load::start(server.address(), [PairCaller { connection: 0, legal: vec![first.clone()] }]);

    let before = server.log().mark();
    let sample = scaler::sample_of_values(Weights::Double, &second.scaling);
    second.publish_with_sample(&folder, &sample)?;
    let refusal =
        ["message=refused", "part=version 2", "outcome=failed_to_verify", "sample 'values': /y/0: expected 14"];
    server.log().wait_for(before, &refusal).await?;
    wait_for(&server, &first).await?;
    load.stop().await?.expect_no_failure()?;

    second.publish(&folder)?;
    wait_for(&server, &second).await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_version_takes_what_it_lacks_from_the_model() -> Result<()> {
    let first = Pair::new(1, Weights::Double, "first", 10.0);
    let second = Pair::new(2, Weights::Triple, "second", 7.0);
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &first.scaling)?;
    let server = Server::start(&repository).await?;
    let (weights, manifest) = (second.weights.onnx()?, second.scaling.manifest());
    folder.write_folder("2", &[("model.onnx", &weights), ("plugin.toml", manifest.as_bytes())])?;
    wait_for(&server, &second).await?;
    // Without anything of its own it follows the model's plugin.
    let third = Pair::new(3, Weights::Double, "first", 10.0);
    folder.write_folder("3", &[("model.onnx", &Weights::Double.onnx()?)])?;
    wait_for(&server, &third).await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_pair_under_a_broken_configuration_is_published_whole_once_that_is_mended() -> Result<()> {
    let second = Pair::new(2, Weights::Triple, "second", 7.0);
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, MODEL, &Scaling::new("first", 10.0))?;
    folder.write("config.pbtxt", "name: 7")?;
    second.publish(&folder)?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    server.predict(MODEL, scaler::body([1.0, 2.0, 3.0, 4.0])).await?.expect_failure(404, "no_available_version")?;
    let caller = MendedCaller { pair: second.clone() };
    let load = Load::start(server.address(), [caller]);
    folder.write("config.pbtxt", scaler::config(MODEL))?;
    wait_for(&server, &second).await?;
    load.stop().await?.expect_no_failure()?;
    server.stop().await?;
    Ok(())
}

/// Asks from before the configuration is mended: not ready at first, then the whole pair and nothing else.
struct MendedCaller {
    pair: Pair,
}

impl Caller for MendedCaller {
    fn request(&mut self, number: u64) -> Outgoing {
        scaler::request(MODEL, scaler::figures(number))
    }

    fn check(&mut self, number: u64, answer: &Answer) -> Result<()> {
        if answer.status == 404 {
            return Ok(());
        }
        let scaled = Scaled::read(answer, scaler::figures(number))?;
        ensure!(self.pair.explains(&scaled), "half a pair serves: {scaled:?}");
        Ok(())
    }
}
