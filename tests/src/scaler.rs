//! The model that the swap tests serve: `y = k x` in ONNX (k is 2 in version 1 of the weights and 3 in version 2) behind
//! the plugin `score-scaler`, whose `[config]` gives it a tag and a factor. Every answer names both, and its figures show
//! which weights made it, so an answer made of parts that do not belong together is seen.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use crate::component::with_note;
use crate::fixtures;
use crate::http::Answer;
use crate::load::Outgoing;
use crate::repository::{ModelFolder, Repository};

/// The weights in a `model.onnx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// `y = 2 x`.
    Double,
    /// `y = 3 x`.
    Triple,
}

impl Weights {
    /// The ONNX model.
    ///
    /// # Errors
    /// When the fixture cannot be read.
    pub fn onnx(self) -> Result<Vec<u8>> {
        fixtures::model(match self {
            Self::Double => "scaler_v1",
            Self::Triple => "scaler_v2",
        })
    }

    /// What they multiply by.
    #[must_use]
    pub fn factor(self) -> f64 {
        match self {
            Self::Double => 2.0,
            Self::Triple => 3.0,
        }
    }
}

/// What a `plugin.toml` makes of the plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The tag in its answers.
    pub tag: String,
    /// What it multiplies by.
    pub scale: f64,
}

impl Scaling {
    /// A tag and a factor.
    #[must_use]
    pub fn new(tag: impl Into<String>, scale: f64) -> Self {
        Self { tag: tag.into(), scale }
    }

    /// The text of the `plugin.toml`.
    #[must_use]
    pub fn manifest(&self) -> String {
        format!("kind = \"adapter\"\n\n[config]\ntag = \"{}\"\nscale = {:?}\n", self.tag, self.scale)
    }
}

/// A `config.pbtxt` for the model, serving every version.
#[must_use]
pub fn config(name: &str) -> String {
    format!(
        "name: \"{name}\"\nbackend: \"onnxruntime\"\nmax_batch_size: 16\n\
         input [ {{ name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] }} ]\n\
         output [ {{ name: \"y\" data_type: TYPE_FP32 dims: [ 4 ] }} ]\n\
         instance_group [ {{ count: 1 kind: KIND_CPU }} ]\n"
    )
}

/// The same, serving all versions and not only the newest.
#[must_use]
pub fn config_of_all_versions(name: &str) -> String {
    format!("{}version_policy {{ all {{ }} }}\n", config(name))
}

/// The plugin's component, with a note that makes its bytes differ.
///
/// # Errors
/// When it has not been built.
pub fn component(note: &str) -> Result<Vec<u8>> {
    Ok(with_note(&fixtures::plugin("score-scaler")?, note))
}

/// A sample's files below the folder `samples`, whose answer is held to its shape and to a scale from 1 to 100, so that
/// every tag and both weights pass.
#[must_use]
pub fn sample_of_shape() -> [(&'static str, &'static [u8]); 3] {
    [
        ("shape/request.json", br#"{"x": [1, 2, 3, 4]}"#),
        ("shape/expected.json", br#"{"tag": "any", "scale": 10.0, "y": [20.0, 40.0, 60.0, 80.0]}"#),
        ("shape/expect.toml", b"mode = \"shape\"\n\n[ranges]\n\"/scale\" = [1, 100]\n"),
    ]
}

/// A sample's files below the folder `samples`, whose answer is held to the values of these weights and this scaling.
#[must_use]
pub fn sample_of_values(weights: Weights, scaling: &Scaling) -> [(&'static str, Vec<u8>); 2] {
    let factor = weights.factor() * scaling.scale;
    let y = [1.0, 2.0, 3.0, 4.0].map(|x| x * factor);
    let answer = serde_json::json!({"tag": scaling.tag, "scale": scaling.scale, "y": y});
    [
        ("values/request.json", br#"{"x": [1, 2, 3, 4]}"#.to_vec()),
        ("values/expected.json", answer.to_string().into_bytes()),
    ]
}

/// Adds a model with version 1, the plugin and no samples.
///
/// # Errors
/// When a fixture is missing or the file system refuses.
pub fn add(repository: &Repository, name: &str, scaling: &Scaling) -> Result<ModelFolder> {
    repository.add(name, |folder| {
        folder.write("config.pbtxt", config(name))?;
        folder.write("1/model.onnx", Weights::Double.onnx()?)?;
        folder.write("plugin.toml", scaling.manifest())?;
        folder.write("plugin.wasm", component("first")?)
    })
}

/// A predict request with the figures `x`.
#[must_use]
pub fn request(model: &str, x: [f64; 4]) -> Outgoing {
    Outgoing { path: format!("/v1/models/{model}:predict").into(), body: body(x) }
}

/// The body of a predict request.
#[must_use]
pub fn body(x: [f64; 4]) -> Bytes {
    serde_json::json!({ "x": x }).to_string().into()
}

/// Figures from 1 up that differ from request to request and stay exact in 32 bits whatever they are multiplied with here.
#[must_use]
pub fn figures(number: u64) -> [f64; 4] {
    [1, 2, 3, 5].map(|step| f64::from(u16::try_from(1 + (number * step) % 997).expect("below 1000")))
}

/// An answer of the model, all of it read.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// What the plugin says of itself.
    pub scaling: Scaling,
    /// `X-Plugin-Generation`.
    pub generation: u64,
    /// `X-Model-Version`.
    pub version: u64,
    /// What the weights multiplied by, worked out from the figures.
    pub weights_factor: f64,
}

impl Scaled {
    /// Reads the answer to a request with the figures `x`, none of which is 0.
    ///
    /// # Errors
    /// When it is no answer of this model, or its figures are no multiple of `x`.
    pub fn read(answer: &Answer, x: [f64; 4]) -> Result<Self> {
        ensure!(answer.status == 200, "got {answer}");
        let body = answer.json()?;
        let tag = body["tag"].as_str().with_context(|| format!("no tag: {answer}"))?;
        let scale = body["scale"].as_f64().with_context(|| format!("no scale: {answer}"))?;
        let y: Arc<[f64]> = body["y"].as_array().into_iter().flatten().filter_map(|y| y.as_f64()).collect();
        ensure!(y.len() == x.len(), "{} figures for {}: {answer}", y.len(), x.len());
        let factor = y[0] / x[0];
        let fits = x.iter().zip(y.iter()).all(|(x, y)| (x * factor - y).abs() <= 1e-6 * y.abs());
        ensure!(fits, "{y:?} is no multiple of {x:?}");
        Ok(Self {
            scaling: Scaling::new(tag, scale),
            generation: answer.number("x-plugin-generation")?,
            version: answer.number("x-model-version")?,
            weights_factor: factor / scale,
        })
    }
}
