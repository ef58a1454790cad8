//! The imports of the `adapter-plugin` world, and WASI. Everything links for every guest; what was not granted answers
//! with an error that names the grant to ask for.

use model::{DataType, TensorSpec};
use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::random as wasi_random;

use super::wasi::RANDOM_BYTES_MAX;
use super::{Sandbox, speak};
use crate::bindings::AdapterPlugin;
use crate::bindings::airlock::plugin::{config, key_value, log, metrics, model_info, types};
use crate::{LogLevel, LogSource, MetricKind};

/// Defines every import once, for all guests.
pub(crate) fn link(linker: &mut Linker<Sandbox>) -> Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    wasi_random::random::add_to_linker::<_, HasSelf<_>>(linker, |sandbox| sandbox)?;
    wasi_random::insecure::add_to_linker::<_, HasSelf<_>>(linker, |sandbox| sandbox)?;
    linker.allow_shadowing(false);
    AdapterPlugin::add_to_linker::<_, HasSelf<_>>(linker, |sandbox| sandbox)
}

impl types::Host for Sandbox {}

impl log::Host for Sandbox {
    fn write(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Trace => LogLevel::Trace,
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        speak(&self.speech).say(level, LogSource::Log, &message);
    }
}

impl config::Host for Sandbox {
    fn get(&mut self, key: String) -> Option<String> {
        self.spec.config.get(&key).cloned()
    }

    fn asset(&mut self, path: String) -> Option<Vec<u8>> {
        self.spec.assets.get(&path).map(|file| file.to_vec())
    }
}

impl model_info::Host for Sandbox {
    fn inputs(&mut self) -> Vec<types::TensorSpec> {
        self.call.as_ref().map(|call| specs(&call.signature.inputs)).unwrap_or_default()
    }

    fn outputs(&mut self) -> Vec<types::TensorSpec> {
        self.call.as_ref().map(|call| specs(&call.signature.outputs)).unwrap_or_default()
    }
}

fn specs(tensors: &[TensorSpec]) -> Vec<types::TensorSpec> {
    let one = |tensor: &TensorSpec| types::TensorSpec {
        name: tensor.name.to_string(),
        data_type: data_type(tensor.data_type),
        shape: tensor.shape.clone(),
        optional: false,
    };
    tensors.iter().map(one).collect()
}

/// The contract's name of a data type.
pub(crate) fn data_type(data_type: DataType) -> types::DataType {
    match data_type {
        DataType::Bool => types::DataType::Boolean,
        DataType::Uint8 => types::DataType::Uint8,
        DataType::Uint16 => types::DataType::Uint16,
        DataType::Uint32 => types::DataType::Uint32,
        DataType::Uint64 => types::DataType::Uint64,
        DataType::Int8 => types::DataType::Int8,
        DataType::Int16 => types::DataType::Int16,
        DataType::Int32 => types::DataType::Int32,
        DataType::Int64 => types::DataType::Int64,
        DataType::Fp16 => types::DataType::Fp16,
        DataType::Bf16 => types::DataType::Bf16,
        DataType::Fp32 => types::DataType::Fp32,
        DataType::Fp64 => types::DataType::Fp64,
        DataType::Bytes => types::DataType::Bytes,
    }
}

impl metrics::Host for Sandbox {
    fn add(&mut self, name: String, value: f64) {
        let lawful = value.is_finite() && value >= 0.0;
        self.write_metric(&name, MetricKind::Counter, lawful.then_some(value));
    }

    fn observe(&mut self, name: String, value: f64) {
        self.write_metric(&name, MetricKind::Histogram, value.is_finite().then_some(value));
    }
}

impl Sandbox {
    fn write_metric(&mut self, name: &str, kind: MetricKind, value: Option<f64>) {
        let declared = self.spec.metrics.get(name) == Some(&kind);
        match value {
            Some(value) if declared && self.metrics_left > 0 => {
                self.metrics_left -= 1;
                if self.is_counted() {
                    self.spec.sink.metric(name, kind, value);
                }
            }
            _ => self.metrics_dropped += 1,
        }
    }

    fn denied(&self, store: &str) -> key_value::KvError {
        key_value::KvError::Denied(format!(
            "model '{}' has no grant for the key-value store '{store}'; ask the operator for the grant `key_value = \
             [\"{store}\"]`",
            self.spec.model
        ))
    }

    /// The next number of a sequence that is the same in every call (SplitMix64, Steele et al. 2014).
    fn draw(&mut self) -> u64 {
        self.random_drawn = self.random_drawn.wrapping_add(1);
        let mut z = self.random_drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn draw_bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        if len > RANDOM_BYTES_MAX {
            return Err(wasmtime::Error::msg(format!(
                "at most {RANDOM_BYTES_MAX} random bytes can be asked for at once, got {len}"
            )));
        }
        let len = usize::try_from(len)?;
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.draw().to_le_bytes());
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

impl key_value::Host for Sandbox {
    fn get(&mut self, store: String, _keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, key_value::KvError> {
        Err(self.denied(&store))
    }

    fn set(&mut self, store: String, _: String, _: Vec<u8>, _: u64) -> Result<(), key_value::KvError> {
        Err(self.denied(&store))
    }

    fn add(&mut self, store: String, _: String, _: i64, _: u64) -> Result<i64, key_value::KvError> {
        Err(self.denied(&store))
    }

    fn delete(&mut self, store: String, _: String) -> Result<(), key_value::KvError> {
        Err(self.denied(&store))
    }
}

impl wasi_random::random::Host for Sandbox {
    fn get_random_bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        self.draw_bytes(len)
    }

    fn get_random_u64(&mut self) -> Result<u64> {
        Ok(self.draw())
    }
}

impl wasi_random::insecure::Host for Sandbox {
    fn get_insecure_random_bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        self.draw_bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        Ok(self.draw())
    }
}
