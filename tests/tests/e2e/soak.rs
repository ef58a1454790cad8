//! The short form of `soak swap`: many swaps in a row under load, with no request failed and no memory kept per swap.

use std::time::Duration;

use anyhow::Result;
use tests::soak::{SoakPlan, swaps};

#[tokio::test]
async fn a_thousand_swaps_fail_no_request_and_keep_no_memory() -> Result<()> {
    let plan =
        SoakPlan { swaps: Some(1000), time: None, interval: Duration::from_millis(50), connections: 2, settle_ms: 5 };
    let report = swaps(plan, |_| {}).await?;
    assert_eq!(report.last.swaps, 1000);
    assert!(report.slope_bytes_per_swap < 4096.0, "{} bytes per swap", report.slope_bytes_per_swap);
    let load = report.load.expect_no_failure()?;
    assert!(load.requests > 0);
    Ok(())
}
