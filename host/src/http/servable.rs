//! What a path below `/v1/models` asks for: a model, and perhaps a version by number or by label. Where nothing is served
//! by that name, what is said of it depends on the model: one that has a plugin, or of which nothing serves that would
//! tell, answers as this server does everywhere, all others as TF Serving.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Response, Uri};
use model::ErrorCode;

use super::answer;
use crate::failure::{RequestFailure, clipped};
use crate::registry::{ModelMap, ModelRegistry, PluginSlot, Release};

/// A model and the version of it that is asked for, as they stand in the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servable<'a> {
    pub(super) model: &'a str,
    pub(super) version: VersionChoice<'a>,
    /// The request, for texts.
    pub(super) request: (&'a Method, &'a Uri),
}

/// Which version is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum VersionChoice<'a> {
    /// The highest that serves.
    Latest,
    /// One by its number.
    Number(&'a str),
    /// One by a label of the model's configuration.
    Label(&'a str),
}

/// Whose form failures have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// This server's, as of every request to a plugin.
    Host,
    /// TF Serving's.
    TfServing,
}

impl Dialect {
    /// How failures of a release are told.
    pub(super) fn of(release: &Release) -> Self {
        if matches!(release.plugin, PluginSlot::Absent) { Self::TfServing } else { Self::Host }
    }

    /// A failure as an answer.
    pub(super) fn answer(self, failure: &RequestFailure) -> Response<Body> {
        match self {
            Self::Host => answer::failure(failure),
            Self::TfServing => answer::tf_serving_failure(failure),
        }
    }
}

impl Servable<'_> {
    /// Pins the release.
    ///
    /// # Errors
    /// Why there is none, in the words of the dialect beside it.
    pub(super) fn pin(&self, registry: &ModelRegistry) -> Result<Arc<Release>, (RequestFailure, Dialect)> {
        self.find(registry).map_err(|failure| {
            let map = registry.snapshot();
            if failure.code == ErrorCode::NoAvailableVersion || self.has_plugin(&map) {
                return (failure, Dialect::Host);
            }
            (self.in_tf_servings_words(failure, &map), Dialect::TfServing)
        })
    }

    /// Pins the release for a route that is TF Serving's whatever the model has.
    ///
    /// # Errors
    /// Why there is none, in TF Serving's words.
    pub(super) fn pin_for_tf_serving(&self, registry: &ModelRegistry) -> Result<Arc<Release>, RequestFailure> {
        self.find(registry).map_err(|failure| self.in_tf_servings_words(failure, &registry.snapshot()))
    }

    fn find(&self, registry: &ModelRegistry) -> Result<Arc<Release>, RequestFailure> {
        match self.version {
            VersionChoice::Latest => registry.pin(self.model, None),
            VersionChoice::Number(version) => registry.pin(self.model, Some(version)),
            VersionChoice::Label(label) => {
                // One state of the registry for both: a label and its version change together.
                let map = registry.snapshot();
                let version = self.labelled(&map, label)?;
                map.model(self.model)?.release(Some(&version)).map(Arc::clone)
            }
        }
    }

    /// The version that a label stands for.
    ///
    /// # Errors
    /// TF Serving's text for a label that the model does not have, or a model that nobody knows.
    pub(super) fn labelled(&self, map: &ModelMap, label: &str) -> Result<String, RequestFailure> {
        let config = map.model(self.model).ok().and_then(|model| model.config.as_ref());
        let version = config.and_then(|config| config.version_labels.get(label));
        version.map(|version| version.to_string()).ok_or_else(|| {
            let text = format!("Unrecognized servable version label: {}", clipped(label));
            RequestFailure::new(ErrorCode::MalformedRequest, text)
        })
    }

    /// The version in the path as TF Serving reads it.
    ///
    /// # Errors
    /// TF Serving's text for what is no number, or too large for one.
    pub(super) fn number(&self, version: &str) -> Result<u64, RequestFailure> {
        let (method, uri) = self.request;
        let malformed = |text| RequestFailure::new(ErrorCode::MalformedRequest, text);
        if version.is_empty() || !version.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed(format!("Malformed request: {method} {}", clipped(uri.path()))));
        }
        let number = version.parse::<u64>().ok().filter(|&number| i64::try_from(number).is_ok());
        let unreadable = || malformed(format!("Failed to convert version: {} to numeric.", clipped(version)));
        number.ok_or_else(unreadable)
    }

    fn has_plugin(&self, map: &ModelMap) -> bool {
        let has = |release: &Arc<Release>| Dialect::of(release) == Dialect::Host;
        map.model(self.model).is_ok_and(|model| model.releases.values().any(has))
    }

    fn in_tf_servings_words(&self, mut failure: RequestFailure, map: &ModelMap) -> RequestFailure {
        let version = match self.version {
            VersionChoice::Latest => None,
            VersionChoice::Number(version) => match self.number(version) {
                Ok(number) => Some(number.to_string()),
                Err(malformed) => return malformed,
            },
            VersionChoice::Label(label) => self.labelled(map, label).ok(),
        };
        let model = clipped(self.model);
        let request =
            version.map_or_else(|| format!("Latest({model})"), |number| format!("Specific({model}, {number})"));
        let words = format!("Servable not found for request: {request}");
        match failure.code {
            ErrorCode::ModelNotFound | ErrorCode::VersionNotFound => failure.text = words,
            ErrorCode::NoAvailableVersion => failure.text = format!("{words} ({})", failure.text),
            // Version 0 is a number, and nobody has it.
            ErrorCode::MalformedRequest if !matches!(self.version, VersionChoice::Label(_)) => {
                failure = RequestFailure::new(ErrorCode::VersionNotFound, words);
            }
            _ => {}
        }
        failure
    }
}
