//! `--http-restricted-api` and `--grpc-restricted-protocol`: kinds of requests that must bring a header with a value, as Triton restricts them.

use std::collections::BTreeMap;

/// Kinds of requests, by Triton's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiKind {
    /// Live and ready.
    Health,
    /// Server and model metadata.
    Metadata,
    /// Infer and predict.
    Inference,
    /// Shared memory regions.
    SharedMemory,
    /// A model's configuration.
    ModelConfig,
    /// Index, load and unload.
    ModelRepository,
    /// Statistics.
    Statistics,
    /// Trace settings.
    Trace,
    /// Log settings.
    Logging,
}

impl ApiKind {
    const NAMES: [(&str, Self); 9] = [
        ("health", Self::Health),
        ("metadata", Self::Metadata),
        ("inference", Self::Inference),
        ("shared-memory", Self::SharedMemory),
        ("model-config", Self::ModelConfig),
        ("model-repository", Self::ModelRepository),
        ("statistics", Self::Statistics),
        ("trace", Self::Trace),
        ("logging", Self::Logging),
    ];

    /// The kind of this rpc of Triton's service; `None` where it is none that may be restricted.
    #[must_use]
    pub fn of_rpc(name: &str) -> Option<Self> {
        Some(match name {
            "ServerLive" | "ServerReady" | "ModelReady" => Self::Health,
            "ServerMetadata" | "ModelMetadata" => Self::Metadata,
            "ModelInfer" | "ModelStreamInfer" => Self::Inference,
            "ModelConfig" => Self::ModelConfig,
            "ModelStatistics" => Self::Statistics,
            "TraceSetting" => Self::Trace,
            "LogSettings" => Self::Logging,
            _ if name.starts_with("Repository") => Self::ModelRepository,
            _ if name.contains("SharedMemory") => Self::SharedMemory,
            _ => return None,
        })
    }

    /// The kind of a request to this path, as it came; `None` where there is no such route. The router compares the fixed
    /// parts of a route as they came and decodes only what stands for a name, so this does the same: `%3A` is the colon
    /// before predict's verb, and `%69nfer` is no verb.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let mut segments = path.trim_start_matches('/').split('/');
        match (segments.next()?, segments.next(), segments.next(), segments.next_back()) {
            ("v2", None | Some(""), ..) | ("openapi.json", None, ..) => Some(Self::Metadata),
            ("v2", Some("health"), ..) => Some(Self::Health),
            ("v2", Some("repository"), ..) => Some(Self::ModelRepository),
            ("v2", Some("systemsharedmemory" | "cudasharedmemory"), ..) => Some(Self::SharedMemory),
            ("v2", Some("trace"), ..) => Some(Self::Trace),
            ("v2", Some("logging"), ..) => Some(Self::Logging),
            ("v2", Some("models"), Some("stats"), None) => Some(Self::Statistics),
            ("v2", Some("models"), Some(_), last) => Some(match last {
                Some("ready") => Self::Health,
                Some("infer" | "generate" | "generate_stream") => Self::Inference,
                Some("config") => Self::ModelConfig,
                Some("stats") => Self::Statistics,
                _ if path.ends_with("/trace/setting") => Self::Trace,
                _ => Self::Metadata,
            }),
            ("v1", Some("models"), Some(model), last) => Some(match last.unwrap_or(model) {
                "metadata" if last.is_some() => Self::Metadata,
                verb if has_colon(verb) => Self::Inference,
                _ => Self::Health,
            }),
            _ => None,
        }
    }
}

/// Whether there is a colon in a segment, written as itself or escaped.
fn has_colon(segment: &str) -> bool {
    segment.contains(':') || segment.as_bytes().windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%3a"))
}

/// What each restricted kind of requests must bring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestrictedApis {
    required: BTreeMap<ApiKind, RequiredHeader>,
}

/// A header that a request must bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredHeader {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl RequiredHeader {
    /// Whether this is its value. Takes a time that says nothing of where the two differ.
    #[must_use]
    pub fn is_brought_by(&self, brought: &[u8]) -> bool {
        let required = self.value.as_bytes();
        let differences = brought.iter().zip(required).fold(0, |differences, (one, other)| differences | (one ^ other));
        brought.len() == required.len() && differences == 0
    }
}

impl RestrictedApis {
    /// What a request of this kind must bring.
    #[must_use]
    pub fn required(&self, kind: ApiKind) -> Option<&RequiredHeader> {
        self.required.get(&kind)
    }

    /// Whether nothing is restricted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
    }

    /// `--http-restricted-api`.
    pub(super) fn of_http(given: &[String], problems: &mut Vec<String>) -> Self {
        Self::of("http_restricted_api", "", given, problems)
    }

    /// `--grpc-restricted-protocol`; the header's name follows a prefix of Triton's.
    pub(super) fn of_grpc(given: &[String], problems: &mut Vec<String>) -> Self {
        Self::of("grpc_restricted_protocol", "triton-grpc-protocol-", given, problems)
    }

    fn of(setting: &str, prefix: &str, given: &[String], problems: &mut Vec<String>) -> Self {
        let mut apis = Self::default();
        for text in given {
            if let Err(problem) = apis.add(prefix, text) {
                problems.push(format!("{setting} {}: {problem}", without_value(text)));
            }
        }
        apis
    }

    fn add(&mut self, prefix: &str, text: &str) -> Result<(), String> {
        let parts = text.split_once(':').and_then(|(kinds, header)| Some((kinds, header.split_once('=')?)));
        let Some((kinds, (name, value))) = parts.filter(|(_, (name, _))| !name.is_empty()) else {
            return Err("it must be API[,API]:HEADER=VALUE".to_owned());
        };
        let header = RequiredHeader { name: format!("{prefix}{}", name.to_ascii_lowercase()), value: value.to_owned() };
        for kind in kinds.split(',') {
            let Some((_, known)) = ApiKind::NAMES.iter().find(|(name, _)| *name == kind) else {
                let names: Vec<_> = ApiKind::NAMES.iter().map(|(name, _)| *name).collect();
                return Err(format!("there is no API '{kind}'; there are {}", names.join(", ")));
            };
            if self.required.insert(*known, header.clone()).is_some() {
                return Err(format!("the API '{kind}' is restricted twice"));
            }
        }
        Ok(())
    }
}

/// The value is a secret, so it is not shown.
fn without_value(text: &str) -> String {
    match text.split_once('=') {
        Some((before, _)) => format!("\"{before}=…\""),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apis(given: &[&str]) -> (RestrictedApis, Vec<String>) {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        let mut problems = Vec::new();
        (RestrictedApis::of_http(&given, &mut problems), problems)
    }

    #[test]
    fn restrictions_are_read() {
        let (apis, problems) = apis(&["model-repository,model-config:X-Admin-Key=a=b", "health:k=v"]);
        assert!(problems.is_empty(), "{problems:?}");
        let header = RequiredHeader { name: "x-admin-key".to_owned(), value: "a=b".to_owned() };
        assert_eq!(apis.required(ApiKind::ModelRepository), Some(&header));
        assert_eq!(apis.required(ApiKind::ModelConfig), Some(&header));
        assert_eq!(apis.required(ApiKind::Inference), None);
    }

    #[test]
    fn wrong_restrictions_are_refused_without_their_secrets() {
        let (_, problems) = apis(&["health", "helth:k=secret", "health:k=v", "health:k=secret", "health:=secret"]);
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems.iter().all(|problem| !problem.contains("secret")), "{problems:?}");
        assert_eq!(problems[0], "http_restricted_api \"health\": it must be API[,API]:HEADER=VALUE");
        assert_eq!(problems[2], "http_restricted_api \"health:k=…\": the API 'health' is restricted twice");
    }

    #[test]
    fn headers_of_grpc_have_tritons_prefix() {
        let mut problems = Vec::new();
        let apis = RestrictedApis::of_grpc(&["health:Key=v".to_owned(), "helth:k=v".to_owned()], &mut problems);
        let required = apis.required(ApiKind::Health).expect("restricted");
        assert_eq!(required.name, "triton-grpc-protocol-key");
        assert!(problems[0].starts_with("grpc_restricted_protocol \"helth:k=…\": there is no API"), "{problems:?}");
    }

    #[test]
    fn secrets_are_compared_whole() {
        let header = |value: &str| RequiredHeader { name: "k".to_owned(), value: value.to_owned() };
        assert!(header("").is_brought_by(b"") && header("secret").is_brought_by(b"secret"));
        assert!(!header("secret").is_brought_by(b"secre") && !header("secre").is_brought_by(b"secret"));
        assert!(!header("secret").is_brought_by(b"Secret"));
    }

    #[test]
    fn every_route_has_its_kind() {
        let cases = [
            ("/v2", Some(ApiKind::Metadata)),
            ("/v2/", Some(ApiKind::Metadata)),
            ("/openapi.json", Some(ApiKind::Metadata)),
            ("/openapi.json/nowhere", None),
            ("/v2/health/ready", Some(ApiKind::Health)),
            ("/v2/models/m", Some(ApiKind::Metadata)),
            ("/v2/models/m/ready", Some(ApiKind::Health)),
            ("/v2/models/m/versions/1", Some(ApiKind::Metadata)),
            ("/v2/models/m/versions/1/ready", Some(ApiKind::Health)),
            ("/v2/models/m/versions/1/infer", Some(ApiKind::Inference)),
            ("/v2/models/m/infer", Some(ApiKind::Inference)),
            ("/v2/models/m/config", Some(ApiKind::ModelConfig)),
            ("/v2/models/m/stats", Some(ApiKind::Statistics)),
            ("/v2/models/stats", Some(ApiKind::Statistics)),
            ("/v2/models/m/trace/setting", Some(ApiKind::Trace)),
            ("/v2/repository/index", Some(ApiKind::ModelRepository)),
            ("/v2/repository/models/m/load", Some(ApiKind::ModelRepository)),
            ("/v2/systemsharedmemory/status", Some(ApiKind::SharedMemory)),
            ("/v2/logging", Some(ApiKind::Logging)),
            ("/v1/models/m:predict", Some(ApiKind::Inference)),
            ("/v1/models/m/versions/1:predict", Some(ApiKind::Inference)),
            ("/v1/models/m%3Apredict", Some(ApiKind::Inference)),
            ("/v1/models/m%3apredict", Some(ApiKind::Inference)),
            ("/v1/models/m/versions/1%3apredict", Some(ApiKind::Inference)),
            ("/v1/models/m/labels/stable:predict", Some(ApiKind::Inference)),
            ("/v1/models/m/labels/stable%3Apredict", Some(ApiKind::Inference)),
            ("/v1/models/m", Some(ApiKind::Health)),
            ("/v1/models/metadata", Some(ApiKind::Health)),
            ("/v1/models/m/versions/1", Some(ApiKind::Health)),
            ("/v1/models/m/labels/stable", Some(ApiKind::Health)),
            ("/v1/models/m%253Apredict", Some(ApiKind::Health)),
            ("/v1/models/m/metadata", Some(ApiKind::Metadata)),
            ("/v1/models/m:x/metadata", Some(ApiKind::Metadata)),
            ("/v1/models/m/versions/1/metadata", Some(ApiKind::Metadata)),
            ("/v1/models/m/labels/stable/metadata", Some(ApiKind::Metadata)),
            ("/v2/models/m%2Finfer", Some(ApiKind::Metadata)),
            ("/v2/models/%73tats", Some(ApiKind::Metadata)),
            ("/nowhere", None),
        ];
        for (path, kind) in cases {
            assert_eq!(ApiKind::of_path(path), kind, "{path}");
        }
    }
}
