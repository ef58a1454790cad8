//! What happens at the start of a process, in a process of its own: the environment of ONNX Runtime is readied while
//! there is one thread, and a missing library is told with every place that was looked at. It has no test harness, which
//! would start threads first.

use std::process::Command;

use engine::{LibraryError, LibrarySource, find_library, prepare_process};

const CHILD: &str = "find-the-library";

fn main() {
    if std::env::args().any(|argument| argument == CHILD) {
        return without_any_variable();
    }
    assert_ne!(std::env::var("ORT_DISABLE_TELEMETRY").ok().as_deref(), Some("1"), "the test needs it unset");
    prepare_process();
    assert_eq!(std::env::var("ORT_DISABLE_TELEMETRY").as_deref(), Ok("1"));
    prepare_process();

    let folder = tempfile::tempdir().expect("folder");
    let child = Command::new(std::env::current_exe().expect("this program"))
        .arg(CHILD)
        .env_clear()
        .current_dir(folder.path())
        .status()
        .expect("starts");
    assert!(child.success());
    println!("process: ok");
}

/// Runs in an empty folder with an empty environment. A machine may still have the library where it is installed.
fn without_any_variable() {
    match find_library(None) {
        Err(error @ LibraryError::NotFound { .. }) => {
            let text = error.to_string();
            let here = std::env::current_dir().expect("a folder").join("target/onnxruntime/lib");
            let places =
                [here.to_str().expect("UTF-8"), "/usr/local/lib/python3*/{site,dist}-packages", "/usr/lib/python3*"];
            for part in ["--onnxruntime PATH", "ORT_DYLIB_PATH", "pip install onnxruntime"].iter().chain(&places) {
                assert!(text.contains(part), "{part} is missing from: {text}");
            }
        }
        Ok(found) => {
            assert!(matches!(found.source, LibrarySource::PythonPackage | LibrarySource::Fetched), "{found:?}");
        }
        Err(other) => panic!("{other}"),
    }
}
