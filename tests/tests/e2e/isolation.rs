//! Serving writes nothing outside the folders it was given, and nothing into the model repository.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Result;
use tests::repository::contents;
use tests::scaler::{self, Scaling};
use tests::{Repository, ServerOptions, fixtures};

#[tokio::test]
async fn nothing_is_written_outside_the_configured_folders() -> Result<()> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "scaler", &Scaling::new("one", 10.0))?;
    folder.write_folder("samples", &scaler::sample_of_shape())?;
    repository.add("sum", |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
    let surroundings = tempfile::tempdir()?;
    let place = |name: &str| -> Result<PathBuf> {
        let path = surroundings.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    };
    let state = tempfile::tempdir()?;
    let state_dir = state.path().join("state");
    let mut options = ServerOptions::new(&repository).state_dir(&state_dir).working_dir(&place("work")?);
    for variable in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TMPDIR"] {
        options = options.variable(variable, place(variable)?);
    }
    let before = repository.contents()?;
    let server = options.start().await?;

    let mut client = server.client();
    for number in 0..200 {
        client.predict("scaler", scaler::body(scaler::figures(number))).await?.expect(200)?;
    }
    let infer = r#"{"inputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]},
                               {"name": "b", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}"#;
    client.post("/v2/models/sum/infer", infer).await?.expect(200)?;
    client.predict("scaler", "{").await?.expect(400)?;
    server.metrics().await?;
    server.stop().await?;

    for place in std::fs::read_dir(surroundings.path())? {
        let place = place?.path();
        let found: Vec<_> = std::fs::read_dir(&place)?.collect();
        assert!(found.is_empty(), "{} holds {found:?}", place.display());
    }
    assert_eq!(repository.contents()?, before, "the repository's files");
    let mode = std::fs::metadata(&state_dir)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "mode of the state folder");
    let written: Vec<PathBuf> = contents(state.path())?.into_keys().collect();
    assert!(written.iter().all(|path| path.starts_with(&state_dir)), "{written:?}");
    assert!(!written.is_empty(), "the compile cache and the history are kept");
    Ok(())
}
