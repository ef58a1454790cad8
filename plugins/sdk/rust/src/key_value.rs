//! Key-value stores that the operator granted to this plugin by name; none by default.

use crate::{PluginError, host};

pub use crate::bindings::airlock::plugin::key_value::KvError;

/// One entry per key, in order.
///
/// # Errors
/// Where the store is not granted or not there.
pub fn get(store: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
    host::key_value::get(store, keys)
}

/// Keeps a value. A `ttl_ms` of 0 means the longest the grant allows.
///
/// # Errors
/// Where the store is not granted or not there, or where key or value are too large.
pub fn set(store: &str, key: &str, value: &[u8], ttl_ms: u64) -> Result<(), KvError> {
    host::key_value::set(store, key, value, ttl_ms)
}

/// Adds to a number and returns the sum; an absent key counts as 0.
///
/// # Errors
/// Where the store is not granted or not there, or where the key is too large.
pub fn add(store: &str, key: &str, delta: i64, ttl_ms: u64) -> Result<i64, KvError> {
    host::key_value::add(store, key, delta, ttl_ms)
}

/// Forgets a value.
///
/// # Errors
/// Where the store is not granted or not there.
pub fn delete(store: &str, key: &str) -> Result<(), KvError> {
    host::key_value::delete(store, key)
}

impl From<KvError> for PluginError {
    fn from(error: KvError) -> Self {
        match error {
            KvError::Denied(text) => Self::Internal(text),
            KvError::TooLarge => Self::internal("the key or the value is larger than the grant allows"),
            KvError::Unavailable(text) => Self::unavailable(text, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_store_is_denied_until_it_is_granted() {
        let error = get("seen", &["a".to_owned()]).unwrap_err();
        assert!(matches!(&error, KvError::Denied(text) if text.contains("`seen`")), "{error:?}");
        assert!(matches!(PluginError::from(error), PluginError::Internal(_)));
        testing::grant_store("seen");
        assert_eq!(set("seen", "a", b"1", 0), Ok(()));
        assert_eq!(add("seen", "n", 2, 0), Ok(2));
        assert_eq!(add("seen", "n", -3, 0), Ok(-1));
        let keys = ["a", "b"].map(str::to_owned);
        assert_eq!(get("seen", &keys), Ok(vec![Some(b"1".to_vec()), None]));
        assert_eq!(delete("seen", "a"), Ok(()));
        assert_eq!(get("seen", &keys), Ok(vec![None, None]));
    }
}
