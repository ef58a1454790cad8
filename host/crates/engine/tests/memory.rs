//! What a version keeps of the memory of its largest run. The process has one test, so that its size is that test's.

mod common;

use common::{config, floats, instance, load, run};
use model::MemoryArena;

const LARGE_BYTES: usize = 128 << 20;

/// Bytes that this process has in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has a size");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// How much the process has grown after a large run between small ones, all outputs dropped. An arena never gives back what
/// it got for its very first run.
fn growth(arena: MemoryArena) -> usize {
    let mut config = config(4);
    config.session.memory_arena = arena;
    let mut instance = instance(load("dynamic.onnx", &config));
    let before = resident();
    let rows = LARGE_BYTES as u64 / 16;
    for rows in [1, rows, 1] {
        let input = floats(&[1, rows, 4], &vec![1.0; usize::try_from(rows).expect("fits") * 4]);
        run(&mut *instance, &[input]).expect("runs");
    }
    resident().saturating_sub(before)
}

#[test]
fn an_arena_keeps_what_it_is_not_told_to_give_back() {
    let kept = growth(MemoryArena::Kept);
    assert!(kept > LARGE_BYTES / 2, "the output's memory stays: {kept}");
    for arena in [MemoryArena::Shrunk, MemoryArena::Off] {
        let grown = growth(arena);
        assert!(grown < LARGE_BYTES / 2, "{arena:?}: {grown}");
    }
}
