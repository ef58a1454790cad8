//! The thread that ends time slices: it advances the engine's epoch each millisecond while a guest runs, so that a running
//! guest yields, and parks when none has run for a while. If it died, guests would no longer yield; it cannot fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// A running guest yields this often.
const TICK: Duration = Duration::from_millis(1);

/// Ticks without any guest after which the thread parks: waking it costs a call more than a few idle ticks do.
const IDLE_TICKS: u32 = 100;

/// The epoch's clock. Dropping it stops and joins the thread.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
    join: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    entered: AtomicU64,
    left: AtomicU64,
    parked: AtomicBool,
    stop: AtomicBool,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let join = std::thread::Builder::new()
            .name("airlock-epoch".to_owned())
            .spawn(move || of_thread.run(|| engine.increment_epoch()))?;
        Ok(Self { shared, thread: join.thread().clone(), join: Some(join) })
    }

    /// Time advances while the guard lives.
    pub(crate) fn enter(&self) -> Running<'_> {
        self.shared.entered.fetch_add(1, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running { left: &self.shared.left }
    }

    /// Whether the thread stands still.
    pub(crate) fn is_parked(&self) -> bool {
        self.shared.parked.load(Ordering::SeqCst)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if let Some(join) = self.join.take()
            && join.join().is_err()
        {
            tracing::error!("the epoch thread had panicked: guests were no longer made to yield");
        }
    }
}

/// A guest is running.
pub(crate) struct Running<'a> {
    left: &'a AtomicU64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.left.fetch_add(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn run(&self, tick: impl Fn()) {
        let mut seen = 0;
        let mut idle = 0;
        while !self.stop.load(Ordering::SeqCst) {
            std::thread::park_timeout(TICK);
            tick();
            let (left, entered) = (self.left.load(Ordering::SeqCst), self.entered.load(Ordering::SeqCst));
            idle = if entered == left && entered == seen { idle + 1 } else { 0 };
            seen = entered;
            if idle >= IDLE_TICKS {
                self.park(seen);
                idle = 0;
            }
        }
    }

    /// Stands still until a guest enters. `enter` counts before it looks at `parked` and this looks at the count after it
    /// set `parked`, so one of the two sees the other.
    fn park(&self, seen: u64) {
        self.parked.store(true, Ordering::SeqCst);
        while self.entered.load(Ordering::SeqCst) == seen && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.parked.store(false, Ordering::SeqCst);
    }
}
