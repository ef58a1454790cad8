//! One pool of threads for all sessions. The process has one test, so that nothing else starts threads meanwhile.

mod common;

use common::{config, fixture, floats, instance, load, run, to_floats};
use engine::{GlobalThreads, LoaderOptions, OrtLoader, OrtRuntime, RuntimeOptions, find_library};
use model::{LoadRequest, ModelLoader as _, ThreadCount, VersionNumber};

#[test]
fn sessions_share_the_pool_unless_they_name_their_own_threads() {
    let location = find_library(None).unwrap_or_else(|error| panic!("{error}"));
    let global_threads = Some(GlobalThreads { intra_op: 4.into(), inter_op: 1.into() });
    let before = common::threads();
    let runtime =
        OrtRuntime::init(&location.path, &RuntimeOptions { global_threads }).unwrap_or_else(|e| panic!("{e}"));
    let loader = OrtLoader::new(runtime, LoaderOptions::default());
    let pool = common::threads() - before;
    assert_eq!(pool, 3, "the thread that runs a model is the fourth");

    let config = config(4);
    let version = VersionNumber::new(1).expect("a version");
    let request = LoadRequest { config: &config, version, path: &fixture("add.onnx") };
    let loaded: Vec<_> = (0..4).map(|_| loader.load(&request).expect("loads")).collect();
    assert_eq!(common::threads() - before, pool, "four sessions, no further threads");
    for loaded in loaded {
        let input = floats(&[1, 2], &[1.0, 2.0]);
        let output = run(&mut *instance(loaded), &[input.clone(), input]).expect("runs");
        assert_eq!(to_floats(output.tensors[0].data()), [2.0, 4.0]);
    }

    let mut own = config.clone();
    own.session.threads.intra_op = Some(ThreadCount::from(3));
    let loaded = load("add.onnx", &own);
    assert_eq!(common::threads() - before, pool + 2, "its own two, beside the thread that runs it");
    drop(loaded);
}
