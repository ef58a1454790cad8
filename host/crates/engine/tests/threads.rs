//! How many threads a session has. The process has one test, so that nothing else starts threads meanwhile.

mod common;

use std::thread::available_parallelism;

use common::{config, load};
use model::{ExecutionMode, SessionThreads, ThreadCount};

#[test]
fn a_session_has_the_threads_that_its_configuration_names() {
    common::runtime();
    let cores = available_parallelism().map_or(1, usize::from);
    // The thread that runs the model is one of those inside an operator.
    let cases = [
        (None, None, ExecutionMode::Sequential, 0),
        (Some(1), None, ExecutionMode::Sequential, 0),
        (Some(4), None, ExecutionMode::Sequential, 3),
        (Some(0), None, ExecutionMode::Sequential, cores - 1),
        (Some(1), Some(3), ExecutionMode::Parallel, 2),
        (Some(1), Some(3), ExecutionMode::Sequential, 0),
    ];
    for (intra_op, inter_op, execution_mode, expected) in cases {
        let mut config = config(4);
        let count = |count: Option<u16>| count.map(ThreadCount::from);
        config.session.threads = SessionThreads { intra_op: count(intra_op), inter_op: count(inter_op) };
        config.session.execution_mode = execution_mode;
        let before = common::threads();
        let loaded = load("add.onnx", &config);
        assert_eq!(common::threads() - before, expected, "{intra_op:?} {inter_op:?} {execution_mode:?}");
        drop(loaded);
        assert_eq!(common::threads(), before, "they end with the session");
    }
}
