//! The process's asynchronous tasks: each has a name, hears of the stop through one token and is waited for at the end.
//! A task that panics is logged by name; what that means for service is said where the task is spawned.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks that stop together. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Spawns `task` on the current runtime.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(async move {
            if futures_catch(task).await.is_err() {
                tracing::error!(task = name, "a task panicked");
            }
        });
    }

    /// Resolves once the tasks should stop.
    #[must_use]
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Asks every task to stop and waits for them, `patience` at most. Says whether all of them have ended.
    pub async fn stop(&self, patience: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(patience, self.tracker.wait()).await.is_ok()
    }
}

/// Runs a future to its end or its panic.
async fn futures_catch(task: impl Future<Output = ()>) -> Result<(), ()> {
    let mut task = std::pin::pin!(AssertUnwindSafe(task));
    std::future::poll_fn(move |context| {
        let poll = std::panic::catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context)));
        match poll {
            Ok(poll) => poll.map(Ok),
            Err(_) => std::task::Poll::Ready(Err(())),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_task_does_not_hold_up_the_stop() {
        let tasks = Tasks::default();
        let stop = tasks.stop_token();
        tasks.spawn("waits", async move { stop.cancelled().await });
        tasks.spawn("panics", async { panic!("on purpose") });
        assert!(tasks.stop(Duration::from_secs(5)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let tasks = Tasks::default();
        tasks.spawn("never ends", std::future::pending());
        assert!(!tasks.stop(Duration::from_secs(5)).await);
    }
}
