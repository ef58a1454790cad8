//! Execution accelerators (Triton's `execution_accelerators`): what the loaded library has, and what is said where it has
//! not. Nothing falls back to the CPU in silence.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::Accelerator;
use ort::session::builder::SessionBuilder;

use crate::raw::available_providers;
use crate::session_options::done;

/// Adds the accelerators to a session's options.
///
/// # Errors
/// A text that says which one cannot be had and what to do.
pub(crate) fn add(builder: SessionBuilder, accelerators: &[Accelerator]) -> Result<SessionBuilder, String> {
    if accelerators.is_empty() {
        return Ok(builder);
    }
    let available = available_providers()?;
    accelerators.iter().try_fold(builder, |builder, &accelerator| {
        check(accelerator, &available)?;
        let provider = ort::ep::OpenVINO::default().with_device_type("CPU").build().error_on_failure();
        done(builder.with_execution_providers([provider]))
    })
}

/// To be held while a session with these accelerators is made: OpenVINO makes one at a time.
pub(crate) fn turn(accelerators: &[Accelerator]) -> Option<MutexGuard<'static, ()>> {
    static OPENVINO: Mutex<()> = Mutex::new(());
    let needs_turn = accelerators.contains(&Accelerator::OpenVino);
    needs_turn.then(|| OPENVINO.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether an accelerator can run here; of those that exist, OpenVINO alone runs on the CPU.
fn check(accelerator: Accelerator, available: &[String]) -> Result<(), String> {
    let (name, provider) = (accelerator.config_name(), accelerator.provider());
    if !available.iter().any(|available| available == provider) {
        let package = match accelerator {
            Accelerator::Cuda | Accelerator::TensorRt => "onnxruntime-gpu",
            Accelerator::OpenVino => "onnxruntime-openvino",
        };
        return Err(format!(
            "accelerator '{name}' needs {provider}, which the loaded ONNX Runtime does not have (it has {}); name a \
             library that has it with --onnxruntime, such as that of the Python package {package}, or remove the \
             accelerator",
            available.join(", ")
        ));
    }
    match accelerator {
        Accelerator::OpenVino => Ok(()),
        Accelerator::Cuda | Accelerator::TensorRt => Err(format!(
            "accelerator '{name}' runs on a GPU, and this version runs every instance on the CPU; remove the accelerator"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accelerator_needs_its_provider_and_a_device() {
        let cpu = ["CPUExecutionProvider".to_owned()];
        let all =
            ["TensorrtExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider"].map(str::to_owned);
        let lacks = |name, provider, package| {
            format!(
                "accelerator '{name}' needs {provider}, which the loaded ONNX Runtime does not have (it has \
                 CPUExecutionProvider); name a library that has it with --onnxruntime, such as that of the Python package \
                 {package}, or remove the accelerator"
            )
        };
        let cases = [
            (Accelerator::Cuda, &cpu[..], Err(lacks("cuda", "CUDAExecutionProvider", "onnxruntime-gpu"))),
            (Accelerator::TensorRt, &cpu, Err(lacks("tensorrt", "TensorrtExecutionProvider", "onnxruntime-gpu"))),
            (Accelerator::OpenVino, &cpu, Err(lacks("openvino", "OpenVINOExecutionProvider", "onnxruntime-openvino"))),
            (Accelerator::OpenVino, &all, Ok(())),
            (
                Accelerator::Cuda,
                &all,
                Err("accelerator 'cuda' runs on a GPU, and this version runs every instance on the CPU; remove the \
                     accelerator"
                    .to_owned()),
            ),
        ];
        for (accelerator, available, expected) in cases {
            assert_eq!(check(accelerator, available), expected, "{accelerator:?}");
        }
    }
}
