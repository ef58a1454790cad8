//! How busy the whole system is, as Triton shows it: read from /proc when somebody looks and the last reading is older
//! than the interval. A task that reads without being asked would do work that nobody sees, and what is told of the
//! processors is then about the time since the last scrape rather than about its last moments.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};
use tokio::time::Instant;

use super::families::{family, gauge};
use super::names;

const FAMILIES: [(&str, &str); 3] = [
    (names::NV_CPU_UTILIZATION, "CPU utilization rate [0.0 - 1.0]"),
    (names::NV_CPU_MEMORY_TOTAL, "CPU total memory (RAM), in bytes"),
    (names::NV_CPU_MEMORY_USED, "CPU used memory (RAM), in bytes"),
];

/// See the module.
pub(super) struct SystemSeries {
    interval: Duration,
    descs: [Desc; 3],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    times: ProcessorTimes,
    shown: Option<(Instant, [f64; 3])>,
}

impl SystemSeries {
    pub(super) fn new(interval: Duration) -> Self {
        let descs = FAMILIES.map(|(name, help)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new()).expect("the names are valid")
        });
        let times = read("stat").as_deref().and_then(ProcessorTimes::parse).unwrap_or_default();
        Self { interval, descs, state: Mutex::new(State { times, shown: None }) }
    }
}

impl State {
    /// Utilization, memory, memory in use. `None` where the system does not tell.
    fn values(&mut self, now: Instant, interval: Duration) -> Option<[f64; 3]> {
        if let Some((since, values)) = self.shown
            && now.saturating_duration_since(since) < interval
        {
            return Some(values);
        }
        let times = ProcessorTimes::parse(&read("stat")?)?;
        let [total, used] = memory(&read("meminfo")?)?;
        let values = [times.utilization_since(self.times), total, used];
        *self = Self { times, shown: Some((now, values)) };
        Some(values)
    }
}

impl Collector for SystemSeries {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let values = state.values(Instant::now(), self.interval);
        let shown = values.iter().flat_map(|values| FAMILIES.into_iter().zip(values));
        shown.map(|(shown, value)| family(shown, MetricType::GAUGE, vec![gauge(Vec::new(), *value)])).collect()
    }
}

/// A file of /proc; `None` on systems without.
fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new("/proc").join(name)).ok()
}

/// Ticks that all processors together have spent since the system started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProcessorTimes {
    busy: u64,
    idle: u64,
}

impl ProcessorTimes {
    /// Reads /proc/stat, whose first line is the sum over the processors: user, nice, system, idle, iowait, irq, softirq,
    /// steal, and two that are parts of the first two. Source: proc(5).
    fn parse(stat: &str) -> Option<Self> {
        let sum = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = sum.split_whitespace().map_while(|ticks| ticks.parse().ok()).take(8).collect();
        let idle = ticks.get(3..5)?.iter().sum();
        Some(Self { busy: ticks.iter().sum::<u64>() - idle, idle })
    }

    /// The share of the time since `earlier` that was not idle.
    fn utilization_since(self, earlier: Self) -> f64 {
        let busy = self.busy.saturating_sub(earlier.busy);
        let all = busy + self.idle.saturating_sub(earlier.idle);
        #[expect(clippy::cast_precision_loss, reason = "ticks")]
        let share = busy as f64 / all.max(1) as f64;
        share
    }
}

/// Bytes of memory, and those of them that are not available, of /proc/meminfo.
fn memory(meminfo: &str) -> Option<[f64; 2]> {
    let bytes = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    let (total, available) = (bytes("MemTotal")?, bytes("MemAvailable")?);
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    let values = [total, total.saturating_sub(available)].map(|bytes| bytes as f64);
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processors_share_is_what_was_not_idle_in_between() {
        let parse = |line: &str| ProcessorTimes::parse(&format!("{line}\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n"));
        let first = parse("cpu  100 10 50 800 40 0 0 0 0 0").expect("a line");
        assert_eq!(first, ProcessorTimes { busy: 160, idle: 840 });
        let second = parse("cpu  160 10 60 810 60 0 0 0 30 0").expect("a line");
        assert!((second.utilization_since(first) - 0.7).abs() < 1e-9);
        assert!(first.utilization_since(first).abs() < 1e-9, "no time has passed");
        assert_eq!(parse("cpu  1 2"), None);
        assert_eq!(ProcessorTimes::parse("intr 5"), None);
    }

    #[test]
    fn memory_in_use_is_what_is_not_available() {
        let text = "MemTotal:       8000 kB\nMemFree:  1 kB\nMemAvailable:   3000 kB\n";
        assert_eq!(memory(text), Some([8000.0 * 1024.0, 5000.0 * 1024.0]));
        assert_eq!(memory("MemTotal: 8000 kB\n"), None);
    }

    #[test]
    fn a_reading_holds_for_the_interval() {
        let (mut state, now, interval) = (State::default(), Instant::now(), Duration::from_secs(2));
        let Some(first) = state.values(now, interval) else { return };
        assert!((0.0..=1.0).contains(&first[0]) && first[1] > first[2] && first[2] > 0.0, "{first:?}");
        state.times = ProcessorTimes::default();
        assert_eq!(state.values(now + interval / 2, interval), Some(first));
        assert_eq!(state.times, ProcessorTimes::default(), "nothing was read");
        state.values(now + interval, interval);
        assert_ne!(state.times, ProcessorTimes::default());
    }
}
