//! Counts the memory of one instance over all its linear memories. Growth past the limit fails inside the guest, which
//! may cope (Python raises MemoryError); a refusal is remembered, so that a guest that died of it can be told from one
//! that crashed.

use wasmtime::{ResourceLimiter, Result};

/// Bounds of a store that come from the pool, not from the plugin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreBounds {
    pub(crate) core_instances: usize,
    pub(crate) memories: usize,
    pub(crate) tables: usize,
    pub(crate) table_elements: usize,
}

/// The limiter of a guest's store.
#[derive(Debug)]
pub(crate) struct MemoryMeter {
    limit: usize,
    used: usize,
    last_growth: usize,
    refused: Option<usize>,
    bounds: StoreBounds,
}

impl MemoryMeter {
    pub(crate) fn new(limit: usize, bounds: StoreBounds) -> Self {
        Self { limit, used: 0, last_growth: 0, refused: None, bounds }
    }

    pub(crate) fn begin_call(&mut self) {
        self.refused = None;
    }

    /// Bytes of all memories together.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// What the instance would have had at the last growth refused in this call.
    pub(crate) fn refused(&self) -> Option<usize> {
        self.refused
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let growth = desired.saturating_sub(current);
        let asked = self.used.saturating_add(growth);
        if asked > self.limit {
            self.refused = Some(asked);
            return Ok(false);
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.used = asked;
        self.last_growth = growth;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        self.used = self.used.saturating_sub(std::mem::take(&mut self.last_growth));
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(desired <= self.bounds.table_elements)
    }

    fn instances(&self) -> usize {
        self.bounds.core_instances
    }

    fn tables(&self) -> usize {
        self.bounds.tables
    }

    fn memories(&self) -> usize {
        self.bounds.memories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(limit: usize) -> MemoryMeter {
        let bounds = StoreBounds { core_instances: 8, memories: 2, tables: 2, table_elements: 100 };
        MemoryMeter::new(limit, bounds)
    }

    #[test]
    fn the_limit_is_over_all_memories_together() {
        let mut meter = meter(100);
        assert!(meter.memory_growing(0, 60, None).expect("no trap"));
        assert!(!meter.memory_growing(0, 50, None).expect("no trap"));
        assert_eq!(meter.refused(), Some(110));
        assert!(meter.memory_growing(0, 40, None).expect("no trap"), "a refusal takes nothing");
        assert_eq!(meter.used(), 100);
        meter.begin_call();
        assert_eq!(meter.refused(), None);
    }

    #[test]
    fn growth_that_fails_later_is_given_back() {
        let mut meter = meter(100);
        assert!(meter.memory_growing(0, 60, None).expect("no trap"));
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).expect("no trap");
        assert_eq!(meter.used(), 0);
        assert!(!meter.memory_growing(0, 60, Some(50)).expect("no trap"), "past the memory's own maximum");
        assert_eq!((meter.used(), meter.refused()), (0, None));
    }

    #[test]
    fn tables_are_bounded() {
        assert!(meter(0).table_growing(0, 100, None).expect("no trap"));
        assert!(!meter(0).table_growing(0, 101, None).expect("no trap"));
    }
}
