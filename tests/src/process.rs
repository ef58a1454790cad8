//! Signals to a process and its memory, as the system sees them.

use anyhow::{Context, Result};
use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

/// Sends a signal to the process `pid`.
///
/// # Errors
/// When there is no such process.
pub fn send(pid: u32, signal: Signal) -> Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| format!("{pid} is no process id"))?;
    kill_process(number, signal).with_context(|| format!("sending {signal:?} to process {pid}"))
}

/// Resident memory of the process `pid` in bytes.
///
/// # Errors
/// When `/proc` does not say it.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS line")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().with_context(|| format!("VmRSS is {line:?}"))?;
    Ok(kib << 10)
}
