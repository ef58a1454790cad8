//! The plugin's own metrics. Names are declared in plugin.toml; others are dropped and counted.

use crate::host;

/// Adds to a counter.
pub fn add(name: &str, value: f64) {
    host::metrics::add(name, value);
}

/// Adds a value to a histogram.
pub fn observe(name: &str, value: f64) {
    host::metrics::observe(name, value);
}
