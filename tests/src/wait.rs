//! Bounded waiting for something that another process does. A look is cheap and frequent; what is waited for is named,
//! so that a test which gives up says why.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// How long anything may take that a test waits for. Generous: the machines are shared, and only a failure waits it out.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(4);

/// Looks until `look` finds something, `limit` at most.
///
/// # Errors
/// When the limit is over; the text names `what` was waited for.
pub async fn eventually<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        if Instant::now() >= end {
            bail!("gave up after {} s of waiting for {what}", limit.as_secs_f32());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
