//! A bound around a guest. A guest that yields at each tick wakes its task at once, so a runtime may look at its timers
//! late; the clock is therefore read here at each yield.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::time::{Instant, Sleep, sleep_until};

/// The time is over; what was running was dropped with the future.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Runs `future` until it is done or `end` has come. A future that never waits costs no timer.
pub(crate) async fn within<F: Future>(end: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut timer = pin!(None::<Sleep>);
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        if Instant::now() >= end {
            return Poll::Ready(Err(Elapsed));
        }
        if timer.is_none() {
            timer.set(Some(sleep_until(end)));
        }
        let timer = timer.as_mut().as_pin_mut().expect("the timer was just set");
        timer.poll(context).map(|()| Err(Elapsed))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_future_that_hangs_ends_at_its_time() {
        let start = Instant::now();
        let end = start + Duration::from_secs(5);
        assert_eq!(within(end, std::future::pending::<()>()).await, Err(Elapsed));
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_that_wakes_itself_ends_at_its_time() {
        let end = Instant::now() + Duration::from_secs(5);
        let busy = poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let advance = async {
            tokio::time::advance(Duration::from_secs(5)).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = within(end, busy) => assert_eq!(outcome, Err(Elapsed)),
            () = advance => unreachable!("it waits forever"),
        }
    }

    #[tokio::test]
    async fn a_future_that_is_ready_needs_no_time() {
        assert_eq!(within(Instant::now(), std::future::ready(7)).await, Ok(7));
    }
}
