//! JSON bodies. [`parse`] reads a body straight into a type; only where that fails is it read again to say what is wrong
//! and where. [`Object`] is for plugins that want every wrong field of a body at once, [`Scanner`] for those that count
//! microseconds.

mod explain;
mod object;
mod scanner;

use serde::Deserialize;

use crate::PluginError;

pub use explain::pointer_segment;
pub use object::{Kind, Object};
pub use scanner::Scanner;

/// Reads a JSON body.
///
/// # Errors
/// `malformed` where the body is not JSON; `invalid` with a pointer to the first wrong field where it is JSON of
/// another form. Codes: `missing_field`, `unknown_field`, `duplicate_field`, `wrong_type`, `wrong_length`,
/// `invalid_value`.
pub fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, PluginError> {
    serde_json::from_slice(body).map_err(|error| explain::explain::<T>(body, &error))
}
