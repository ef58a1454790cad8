//! What a configuration asks of its session, with real ONNX Runtime: refusals name the setting and what to do.

mod common;

use common::{config, floats, instance, load, load_error, run, to_floats};
use model::{Accelerator, ExecutionMode, LoadError, MemoryArena, ModelConfig, SessionConfig};

fn with(change: impl FnOnce(&mut SessionConfig)) -> ModelConfig {
    let mut config = config(4);
    change(&mut config.session);
    config
}

#[test]
fn every_setting_runs() {
    let settings: [fn(&mut SessionConfig); 6] = [
        |session| session.execution_mode = ExecutionMode::Parallel,
        |session| session.memory_arena = MemoryArena::Off,
        |session| session.memory_arena = MemoryArena::Shrunk,
        |session| session.memory_pattern = false,
        |session| session.initializers_outside_arena = true,
        |session| session.entries.insert("session.disable_prepacking", "1").expect("allowed"),
    ];
    for (i, setting) in settings.into_iter().enumerate() {
        let mut instance = instance(load("add.onnx", &with(setting)));
        let input = floats(&[1, 2], &[1.0, 2.0]);
        for _ in 0..2 {
            let output =
                run(&mut *instance, &[input.clone(), input.clone()]).unwrap_or_else(|error| panic!("{i}: {error}"));
            assert_eq!(to_floats(output.tensors[0].data()), [2.0, 4.0], "{i}");
        }
    }
}

#[test]
fn an_option_that_the_session_refuses_is_named() {
    const OPTION: &str = "session.intra_op_thread_affinities";
    let config = with(|session| {
        session.threads.intra_op = Some(3.into());
        session.entries.insert(OPTION, "not cores").expect("allowed");
    });
    let text = load_error("add.onnx", &config).to_string();
    assert!(text.contains("or look at its parameters ort.session.session.intra_op_thread_affinities"), "{text}");
}

#[test]
fn accelerators_that_the_library_lacks_are_told_with_what_to_install() {
    for accelerator in [Accelerator::Cuda, Accelerator::TensorRt, Accelerator::OpenVino] {
        let error = load_error("add.onnx", &with(|session| session.accelerators.push(accelerator)));
        assert!(matches!(error, LoadError::Unsupported(_)), "{error:?}");
        let text = error.to_string();
        let begin = format!(
            "model 'm', execution_accelerators: accelerator '{}' needs {}, which the loaded ONNX Runtime does not have (it \
             has ",
            accelerator.config_name(),
            accelerator.provider()
        );
        assert!(text.starts_with(&begin) && text.contains("CPUExecutionProvider"), "{text}");
    }
}
