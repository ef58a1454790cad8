use super::*;

fn problems(result: Result<impl std::fmt::Debug, SettingsError>) -> Vec<String> {
    match result {
        Err(SettingsError::Problems(problems)) => problems,
        other => panic!("expected problems, got {other:?}"),
    }
}

#[test]
fn flags_outweigh_the_file() {
    let flags = ServeArgs { http_port: Some(1), ..ServeArgs::default() };
    let merged = flags.over_text("http_port = 2\nsettle_ms = 7\nmodel_repository = ['m']", "airlock.toml");
    let merged = merged.expect("known keys");
    assert_eq!((merged.http_port, merged.settle_ms), (Some(1), Some(7)));
    assert_eq!(merged.model_repository, [PathBuf::from("m")]);
}

#[test]
fn every_problem_of_the_file_is_reported_at_once() {
    let got = problems(ServeArgs::default().over_text("http_prot = 1\nsettle_ms = 'x'\nfoo_bar_baz = 1", "a.toml"));
    assert_eq!(got.len(), 3, "{got:#?}");
    assert!(got.contains(&"a.toml: unknown key 'http_prot'; did you mean 'http_port'?".to_owned()), "{got:#?}");
    assert!(got.iter().any(|text| text.starts_with("a.toml: settle_ms = \"x\": invalid type: string")), "{got:#?}");
}

#[test]
fn limits_outside_their_bounds_are_named_together() {
    let args = ServeArgs { max_in_flight: Some(0), rescan_ms: Some(1), ..ServeArgs::default() };
    assert_eq!(
        problems(Settings::from_args(args)),
        [
            "max_in_flight is 0; it must be from 1 to 1048576",
            "rescan_ms is 1; it must be from 10 to 86400000",
            "no model repository; give one with --model-repository DIR",
        ]
    );
}

#[test]
fn state_stays_outside_the_repository() {
    let repository = tempfile::tempdir().expect("temporary folder");
    let args = ServeArgs {
        model_repository: vec![repository.path().to_path_buf()],
        state_dir: Some(repository.path().join("state")),
        ..ServeArgs::default()
    };
    assert!(problems(Settings::from_args(args))[0].contains("lies inside model repository"));
}
