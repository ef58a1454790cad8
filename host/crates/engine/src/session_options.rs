//! From a model's configuration to the options of its session. Whatever ONNX Runtime refuses is told with the name of the
//! setting that it came from.

use std::thread::available_parallelism;

use model::{
    Accelerator, ExecutionMode, GraphOptimization, MemoryArena, ModelConfig, SessionConfig, SessionThreads, ThreadCount,
};
use ort::session::builder::{BuilderResult, GraphOptimizationLevel, SessionBuilder};
use ort::session::{RunOptions, Session};

use crate::loader::LoaderOptions;
use crate::runtime::OrtRuntime;
use crate::{accelerators, custom_ops};

/// The options of a model's session.
///
/// # Errors
/// A text that names the model and the setting.
pub(crate) fn builder(
    runtime: &OrtRuntime,
    config: &ModelConfig,
    options: &LoaderOptions,
) -> Result<SessionBuilder, String> {
    let session = &config.session;
    let failed = |setting: &str| {
        let subject = format!("model '{}', {setting}", config.name);
        move |message: String| format!("{subject}: {message}")
    };
    let builder = Session::builder(runtime.environment()).map_err(message).map_err(failed("session options"))?;
    let builder = memory(builder, session).map_err(failed("memory settings"))?;
    let builder = threads(builder, session.threads, runtime).map_err(failed("thread counts"))?;
    let builder = graph(builder, session).map_err(failed("optimization.graph and execution_mode"))?;
    let builder = accelerators::add(builder, &session.accelerators).map_err(failed("execution_accelerators"))?;
    let builder = custom_ops::add(builder, &session.custom_op_libraries, &options.custom_op_libraries)
        .map_err(failed("model_operations"))?;
    session.entries.iter().try_fold(builder, |builder, (name, value)| {
        let parameter = format!("parameter 'ort.session.{name}'");
        builder.with_config_entry(name, value).map_err(message).map_err(failed(&parameter))
    })
}

/// The options of every run, where they differ from ONNX Runtime's.
///
/// # Errors
/// ONNX Runtime's words.
pub(crate) fn run_options(session: &SessionConfig) -> Result<Option<RunOptions>, String> {
    if session.memory_arena != MemoryArena::Shrunk {
        return Ok(None);
    }
    let mut options = RunOptions::new().map_err(message)?;
    options.set("memory.enable_memory_arena_shrinkage", "cpu:0").map_err(message)?;
    Ok(Some(options))
}

/// The execution provider that the session's work goes to first.
pub(crate) fn provider(session: &SessionConfig) -> &'static str {
    session.accelerators.first().map_or(crate::CPU_PROVIDER, |accelerator: &Accelerator| accelerator.provider())
}

fn memory(builder: SessionBuilder, session: &SessionConfig) -> Result<SessionBuilder, String> {
    let arena = ort::ep::CPU::default().with_arena_allocator(session.memory_arena != MemoryArena::Off);
    let builder = done(builder.with_execution_providers([arena.build().error_on_failure()]))?;
    let builder = done(builder.with_memory_pattern(session.memory_pattern))?;
    if session.initializers_outside_arena { done(builder.with_device_allocated_initializers()) } else { Ok(builder) }
}

/// A session has threads of its own unless there is a global pool and the model names no count.
fn threads(builder: SessionBuilder, threads: SessionThreads, runtime: &OrtRuntime) -> Result<SessionBuilder, String> {
    if runtime.has_global_threads() && !threads.are_named() {
        return Ok(builder);
    }
    let count = |named: Option<ThreadCount>| named.map_or(1, thread_count);
    let builder = done(builder.with_independent_thread_pool())?;
    let builder = done(builder.with_intra_threads(count(threads.intra_op)))?;
    done(builder.with_inter_threads(count(threads.inter_op)))
}

/// ONNX Runtime would count the machine's cores; this process may be allowed to use fewer of them, or less of their time.
pub(crate) fn thread_count(count: ThreadCount) -> usize {
    match count {
        ThreadCount::Cores => available_parallelism().map_or(1, usize::from),
        ThreadCount::Exactly(count) => usize::from(count.get()),
    }
}

fn graph(builder: SessionBuilder, session: &SessionConfig) -> Result<SessionBuilder, String> {
    let level = match session.graph_optimization {
        GraphOptimization::Disabled => GraphOptimizationLevel::Disable,
        GraphOptimization::Basic => GraphOptimizationLevel::Level1,
        GraphOptimization::Extended => GraphOptimizationLevel::Level2,
        GraphOptimization::All => GraphOptimizationLevel::All,
    };
    let builder = done(builder.with_optimization_level(level))?;
    done(builder.with_parallel_execution(session.execution_mode == ExecutionMode::Parallel))
}

/// The outcome with ONNX Runtime's words alone.
pub(crate) fn done(result: BuilderResult) -> Result<SessionBuilder, String> {
    result.map_err(message)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` wants")]
pub(crate) fn message<R>(error: ort::Error<R>) -> String {
    error.message().to_owned()
}
