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

#[derive(clap::Parser)]
#[command(args_override_self = true)]
struct Line {
    #[command(flatten)]
    args: ServeArgs,
}

fn parsed(arguments: &[&str]) -> Result<ServeArgs, clap::Error> {
    use clap::Parser as _;
    Line::try_parse_from(std::iter::once(&"serve").chain(arguments)).map(|line| line.args)
}

#[test]
fn verbosity_is_a_level_or_a_switch() {
    for (text, level) in [("true", 1), ("FALSE", 0), ("1", 1), ("3", 3)] {
        let args = parsed(&["--log-verbose", text]).expect(text);
        assert_eq!(args.triton.log_verbose, Some(level), "{text}");
    }
    let error = parsed(&["--log-verbose=loud"]).expect_err("refused").to_string();
    assert!(error.contains("it must be a level, true or false"), "{error}");
}

#[test]
fn of_a_flag_with_one_value_the_last_counts_and_lists_keep_all() {
    let flags = ["--http-port=1", "--exit-on-error=true", "--http-port=2", "--exit-on-error=false"];
    let lists = ["--load-model=a", "--load-model=b"];
    let args = parsed(&[&flags[..], &lists].concat()).expect("taken");
    assert_eq!((args.http_port, args.triton.exit_on_error), (Some(2), Some(false)));
    assert_eq!(args.triton.load_model, ["a", "b"]);
}

#[test]
fn a_repository_given_twice_is_one() {
    let repository = tempfile::tempdir().expect("temporary folder");
    let once = repository.path().to_path_buf();
    let args = ServeArgs { model_repository: vec![once.clone(), once.join("")], ..ServeArgs::default() };
    assert_eq!(Settings::from_args(args).expect("valid").repositories, [once]);
}

#[test]
fn a_forward_pattern_that_is_none_is_refused() {
    let args = parsed(&["--http-header-forward-pattern=("]).expect("a text");
    let got = problems(Settings::from_args(args));
    assert!(got.iter().any(|text| text.starts_with("http_header_forward_pattern is '('; it must be")), "{got:?}");
}

#[test]
fn shared_memory_is_off_unless_it_is_asked_for() {
    let repository = tempfile::tempdir().expect("temporary folder");
    let settings = |flags: &[&str]| {
        let args = parsed(flags).expect("flags");
        Settings::from_args(ServeArgs { model_repository: vec![repository.path().to_path_buf()], ..args })
    };
    let limits = |flags: &[&str]| settings(flags).expect("valid").shared_memory;
    assert_eq!(limits(&[]), None);
    assert_eq!(limits(&["--allow-client-shm=false", "--shared-memory-mb=1"]), None);
    let defaults = RegionLimits { regions_max: 1_024, bytes_max: 4 << 30, request_bytes_max: 64 << 20 };
    assert_eq!(limits(&["--allow-client-shm=1"]), Some(defaults));
    let chosen = ["--allow-client-shm=True", "--shared-memory-regions=2", "--shared-memory-mb=3"];
    let expected = RegionLimits { regions_max: 2, bytes_max: 3 << 20, request_bytes_max: 4 << 20 };
    assert_eq!(limits(&[&chosen[..], &["--shared-memory-request-mb=4"]].concat()), Some(expected));
    let got =
        problems(settings(&["--shared-memory-regions=0", "--shared-memory-mb=0", "--shared-memory-request-mb=0"]));
    assert_eq!(got.len(), 3, "{got:?}");
}
