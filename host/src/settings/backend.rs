//! `--backend-config` and `--rate-limit-resource`: settings in the small languages of their values.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use batching::RateLimiter;
use model::AutoComplete;

use super::triton::{RateLimitMode, TritonArgs};

/// What `--backend-config` says of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// The batch size of a model that can batch and declares none.
    pub default_max_batch_size: u32,
    /// Whether all models share one pool of threads.
    pub has_global_threads: bool,
    /// Threads inside one operator: of the shared pool, or of a model that declares none; `None` leaves the default.
    pub intra_op_threads: Option<u16>,
    /// Operators side by side, likewise.
    pub inter_op_threads: Option<u16>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            default_max_batch_size: AutoComplete::DEFAULT_MAX_BATCH_SIZE,
            has_global_threads: false,
            intra_op_threads: None,
            inter_op_threads: None,
        }
    }
}

/// Resources that instances share, where rate limiting is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// Whether resources and priorities are obeyed.
    pub is_on: bool,
    /// How much there is of each resource that is named.
    pub resources: BTreeMap<Arc<str>, NonZeroU32>,
}

impl EngineSettings {
    /// Reads `onnxruntime,KEY=VALUE` and, for every backend, `KEY=VALUE`. What is for other backends has no effect.
    pub(super) fn of(args: &TritonArgs, problems: &mut Vec<String>) -> Self {
        let mut settings = Self::default();
        for text in &args.backend_config {
            let (backend, setting) = text.split_once(',').unwrap_or(("", text));
            let Some((key, value)) = setting.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                problems.push(format!("backend_config {text:?} must be BACKEND,KEY=VALUE"));
                continue;
            };
            if matches!(backend, "" | "onnxruntime")
                && let Err(bound) = settings.set(key, value)
            {
                problems.push(format!("backend_config {text:?}: {key} {bound}"));
            }
        }
        settings
    }

    /// What the value must be, where it is not.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let threads = || value.parse().map(Some).map_err(|_| "must be a number of threads, or 0 for one per core");
        match key {
            "default-max-batch-size" => {
                self.default_max_batch_size =
                    value.parse().ok().filter(|size| *size <= 1 << 20).ok_or("must be from 0 to 1048576")?;
            }
            "enable-global-threadpool" => {
                self.has_global_threads = match value.to_ascii_lowercase().as_str() {
                    "1" | "true" => true,
                    "0" | "false" => false,
                    _ => return Err("must be 0 or 1"),
                };
            }
            "intra_op_thread_count" => self.intra_op_threads = threads()?,
            "inter_op_thread_count" => self.inter_op_threads = threads()?,
            _ => {
                tracing::warn!(key, value, "--backend-config has a key that means nothing here; it is ignored");
            }
        }
        Ok(())
    }
}

impl RateLimitSettings {
    /// What the instances of all models share; `None` where their limits are not obeyed.
    #[must_use]
    pub fn limiter(&self) -> Option<RateLimiter> {
        self.is_on.then(|| RateLimiter::new(self.resources.clone()))
    }

    /// Reads `NAME:COUNT` and `NAME:COUNT:DEVICE`; there is one device.
    pub(super) fn of(args: &TritonArgs, problems: &mut Vec<String>) -> Self {
        let mut resources = BTreeMap::new();
        for text in &args.rate_limit_resource {
            let mut parts = text.splitn(3, ':');
            let (name, count) = (parts.next().unwrap_or_default(), parts.next().and_then(|count| count.parse().ok()));
            match count {
                Some(count) if !name.is_empty() => drop(resources.insert(name.into(), count)),
                _ => problems.push(format!("rate_limit_resource {text:?} must be NAME:COUNT or NAME:COUNT:DEVICE")),
            }
        }
        Self { is_on: args.rate_limit == Some(RateLimitMode::ExecutionCount), resources }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(given: &[&str]) -> (EngineSettings, Vec<String>) {
        let backend_config = given.iter().map(|&text| text.to_owned()).collect();
        let mut problems = Vec::new();
        (EngineSettings::of(&TritonArgs { backend_config, ..TritonArgs::default() }, &mut problems), problems)
    }

    #[test]
    fn settings_of_the_engine_are_read() {
        let (settings, problems) = engine(&[
            "onnxruntime,default-max-batch-size=16",
            "onnxruntime,enable-global-threadpool=1",
            "onnxruntime,intra_op_thread_count=4",
            "tensorflow,version=2",
            "backend-directory=/opt",
        ]);
        let expected = EngineSettings {
            default_max_batch_size: 16,
            has_global_threads: true,
            intra_op_threads: Some(4),
            inter_op_threads: None,
        };
        assert_eq!((settings, problems), (expected, Vec::new()));
        let (_, problems) =
            engine(&["onnxruntime", "onnxruntime,default-max-batch-size=-1", "onnxruntime,intra_op_thread_count=all"]);
        assert_eq!(
            problems,
            [
                "backend_config \"onnxruntime\" must be BACKEND,KEY=VALUE",
                "backend_config \"onnxruntime,default-max-batch-size=-1\": default-max-batch-size must be from 0 to 1048576",
                "backend_config \"onnxruntime,intra_op_thread_count=all\": intra_op_thread_count must be a number of \
                 threads, or 0 for one per core",
            ]
        );
    }

    #[test]
    fn resources_are_read() {
        let resources = |given: &[&str]| {
            let rate_limit_resource = given.iter().map(|&text| text.to_owned()).collect();
            let rate_limit = Some(RateLimitMode::ExecutionCount);
            let args = TritonArgs { rate_limit, rate_limit_resource, ..TritonArgs::default() };
            let mut problems = Vec::new();
            (RateLimitSettings::of(&args, &mut problems), problems)
        };
        let (settings, problems) = resources(&["R1:10", "R2:5:0"]);
        assert!(settings.is_on && problems.is_empty(), "{problems:?}");
        assert_eq!(
            settings.resources,
            [("R1", 10), ("R2", 5)]
                .into_iter()
                .map(|(name, count)| (name.into(), NonZeroU32::new(count).expect("not 0")))
                .collect()
        );
        for wrong in ["R1", ":1", "R1:many", "R1:0", ""] {
            let (_, problems) = resources(&[wrong]);
            assert_eq!(problems, [format!("rate_limit_resource {wrong:?} must be NAME:COUNT or NAME:COUNT:DEVICE")]);
        }
    }
}
