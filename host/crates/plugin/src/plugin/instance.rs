//! One live guest: its store, its exports and the permit that lets it live. One call at a time uses it; after a trap, a
//! timeout or a dropped call it is never used again.

use std::sync::Arc;

use wasmtime::{Store, UpdateDeadline};

use crate::PluginSpec;
use crate::bindings::AdapterPlugin;
use crate::compile::CompiledPlugin;
use crate::runtime::{Permit, SandboxRuntime};
use crate::sandbox::{RESOURCES_MAX, Sandbox};

/// A running guest yields after this many ticks of the epoch.
pub(crate) const SLICE_TICKS: u64 = 1;

/// A live guest. The store goes before the permit, so that its slots are free when the next one may start.
pub(crate) struct Instance {
    pub(crate) store: Store<Sandbox>,
    pub(crate) adapter: AdapterPlugin,
    pub(crate) calls: u64,
    _permit: Permit<Self>,
}

impl Instance {
    /// Runs the guest's start-up code. The caller bounds the time.
    pub(crate) async fn start(
        runtime: &SandboxRuntime,
        compiled: &CompiledPlugin,
        spec: &Arc<PluginSpec>,
        permit: Permit<Self>,
    ) -> wasmtime::Result<Self> {
        let mut store = Store::new(runtime.engine(), Sandbox::new(spec, runtime.store_bounds()));
        store.limiter(|sandbox| &mut sandbox.meter);
        store.set_hostcall_fuel(spec.limits.crossing_bytes());
        store.set_max_component_handles(RESOURCES_MAX);
        // Tokio's own yield lets the runtime look at its timers and sockets before the guest goes on.
        store.epoch_deadline_callback(|_| {
            Ok(UpdateDeadline::YieldCustom(SLICE_TICKS, Box::pin(tokio::task::yield_now())))
        });
        store.set_epoch_deadline(SLICE_TICKS);
        let adapter = compiled.pre().instantiate_async(&mut store).await?;
        Ok(Self { store, adapter, calls: 0, _permit: permit })
    }

    /// Bytes of its memories.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.store.data().meter.used()
    }
}
