//! What one guest instance sees and may use: its memory meter, its WASI with nothing granted, the call it serves and the
//! budget of its words. The store that owns the instance owns this; one call at a time uses it.

mod imports;
mod meter;
mod speech;
mod wasi;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

pub(crate) use self::imports::{data_type, link};
pub(crate) use self::meter::{MemoryMeter, StoreBounds};
pub(crate) use self::speech::Speech;
use crate::{Call, Dropped, PluginSpec};

/// Most resources (WASI streams, pollables) that a guest may hold on the host.
pub(crate) const RESOURCES_MAX: usize = 1024;

/// The data of a guest's store.
pub(crate) struct Sandbox {
    pub(crate) meter: MemoryMeter,
    spec: Arc<PluginSpec>,
    wasi: WasiCtx,
    table: ResourceTable,
    speech: Arc<Mutex<Speech>>,
    call: Option<Arc<Call>>,
    metrics_left: usize,
    metrics_dropped: u64,
    random_drawn: u64,
}

impl Sandbox {
    pub(crate) fn new(spec: &Arc<PluginSpec>, bounds: StoreBounds) -> Self {
        let speech = Arc::new(Mutex::new(Speech::new(Arc::clone(&spec.sink), &spec.limits)));
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        Self {
            meter: MemoryMeter::new(spec.limits.memory_bytes, bounds),
            spec: Arc::clone(spec),
            wasi: wasi::deny_all(&speech),
            table,
            speech,
            call: None,
            metrics_left: spec.limits.metrics_max,
            metrics_dropped: 0,
            random_drawn: 0,
        }
    }

    /// Fresh budgets for a call; clocks and random numbers start over.
    pub(crate) fn begin(&mut self, call: &Arc<Call>) {
        self.call = Some(Arc::clone(call));
        self.metrics_left = self.spec.limits.metrics_max;
        self.random_drawn = 0;
        self.meter.begin_call();
        speak(&self.speech).begin(call, &self.spec.limits);
    }

    /// Whether a client asked; what an instance does while it starts counts too.
    fn is_counted(&self) -> bool {
        self.call.as_ref().is_none_or(|call| call.is_counted)
    }

    /// Ends a call: what is left of its output goes to the log, and what was dropped is told.
    pub(crate) fn end(&mut self) {
        let is_counted = self.is_counted();
        self.call = None;
        speak(&self.speech).end();
        let dropped = std::mem::take(&mut self.metrics_dropped);
        if dropped > 0 && is_counted {
            self.spec.sink.dropped(Dropped::Metrics, dropped);
        }
    }
}

impl WasiView for Sandbox {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

fn speak(speech: &Mutex<Speech>) -> MutexGuard<'_, Speech> {
    speech.lock().unwrap_or_else(PoisonError::into_inner)
}
