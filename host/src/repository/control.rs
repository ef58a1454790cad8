//! Load and unload requests: asked on a serving thread, carried out by the reconciler, answered when it is decided what
//! came of them. The queue is bounded; what does not fit is refused at once.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use model::ModelName;
use tokio::sync::{Semaphore, oneshot, watch};

use super::overrides::Overrides;
use super::reconciler::Wake;

/// Requests that wait to be carried out, or while they are.
pub const REQUESTS_WAITING_MAX: usize = 1_024;

/// Why a request was not carried out. Texts are Triton's where Triton has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// No repository has such a model, or more than one has.
    #[error("failed to load '{name}', failed to poll from model repository; {reason}")]
    NotFound {
        /// The model.
        name: ModelName,
        /// What was looked for.
        reason: String,
    },
    /// It does not load; what served before serves on.
    #[error("load failed for model '{name}': {reason}")]
    Refused {
        /// The model.
        name: ModelName,
        /// Every reason.
        reason: String,
    },
    /// Another request for the same model came first, or the server is stopping.
    #[error("the request for model '{name}' was overtaken by a later one, or the server is stopping; ask again")]
    Overtaken {
        /// The model.
        name: ModelName,
    },
    /// Too many requests wait.
    #[error("{REQUESTS_WAITING_MAX} load and unload requests wait already; try again later")]
    Busy,
}

/// How a request is answered.
pub type Answer = oneshot::Sender<Result<(), ControlError>>;

/// A request for the reconciler.
pub enum ControlRequest {
    /// Load a model, or load it again.
    Load {
        /// The model.
        name: ModelName,
        /// What stands in for its files.
        overrides: Option<Overrides>,
        /// Whoever asked.
        answer: Answer,
    },
    /// Serve a model no longer.
    Unload {
        /// The model.
        name: ModelName,
        /// Whoever asked.
        answer: Answer,
    },
}

/// The way to the reconciler. Clones are the same one.
#[derive(Clone)]
pub struct ModelControlQueue {
    state: Arc<Mutex<QueueState>>,
    /// One permit per request that waits for its answer.
    places: Arc<Semaphore>,
    /// Whether nothing is waited for any more.
    closed: Arc<watch::Sender<bool>>,
}

impl Default for ModelControlQueue {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(REQUESTS_WAITING_MAX));
        Self { state: Arc::default(), places, closed: Arc::new(watch::Sender::new(false)) }
    }
}

#[derive(Default)]
struct QueueState {
    requests: VecDeque<ControlRequest>,
    wake: Option<SyncSender<Wake>>,
}

impl ModelControlQueue {
    /// Loads a model, or loads it again where its files or `overrides` differ from what serves. Answered when it serves,
    /// or when it is known why not.
    ///
    /// # Errors
    /// A [`ControlError`].
    pub async fn load(&self, name: ModelName, overrides: Option<Overrides>) -> Result<(), ControlError> {
        self.ask(name, |name, answer| ControlRequest::Load { name, overrides, answer }).await
    }

    /// Serves a model no longer. Requests that it holds already are answered. A model that does not serve is none.
    ///
    /// # Errors
    /// A [`ControlError`].
    pub async fn unload(&self, name: ModelName) -> Result<(), ControlError> {
        self.ask(name, |name, answer| ControlRequest::Unload { name, answer }).await
    }

    async fn ask(
        &self,
        name: ModelName,
        request: impl FnOnce(ModelName, Answer) -> ControlRequest,
    ) -> Result<(), ControlError> {
        let _place = self.places.try_acquire().map_err(|_| ControlError::Busy)?;
        let (answer, answered) = oneshot::channel();
        self.push(request(name.clone(), answer))?;
        let mut closed = self.closed.subscribe();
        tokio::select! {
            answer = answered => answer.unwrap_or(Err(ControlError::Overtaken { name })),
            _ = closed.wait_for(|closed| *closed) => Err(ControlError::Overtaken { name }),
        }
    }

    /// The server is about to stop: whoever waits is told so now, and nobody waits from now on.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    fn push(&self, request: ControlRequest) -> Result<(), ControlError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.requests.len() >= REQUESTS_WAITING_MAX {
            return Err(ControlError::Busy);
        }
        state.requests.push_back(request);
        if let Some(wake) = &state.wake {
            // Where the wake-ups do not fit, one is waiting already.
            let _ = wake.try_send(Wake::Hint);
        }
        Ok(())
    }

    /// What waits, in the order in which it came.
    pub(super) fn take(&self) -> VecDeque<ControlRequest> {
        std::mem::take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).requests)
    }

    /// From now on requests wake the reconciler.
    pub(super) fn attach(&self, wake: SyncSender<Wake>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).wake = Some(wake);
    }

    /// The reconciler ends: what waits is answered so.
    pub(super) fn detach(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.wake = None;
        state.requests.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ModelName {
        ModelName::new("m").expect("a name")
    }

    #[tokio::test]
    async fn a_request_is_answered_once_and_never_left_alone() {
        let queue = ModelControlQueue::default();
        let asked = queue.clone();
        let load = tokio::spawn(async move { asked.load(name(), None).await });
        let request = loop {
            match queue.take().pop_front() {
                Some(request) => break request,
                None => tokio::task::yield_now().await,
            }
        };
        let ControlRequest::Load { answer, .. } = request else { panic!("a load was asked for") };
        answer.send(Ok(())).expect("somebody waits");
        assert_eq!(load.await.expect("no panic"), Ok(()));

        let asked = queue.clone();
        let unload = tokio::spawn(async move { asked.unload(name()).await });
        tokio::task::yield_now().await;
        queue.detach();
        assert_eq!(unload.await.expect("no panic"), Err(ControlError::Overtaken { name: name() }));
    }

    #[tokio::test]
    async fn nobody_waits_for_a_server_that_stops() {
        let queue = ModelControlQueue::default();
        let asked = queue.clone();
        let load = tokio::spawn(async move { asked.load(name(), None).await });
        tokio::task::yield_now().await;
        queue.close();
        assert_eq!(load.await.expect("no panic"), Err(ControlError::Overtaken { name: name() }));
        assert_eq!(queue.unload(name()).await, Err(ControlError::Overtaken { name: name() }));
    }

    #[tokio::test]
    async fn requests_in_hand_are_bounded_as_those_in_the_queue() {
        let queue = ModelControlQueue::default();
        let asks = (0..REQUESTS_WAITING_MAX).map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.load(name(), None).await })
        });
        let asks: Vec<_> = asks.collect();
        let mut in_hand = VecDeque::new();
        while in_hand.len() < REQUESTS_WAITING_MAX {
            tokio::task::yield_now().await;
            in_hand.append(&mut queue.take());
        }
        assert_eq!(queue.load(name(), None).await, Err(ControlError::Busy));
        drop(in_hand);
        for ask in asks {
            assert_eq!(ask.await.expect("no panic"), Err(ControlError::Overtaken { name: name() }));
        }
    }

    #[tokio::test]
    async fn the_queue_is_bounded() {
        let queue = ModelControlQueue::default();
        for _ in 0..REQUESTS_WAITING_MAX {
            queue.push(ControlRequest::Unload { name: name(), answer: oneshot::channel().0 }).expect("there is room");
        }
        assert_eq!(queue.unload(name()).await, Err(ControlError::Busy));
    }
}
