//! The `airlock` binary: prepares the process, then hands over to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before any thread exists: it sets an environment variable that ONNX Runtime reads when it is loaded.
    engine::prepare_process();
    airlock::cli::run()
}
