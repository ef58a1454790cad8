//! The host as a plugin's own tests see it: settings, assets, signature and stores that a test sets, log lines and
//! metrics that it reads. Each thread has its own, so tests that run side by side do not meet. Not there in a component.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::log::Level;
use crate::{Call, Request, TensorSpec};

#[derive(Default)]
struct Host {
    config: HashMap<String, String>,
    assets: HashMap<String, Vec<u8>>,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    lines: Vec<(Level, String)>,
    metrics: Vec<(String, f64)>,
    stores: HashMap<String, HashMap<String, Vec<u8>>>,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

fn with<T>(act: impl FnOnce(&mut Host) -> T) -> T {
    HOST.with_borrow_mut(act)
}

/// Sets a value of `[config]`: text as it is, anything else as JSON text.
pub fn set_config(key: &str, value: &str) {
    with(|host| host.config.insert(key.to_owned(), value.to_owned()));
}

/// Sets a file of `assets/`.
pub fn set_asset(path: &str, content: impl Into<Vec<u8>>) {
    with(|host| host.assets.insert(path.to_owned(), content.into()));
}

/// Sets the model's signature.
pub fn set_signature(inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) {
    with(|host| (host.inputs, host.outputs) = (inputs, outputs));
}

/// Grants an empty key-value store.
pub fn grant_store(name: &str) {
    with(|host| host.stores.insert(name.to_owned(), HashMap::new()));
}

/// The lines logged so far.
#[must_use]
pub fn logged() -> Vec<(Level, String)> {
    with(|host| host.lines.clone())
}

/// The metric values given so far, counters and histograms alike.
#[must_use]
pub fn measured() -> Vec<(String, f64)> {
    with(|host| host.metrics.clone())
}

/// A call with nothing special about it.
#[must_use]
pub fn call() -> Call {
    Call {
        request_id: "test".to_owned(),
        model: "model".to_owned(),
        version: "1".to_owned(),
        content_type: None,
        accept: None,
        headers: Vec::new(),
        budget_ms: 1000,
    }
}

/// A request with this body and nothing special about it.
#[must_use]
pub fn request(body: impl Into<Vec<u8>>) -> Request {
    Request { call: call(), body: body.into() }
}

/// What [`crate::host`] calls instead of the component's imports; the signatures are theirs.
pub(crate) mod doubles {
    use super::with;

    pub(crate) mod config {
        use super::with;

        pub(crate) fn get(key: &str) -> Option<String> {
            with(|host| host.config.get(key).cloned())
        }

        pub(crate) fn asset(path: &str) -> Option<Vec<u8>> {
            with(|host| host.assets.get(path).cloned())
        }
    }

    pub(crate) mod log {
        use super::with;
        use crate::log::Level;

        pub(crate) fn write(level: Level, message: &str) {
            with(|host| host.lines.push((level, message.to_owned())));
        }
    }

    pub(crate) mod metrics {
        use super::with;

        pub(crate) fn add(name: &str, value: f64) {
            with(|host| host.metrics.push((name.to_owned(), value)));
        }

        pub(crate) fn observe(name: &str, value: f64) {
            add(name, value);
        }
    }

    pub(crate) mod model_info {
        use super::with;
        use crate::TensorSpec;

        pub(crate) fn inputs() -> Vec<TensorSpec> {
            with(|host| host.inputs.clone())
        }

        pub(crate) fn outputs() -> Vec<TensorSpec> {
            with(|host| host.outputs.clone())
        }
    }

    pub(crate) mod key_value {
        use std::collections::HashMap;

        use super::with;
        use crate::key_value::KvError;

        type Store = HashMap<String, Vec<u8>>;

        fn in_store<T>(name: &str, act: impl FnOnce(&mut Store) -> T) -> Result<T, KvError> {
            with(|host| match host.stores.get_mut(name) {
                Some(store) => Ok(act(store)),
                None => Err(KvError::Denied(format!("the key-value store `{name}` is not granted"))),
            })
        }

        pub(crate) fn get(store: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
            in_store(store, |store| keys.iter().map(|key| store.get(key).cloned()).collect())
        }

        pub(crate) fn set(store: &str, key: &str, value: &[u8], _ttl_ms: u64) -> Result<(), KvError> {
            in_store(store, |store| {
                store.insert(key.to_owned(), value.to_vec());
            })
        }

        pub(crate) fn add(store: &str, key: &str, delta: i64, _ttl_ms: u64) -> Result<i64, KvError> {
            in_store(store, |store| {
                let current = store.get(key).and_then(|value| std::str::from_utf8(value).ok()?.parse::<i64>().ok());
                let sum = current.unwrap_or(0).wrapping_add(delta);
                store.insert(key.to_owned(), sum.to_string().into_bytes());
                sum
            })
        }

        pub(crate) fn delete(store: &str, key: &str) -> Result<(), KvError> {
            in_store(store, |store| {
                store.remove(key);
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, metrics, model_info};

    #[test]
    fn what_a_test_sets_is_what_the_plugin_sees() {
        let spec = TensorSpec { name: "x".to_owned(), data_type: DataType::Fp32, shape: vec![-1, 4], optional: false };
        set_signature(vec![spec.clone()], Vec::new());
        assert_eq!(model_info::inputs(), [spec]);
        assert_eq!(model_info::outputs(), []);
        metrics::add("seen_total", 1.0);
        metrics::observe("score", 0.5);
        assert_eq!(measured(), [("seen_total".to_owned(), 1.0), ("score".to_owned(), 0.5)]);
        assert_eq!(request("a").body, b"a");
    }
}
