//! `parameters`: those of ONNX Runtime, as Triton's backend takes them, Airlock's own, and ONNX Runtime's session options by
//! name. All others are kept for whoever reads them.

use std::collections::BTreeMap;

use model::{Execution, ExecutionMode, MemoryArena, ModelConfig, NonFinite, ThreadCount};

use super::super::declared_config::VERSION_LABELS;
use super::super::problem::did_you_mean;
use super::block::Block;
use super::{Rules, padding};

/// Most threads a model may ask for.
const THREADS_MAX: u16 = 1024;
/// What a session option's name in ONNX Runtime is written behind.
const SESSION_OPTION: &str = "ort.session.";

pub(super) fn read(root: &Block<'_>, config: &mut ModelConfig, rules: &mut Rules<'_, '_>) {
    let mut shrink = None;
    for (key, block) in root.entries("parameters") {
        let parameter = Parameter { value: block.text("string_value"), key, block };
        if parameter.key == "memory.enable_memory_arena_shrinkage" {
            shrink = parameter.check_shrinkage(rules).then_some(parameter);
        } else if !parameter.is_for_session(config, rules) && !parameter.is_airlocks(config, rules) {
            config.parameters.insert(parameter.key, parameter.value.to_owned());
        }
    }
    if let Some(parameter) = shrink {
        parameter.shrink_arena(config, rules);
    }
}

struct Parameter<'m> {
    key: String,
    value: &'m str,
    block: Block<'m>,
}

impl Parameter<'_> {
    /// Whether it is one of ONNX Runtime's, which goes into the session's configuration.
    fn is_for_session(&self, config: &mut ModelConfig, rules: &mut Rules<'_, '_>) -> bool {
        let session = &mut config.session;
        match self.key.as_str() {
            "intra_op_thread_count" => session.threads.intra_op = self.threads(rules),
            "inter_op_thread_count" => session.threads.inter_op = self.threads(rules),
            "execution_mode" => session.execution_mode = self.execution_mode(rules),
            "enable_mem_arena" => {
                session.memory_arena = if self.flag(rules) { MemoryArena::Kept } else { MemoryArena::Off };
            }
            "enable_mem_pattern" => session.memory_pattern = self.flag(rules),
            "session.use_device_allocator_for_initializers" => session.initializers_outside_arena = self.flag(rules),
            "TRITON_BATCH_STRATEGY_PATH" => {
                let message = "batching strategies are native code from the repository and are never loaded";
                self.refuse(message, "remove the parameter".to_owned(), rules);
            }
            key => {
                let Some(name) = key.strip_prefix(SESSION_OPTION) else { return false };
                if let Err(error) = session.entries.insert(name, self.value) {
                    self.refuse(error.to_string(), "remove the parameter".to_owned(), rules);
                }
            }
        }
        true
    }

    /// Whether it is one of Airlock's own, known or not.
    fn is_airlocks(&self, config: &mut ModelConfig, rules: &mut Rules<'_, '_>) -> bool {
        match self.key.as_str() {
            "airlock.execution" => config.execution = self.execution(rules),
            "airlock.split_large_requests" => config.batching.split_large_requests = self.flag(rules),
            "airlock.non_finite" => config.non_finite = self.non_finite(rules),
            VERSION_LABELS => {}
            key if key.starts_with(padding::PREFIX) => {}
            key if key.starts_with("airlock.") => {
                let known = [
                    "airlock.execution",
                    "airlock.non_finite",
                    "airlock.padding.…",
                    "airlock.split_large_requests",
                    VERSION_LABELS,
                ];
                let fix = did_you_mean(key, known).unwrap_or_else(|| format!("known: {}", known.join(", ")));
                let (at, place) = (self.block.own_at(), self.block.own_path());
                rules.report.error(at, place, format!("unknown parameter '{key}'"), fix);
            }
            _ => return false,
        }
        true
    }

    fn refuse(&self, message: impl Into<String>, fix: impl Into<Option<String>>, rules: &mut Rules<'_, '_>) {
        rules.refuse(&self.block, "string_value", message, fix);
    }

    fn threads(&self, rules: &mut Rules<'_, '_>) -> Option<ThreadCount> {
        let count = self.value.trim().parse::<u16>().ok().filter(|count| *count <= THREADS_MAX);
        if count.is_none() {
            let message =
                format!("'{}' is '{}'; it must be a whole number from 0 to {THREADS_MAX}", self.key, self.value);
            let fix = "write a number in quotes; 0 means as many as the cores that the server may use".to_owned();
            self.refuse(message, fix, rules);
        }
        count.map(ThreadCount::from)
    }

    fn execution_mode(&self, rules: &mut Rules<'_, '_>) -> ExecutionMode {
        match self.value.trim() {
            "0" => ExecutionMode::Sequential,
            "1" => ExecutionMode::Parallel,
            other => {
                let message = format!("'execution_mode' is '{other}'; it must be 0 (sequential) or 1 (parallel)");
                self.refuse(message, "write \"0\" or \"1\"".to_owned(), rules);
                ExecutionMode::Sequential
            }
        }
    }

    fn flag(&self, rules: &mut Rules<'_, '_>) -> bool {
        match self.value.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => {
                let message = format!("'{}' is '{}'; it must be 1 or true, or 0 or false", self.key, self.value);
                self.refuse(message, "write \"1\" or \"0\"".to_owned(), rules);
                false
            }
        }
    }

    fn execution(&self, rules: &mut Rules<'_, '_>) -> Execution {
        match self.value {
            "auto" => Execution::Auto,
            "inline" => Execution::Inline,
            "worker" => Execution::Worker,
            value => {
                let message = format!("'airlock.execution' is '{value}'; it must be auto, inline or worker");
                self.refuse(message, did_you_mean(value, ["auto", "inline", "worker"]), rules);
                Execution::Auto
            }
        }
    }

    fn non_finite(&self, rules: &mut Rules<'_, '_>) -> NonFinite {
        match self.value {
            "count" => NonFinite::Count,
            "refuse" => NonFinite::Refuse,
            value => {
                let message = format!("'airlock.non_finite' is '{value}'; it must be count or refuse");
                self.refuse(message, did_you_mean(value, ["count", "refuse"]), rules);
                NonFinite::Count
            }
        }
    }

    /// Whether it names the arena of the CPU, the only one there is. Devices besides it are named in a warning and left
    /// out: a run that is to shrink an arena which is not there fails.
    fn check_shrinkage(&self, rules: &mut Rules<'_, '_>) -> bool {
        let is_gpu = |device: &str| device.strip_prefix("gpu:").is_some_and(|id| id.parse::<u32>().is_ok());
        let (cpus, others): (Vec<_>, Vec<_>) = self.value.split(';').partition(|device| *device == "cpu:0");
        if !cpus.is_empty() && others.iter().all(|device| is_gpu(device)) {
            if !others.is_empty() {
                let message = format!("{} ignored: only cpu:0 has an arena here", others.join(", "));
                rules.report.warning(self.block.at("string_value"), self.block.path("string_value"), message);
            }
            return true;
        }
        let message =
            format!("'{}' is '{}'; it must be cpu:0, the only device with an arena here", self.key, self.value);
        self.refuse(message, "write \"cpu:0\"".to_owned(), rules);
        false
    }

    fn shrink_arena(&self, config: &mut ModelConfig, rules: &mut Rules<'_, '_>) {
        if config.session.memory_arena == MemoryArena::Off {
            let message =
                format!("'{}' is set and 'enable_mem_arena' is off, so there is no arena to shrink", self.key);
            return self.refuse(message, "remove one of the two".to_owned(), rules);
        }
        config.session.memory_arena = MemoryArena::Shrunk;
    }
}

/// ONNX Runtime settings for GPUs, which Triton has deprecated; they have no effect here.
const IGNORED: [&str; 4] =
    ["arena_extend_strategy", "cudnn_conv_algo_search", "do_copy_in_default_stream", "gpu_mem_limit"];

/// Adds the parameters without effect to `found`, by name.
pub(super) fn find_ignored(root: &Block<'_>, found: &mut BTreeMap<String, Option<usize>>) {
    for (key, parameter) in root.entries("parameters") {
        if IGNORED.contains(&key.as_str()) {
            found.insert(format!("parameters.{key}"), parameter.own_at());
        }
    }
}

#[cfg(test)]
mod tests;
