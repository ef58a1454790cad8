//! The threads that guests run on when they do not run on a request's own thread: the plugin runtime for guests that are
//! long or not yet proven short, and as many threads of low priority for plugins that ran out of time lately. A guest that
//! loops takes all that its thread is given; at low priority it takes what nobody else wants.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use super::RuntimeError;

/// How much lower than serving threads those of suspects run (the system's nice value).
const SUSPECT_NICE: i32 = 15;

/// How long threads may take to stop.
const STOP_TIME: Duration = Duration::from_secs(1);

/// The two sets of threads. Dropping it stops them.
pub(super) struct GuestThreads {
    long_guests: Handle,
    suspects: Handle,
    owned: Option<[Runtime; 2]>,
}

impl GuestThreads {
    /// Starts `count` threads of each kind.
    pub(super) fn start(count: usize) -> Result<Self, RuntimeError> {
        let long_guests = start("airlock-guest", count, || {})?;
        let suspects = start("airlock-suspect", count, || lower_priority(SUSPECT_NICE))?;
        let handles = [&long_guests, &suspects].map(|runtime| runtime.handle().clone());
        let [long_guests_handle, suspects_handle] = handles;
        let owned = Some([long_guests, suspects]);
        Ok(Self { long_guests: long_guests_handle, suspects: suspects_handle, owned })
    }

    pub(super) fn long_guests(&self) -> &Handle {
        &self.long_guests
    }

    pub(super) fn suspects(&self) -> &Handle {
        &self.suspects
    }
}

impl Drop for GuestThreads {
    fn drop(&mut self) {
        for runtime in self.owned.take().into_iter().flatten() {
            // Waiting is not allowed on a thread that runs async tasks; the threads then end by themselves.
            if Handle::try_current().is_ok() {
                runtime.shutdown_background();
            } else {
                runtime.shutdown_timeout(STOP_TIME);
            }
        }
    }
}

fn start(name: &'static str, count: usize, on_start: fn()) -> Result<Runtime, RuntimeError> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(count)
        .max_blocking_threads(1)
        .thread_name(name)
        .on_thread_start(on_start)
        .enable_time()
        .build();
    runtime.map_err(|error| RuntimeError::Thread { thread: name, message: error.to_string() })
}

/// Gives the calling thread a lower priority than serving threads have.
pub(crate) fn lower_priority(nice: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        let thread = std::thread::current();
        tracing::warn!(thread = thread.name(), %error, "a thread keeps the priority of serving threads");
    }
}
