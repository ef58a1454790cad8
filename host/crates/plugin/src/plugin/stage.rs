//! One stage of one request: get an instance, enter the guest within its time, and decide what becomes of the instance.
//! Whatever happens, the instance either goes back to the pool unharmed or is dropped and counted with its reason.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Tensor;
use tokio::time::{Instant, timeout_at};
use wasmtime::PoolConcurrencyLimitError;
use wasmtime::component::ResourceTableError;

use super::deadline::{Elapsed, within};
use super::instance::SLICE_TICKS;
use super::pool::InUse;
use super::{DropReason, Instance, Plugin, convert};
use crate::bindings::airlock::plugin::types::{PluginError, Request};
use crate::failure::Place;
use crate::runtime::{Grant, LineFull, Permit, Running};
use crate::sandbox::RESOURCES_MAX;
use crate::{
    Call, LogEntry, LogLevel, LogSource, Placement, PluginFailure, PluginSpec, Prepared, Response, Reuse, Stage,
    StageTiming,
};

/// Bytes of a crash's text that go into the failure; all of it goes to the plugin's log.
const CRASH_TEXT_BYTES: usize = 512;

/// Bytes of a crash's backtrace that go into the plugin's log.
const BACKTRACE_BYTES: usize = 16 << 10;

/// How wasmtime names a crossing that was larger than [`Limits::crossing_bytes`](crate::Limits); its type is private.
const CROSSING_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// The time that a stage has, and where it runs.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) placement: Placement,
    stage: Stage,
    start: Instant,
    end: Instant,
    by_limit: bool,
}

impl Window {
    pub(super) fn open(stage: Stage, plugin: &Plugin, deadline: Instant) -> Self {
        let start = Instant::now();
        let limit = start + plugin.spec.limits.time;
        let placement = plugin.placement(stage);
        Self { placement, stage, start, end: deadline.min(limit), by_limit: limit <= deadline }
    }

    pub(super) fn place(&self, spec: &PluginSpec) -> Place {
        self.place_in(spec, self.stage)
    }

    fn place_in(&self, spec: &PluginSpec, stage: Stage) -> Place {
        Place { model: spec.model.to_string(), generation: spec.generation, stage }
    }

    fn budget(&self) -> Duration {
        self.end.saturating_duration_since(self.start)
    }

    /// What the guest is told that it has left, at least 1 ms.
    fn left_ms(&self) -> u32 {
        let left = self.end.saturating_duration_since(Instant::now()).as_millis();
        u32::try_from(left).unwrap_or(u32::MAX).max(1)
    }

    fn timeout(&self, spec: &PluginSpec, stage: Stage) -> PluginFailure {
        let place = self.place_in(spec, stage);
        if self.by_limit {
            PluginFailure::Timeout { place, limit: spec.limits.time }
        } else {
            PluginFailure::DeadlineExceeded { place, budget: self.budget() }
        }
    }
}

impl Plugin {
    pub(super) async fn run_preprocess(
        self: Arc<Self>,
        call: Arc<Call>,
        body: Bytes,
        window: Window,
    ) -> Result<Prepared, PluginFailure> {
        let mut lease = self.lease(&window).await?;
        let instance = lease.enter(&call);
        let (headers, version) = (convert::headers(&call.headers), call.version.to_string());
        let about = convert::call(&call, (self.spec.model.as_str(), &version), &headers, window.left_ms());
        let request = Request { call: about, body: &body };
        let guest = instance.adapter.airlock_plugin_adapter();
        let outcome = within(window.end, guest.call_preprocess(&mut instance.store, request)).await;
        let reply = lease.leave(&call, outcome)?;
        let place = || window.place(&self.spec);
        match reply {
            Ok(prepared) => convert::prepared(prepared, &self.spec.limits)
                .map_err(|message| PluginFailure::Contract { place: place(), message }),
            Err(error) => Err(self.refused(error, &call, place)),
        }
    }

    pub(super) async fn run_postprocess(
        self: Arc<Self>,
        call: Arc<Call>,
        outputs: Vec<Tensor>,
        carry: Bytes,
        window: Window,
    ) -> Result<Response, PluginFailure> {
        let mut lease = self.lease(&window).await?;
        let instance = lease.enter(&call);
        let (headers, version) = (convert::headers(&call.headers), call.version.to_string());
        let about = convert::call(&call, (self.spec.model.as_str(), &version), &headers, window.left_ms());
        let tensors = convert::tensors(&outputs);
        let guest = instance.adapter.airlock_plugin_adapter();
        let entered = guest.call_postprocess(&mut instance.store, about, &tensors, &carry);
        let outcome = within(window.end, entered).await;
        let reply = lease.leave(&call, outcome)?;
        let place = || window.place(&self.spec);
        match reply {
            Ok(response) => convert::response(response, &self.spec.limits)
                .map_err(|message| PluginFailure::Contract { place: place(), message }),
            Err(error) => Err(self.refused(error, &call, place)),
        }
    }

    /// The plugin's own refusal. What it says of its own faults goes to its log too, since no client may see it.
    fn refused(&self, error: PluginError, call: &Call, place: impl FnOnce() -> Place) -> PluginFailure {
        let failure = convert::refusal(error, &self.spec.limits, place);
        if let PluginFailure::Internal { message, .. } = &failure {
            self.log_as_host(message, Some(call));
        }
        failure
    }

    async fn lease<'a>(self: &'a Arc<Self>, window: &'a Window) -> Result<Lease<'a>, PluginFailure> {
        let instance = match self.warm() {
            Some(instance) => instance,
            None => match self.room(window).await? {
                Grant::Instance(instance) => instance,
                Grant::Permit(permit) => self.start(window, permit).await?,
            },
        };
        let in_use = self.pool.count_in_use();
        Ok(Lease {
            plugin: self,
            window,
            instance: Some(instance),
            entered: None,
            is_counted: true,
            _running: None,
            _in_use: in_use,
        })
    }

    fn warm(&self) -> Option<Instance> {
        match self.spec.reuse {
            Reuse::Warm(_) => self.pool.take(),
            Reuse::Fresh => None,
        }
    }

    /// Room for an instance: free, or taken from an idle one, or by waiting in line.
    async fn room(&self, window: &Window) -> Result<Grant<Instance>, PluginFailure> {
        let capacity = self.runtime.capacity();
        if let Some(permit) = capacity.try_permit() {
            return Ok(Grant::Permit(permit));
        }
        let exhausted = |message: String| PluginFailure::Exhausted { place: window.place(&self.spec), message };
        let mut granted = capacity.wait(self.pool.number()).map_err(|LineFull| {
            exhausted(format!(
                "all {} instances (--plugin-instances) are in use and {} calls (--plugin-queue-size) wait; try again \
                 later or raise the limits",
                capacity.total(),
                capacity.waiting_max()
            ))
        })?;
        if let Ok(grant) = granted.try_recv() {
            return Ok(grant);
        }
        // An instance may have become idle just before this call got in line; nobody would hand it on.
        if let Some(instance) = self.warm() {
            return Ok(Grant::Instance(instance));
        }
        self.runtime.evict_idle();
        match timeout_at(window.end, granted).await {
            Ok(Ok(grant)) => Ok(grant),
            Ok(Err(_)) | Err(_) => Err(exhausted(format!(
                "all {} instances (--plugin-instances) stayed in use for {} ms; try again later or raise the limit",
                capacity.total(),
                window.budget().as_millis()
            ))),
        }
    }

    async fn start(&self, window: &Window, permit: Permit<Instance>) -> Result<Instance, PluginFailure> {
        self.pool.count_created();
        let unfinished = Unfinished { plugin: self, reason: DropReason::Cancelled };
        let started = {
            let _running = self.runtime.ticker().enter();
            within(window.end, Instance::start(&self.runtime, &self.compiled, &self.spec, permit)).await
        };
        match started {
            Ok(Ok(instance)) => {
                unfinished.finish();
                Ok(instance)
            }
            Ok(Err(error)) => {
                unfinished.fail(DropReason::Crashed);
                let place = window.place_in(&self.spec, Stage::Instantiate);
                if let Some(limit) = error.downcast_ref::<PoolConcurrencyLimitError>() {
                    return Err(PluginFailure::Exhausted { place, message: limit.to_string() });
                }
                Err(self.crashed(place, &error, None))
            }
            Err(Elapsed) => {
                if window.by_limit {
                    self.suspicion.ran_out_of_time();
                }
                unfinished.fail(DropReason::TimedOut);
                Err(window.timeout(&self.spec, Stage::Instantiate))
            }
        }
    }

    /// Why a guest did not come back from a call.
    fn died(&self, place: Place, error: &wasmtime::Error, refused: Option<usize>, call: &Call) -> PluginFailure {
        let limits = &self.spec.limits;
        if error.root_cause().to_string().contains(CROSSING_EXHAUSTED) {
            let message = format!(
                "what it gave back is larger than {} bytes, the largest of limits.output_mb ({}, tensors {}) \
                 with limits.carry_kb ({}), and 1 MiB for the rest",
                limits.crossing_bytes(),
                limits.body_bytes_max,
                limits.tensor_bytes_max,
                limits.carry_bytes_max
            );
            return PluginFailure::Contract { place, message };
        }
        match refused {
            Some(asked) => {
                self.log_crash(&place, error, Some(call));
                PluginFailure::OutOfMemory { place, limit: limits.memory_bytes, asked }
            }
            None => self.crashed(place, error, Some(call)),
        }
    }

    fn crashed(&self, place: Place, error: &wasmtime::Error, call: Option<&Call>) -> PluginFailure {
        self.log_crash(&place, error, call);
        let message = match error.root_cause().downcast_ref() {
            Some(ResourceTableError::Full) => format!(
                "it holds {RESOURCES_MAX} WASI handles (streams, pollables), as many as an instance may; drop each once it \
                 is done with"
            ),
            _ => convert::cut(&error.root_cause().to_string(), CRASH_TEXT_BYTES).to_owned(),
        };
        PluginFailure::Crashed { place, message }
    }

    fn log_crash(&self, place: &Place, error: &wasmtime::Error, call: Option<&Call>) {
        let backtrace = format!("{place} crashed: {error:?}");
        self.log_as_host(convert::cut(&backtrace, BACKTRACE_BYTES), call);
    }

    fn log_as_host(&self, message: &str, call: Option<&Call>) {
        let (level, source) = (LogLevel::Error, LogSource::Host);
        let request_id = call.map_or("", |call| &call.request_id);
        let trace_id = call.and_then(|call| call.trace_id.as_deref());
        self.spec.sink.log(&LogEntry { level, source, message, request_id, trace_id });
    }
}

/// An instance for one call. Dropped before the guest came back, it takes the instance with it.
struct Lease<'a> {
    plugin: &'a Plugin,
    window: &'a Window,
    instance: Option<Instance>,
    entered: Option<Instant>,
    is_counted: bool,
    _running: Option<Running<'a>>,
    _in_use: InUse<'a>,
}

impl<'a> Lease<'a> {
    /// The instance, ready for `call`.
    fn enter(&mut self, call: &Arc<Call>) -> &mut Instance {
        let instance = self.instance.as_mut().expect("a lease holds its instance until the guest comes back");
        instance.calls += 1;
        instance.store.data_mut().begin(call);
        instance.store.set_epoch_deadline(SLICE_TICKS);
        self._running = Some(self.plugin.runtime.ticker().enter());
        self.is_counted = call.is_counted;
        self.entered = Some(Instant::now());
        instance
    }

    /// What the guest gave back; decides what becomes of the instance.
    fn leave<T>(mut self, call: &Call, outcome: Result<wasmtime::Result<T>, Elapsed>) -> Result<T, PluginFailure> {
        let mut instance = self.instance.take().expect("a lease holds its instance until the guest comes back");
        self.record();
        let (plugin, window) = (self.plugin, self.window);
        let sandbox = instance.store.data_mut();
        sandbox.end();
        match &outcome {
            Ok(_) => plugin.suspicion.came_back(),
            Err(Elapsed) if window.by_limit => plugin.suspicion.ran_out_of_time(),
            Err(Elapsed) => {}
        }
        match outcome {
            Ok(Ok(reply)) => {
                plugin.keep(instance);
                Ok(reply)
            }
            Ok(Err(error)) => {
                let refused = sandbox.meter.refused();
                plugin.pool.discard(instance, DropReason::Crashed);
                Err(plugin.died(window.place(&plugin.spec), &error, refused, call))
            }
            Err(Elapsed) => {
                plugin.pool.discard(instance, DropReason::TimedOut);
                Err(window.timeout(&plugin.spec, window.stage))
            }
        }
    }

    fn record(&self) {
        let Some(entered) = self.entered else { return };
        let run = entered.elapsed();
        let window = self.window;
        self.plugin.times(window.stage).record(run);
        let wait = entered.saturating_duration_since(window.start);
        if self.is_counted {
            let timing = StageTiming { wait, run, placement: window.placement };
            self.plugin.spec.sink.stage(window.stage, timing);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(mut instance) = self.instance.take() {
            instance.store.data_mut().end();
            self.record();
            self.plugin.pool.discard(instance, DropReason::Cancelled);
        }
    }
}

impl Plugin {
    /// Gives an unharmed instance back, or replaces it by policy.
    fn keep(&self, instance: Instance) {
        let reason = match &self.spec.reuse {
            Reuse::Fresh => Some(DropReason::Fresh),
            Reuse::Warm(policy) if instance.calls >= policy.calls_max => Some(DropReason::Calls),
            Reuse::Warm(policy) if instance.memory_bytes() > policy.memory_bytes_kept_max => Some(DropReason::Memory),
            Reuse::Warm(_) => None,
        };
        match reason {
            Some(reason) => self.pool.discard(instance, reason),
            None => self.pool.put(instance),
        }
    }
}

/// An instance that is being made; counted as dropped where it does not get ready.
struct Unfinished<'a> {
    plugin: &'a Plugin,
    reason: DropReason,
}

impl Unfinished<'_> {
    fn finish(self) {
        std::mem::forget(self);
    }

    fn fail(mut self, reason: DropReason) {
        self.reason = reason;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.plugin.pool.count_drop(self.reason);
    }
}
