use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use tempfile::TempDir;

use super::*;

/// A `samples` folder with one case `c` of these files.
fn case(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("c")).expect("created");
    for (name, bytes) in files {
        fs::write(folder.path().join("c").join(name), bytes).expect("written");
    }
    folder
}

fn sample(files: &[(&str, &[u8])]) -> Sample {
    let folder = case(files);
    let mut samples = read_samples(folder.path()).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(samples.len(), 1);
    samples.remove(0)
}

fn refused(files: &[(&str, &[u8])], expected: &[&str]) {
    let folder = case(files);
    let root = format!("{}/", folder.path().display());
    let problems = read_samples(folder.path()).expect_err("a problem");
    let shown: Vec<_> = problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_case_is_a_request_and_its_answer() {
    let headers = br#"{"X-User": "u1", "Accept-Language": "de"}"#;
    let whole =
        sample(&[("request.json", b"{}"), ("expected.json", b"[]"), ("headers.json", headers), ("README", b"")]);
    assert_eq!(
        (whole.name.as_str(), whole.content_type.as_str(), &whole.body[..]),
        ("c", "application/json", &b"{}"[..])
    );
    let headers: Vec<_> = whole.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(headers, ["accept-language=de", "x-user=u1"]);
    assert!(whole.dir.ends_with("c"));
}

#[test]
fn the_extension_or_a_header_says_the_content_type() {
    let expected: (&str, &[u8]) = ("expected.json", b"1");
    let cases: [(&str, &str); 4] = [
        ("request.json", "application/json"),
        ("request.txt", "text/plain"),
        ("request.bin", "application/octet-stream"),
        ("request.png", "application/octet-stream"),
    ];
    for (name, content_type) in cases {
        assert_eq!(sample(&[(name, b"x"), expected]).content_type, content_type);
    }
    let named = sample(&[("request.png", b"x"), expected, ("headers.json", br#"{"Content-Type": "image/png"}"#)]);
    assert_eq!((named.content_type.as_str(), named.headers.len()), ("image/png", 0));
}

#[test]
fn cases_are_read_by_name_and_other_files_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["b", "a", ".hidden"] {
        fs::create_dir(folder.path().join(name)).expect("created");
        fs::write(folder.path().join(name).join("request.txt"), name).expect("written");
    }
    fs::write(folder.path().join("notes.md"), "x").expect("written");
    let names: Vec<_> = read_samples(folder.path()).expect("valid").into_iter().map(|sample| sample.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(read_samples(&folder.path().join("none")).map(|samples| samples.len()), Ok(0));
}

#[test]
fn mistakes_in_a_case_are_all_refused() {
    let request: (&str, &[u8]) = ("request.json", b"{}");
    let answer: (&str, &[u8]) = ("expected.json", b"{\"score\": 0.5}");
    refused(&[answer], &["c: has no request.<ext> (fix: add request.json, request.txt or request.bin)"]);
    refused(&[answer, ("reqest.json", b"")], &["c: has no request.<ext> (fix: rename 'reqest' to 'request')"]);
    refused(
        &[request, ("request.txt", b""), answer, ("expected.bin", b"")],
        &[
            "c: has more than one request.<ext>: request.json, request.txt (fix: keep one)",
            "c: has more than one expected.<ext>: expected.bin, expected.json (fix: keep one)",
        ],
    );
    refused(
        &[request, ("expected.toml", b"")],
        &["c/expected.toml: an answer is never TOML; the rules are in expect.toml (fix: rename it to expect.toml)"],
    );
    refused(
        &[request, ("expected.json", b"{"), ("headers.json", b"[]")],
        &[
            "c/headers.json: must be an object of names and texts",
            "c/expected.json: is not JSON: EOF while parsing an object at line 1 column 1",
        ],
    );
    refused(&[request, answer, ("headers.json", b"{\"a\": 1}")], &["c/headers.json: header 'a' must be text, not 1"]);
    refused(&[request, answer, ("expect.toml", b"\xff")], &["c/expect.toml: is not UTF-8"]);
    let many: Vec<_> = (0..=SAMPLE_HEADERS_MAX).map(|n| format!("\"h{n}\": \"\"")).collect();
    refused(
        &[request, answer, ("headers.json", format!("{{{}}}", many.join(",")).as_bytes())],
        &["c/headers.json: has 65 headers; it may have at most 64"],
    );
}

#[test]
fn samples_are_bounded_in_number_and_size() {
    let folder = case(&[]);
    let large = fs::File::create(folder.path().join("c/request.bin")).expect("created");
    large.set_len(SAMPLE_FILE_BYTES_MAX + 1).expect("sparse");
    let problems = read_samples(folder.path()).expect_err("too large");
    assert_eq!(problems[0].message, "is larger than 16777216 bytes");

    large.set_len(SAMPLE_FILE_BYTES_MAX).expect("sparse");
    let mut bytes_left = SAMPLE_FILE_BYTES_MAX - 1;
    let problems = folder::read(&folder.path().join("c"), &mut bytes_left).expect_err("too many bytes");
    assert_eq!(problems[0].message, "with it all samples have more than 134217728 bytes");

    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..=SAMPLES_MAX {
        fs::create_dir(folder.path().join(number.to_string())).expect("created");
    }
    let problems = read_samples(folder.path()).expect_err("too many");
    assert_eq!(problems[0].message, "holds 257 samples; it may hold at most 256");
}

#[test]
fn mistakes_in_the_rules_are_all_refused() {
    const TOLERANCE: &str =
        "must be a finite number, at least 0 (fix: write 0.001, { absolute = 0.001 } or { relative = 0.01 })";
    const RANGE: &str = "must be two finite numbers, the smaller first (fix: write [0.0, 1.0])";
    let check = |rules: &str, expected: &[&str]| {
        let answer = b"{\"score\": 0.5, \"label\": \"x\"}";
        let shown: Vec<_> = expected.iter().map(|text| format!("c/expect.toml:{text}")).collect();
        let shown: Vec<_> = shown.iter().map(String::as_str).collect();
        refused(&[("request.json", b"{}"), ("expected.json", answer), ("expect.toml", rules.as_bytes())], &shown);
    };
    check(
        "status = 99\nmode = \"exakt\"\ntolerance = 1",
        &[
            "1:10: status: is 99; it must be from 200 to 599",
            "2:8: mode: 'exakt' is none of exact, tolerances, shape (fix: did you mean 'exact'?)",
            "3:1: tolerance: unknown key (fix: did you mean 'tolerances'?)",
        ],
    );
    check(
        "[tolerances]\nscore = 1",
        &["2:9: tolerances.score: is not a JSON pointer, which starts with '/' (fix: write \"/score\")"],
    );
    check(
        "[tolerances]\n\"/scor\" = 1",
        &["2:11: tolerances./scor: there is no number at this place of the expected answer"],
    );
    check(
        "[tolerances]\n\"/label\" = 1",
        &["2:12: tolerances./label: there is no number at this place of the expected answer"],
    );
    for bad in ["-1", "inf", "\"1\""] {
        check(&format!("[tolerances]\n\"/score\" = {bad}"), &[&format!("2:12: tolerances./score: {TOLERANCE}")]);
    }
    check("[tolerances]\n\"/score\" = { relative = -1 }", &[&format!("2:25: tolerances./score.relative: {TOLERANCE}")]);
    check(
        "[tolerances]\n\"/score\" = { percent = 1 }",
        &["2:14: tolerances./score.percent: unknown key (fix: known: absolute, relative)"],
    );
    check(
        "mode = \"exact\"\ntolerances = { \"/score\" = 1 }",
        &["2:14: tolerances: have no effect in this mode (fix: write mode = \"tolerances\", or remove them)"],
    );
    for bad in ["1", "[1]", "[1, 0]", "[0, nan]", "[0, 1, 2]"] {
        check(&format!("[ranges]\n\"/score\" = {bad}"), &[&format!("2:12: ranges./score: {RANGE}")]);
    }
    refused(
        &[("request.txt", b"x"), ("expected.txt", b"y"), ("expect.toml", b"[ranges]\n\"/x\" = [0, 1]")],
        &["c/expect.toml:2:8: ranges./x: the expected answer is not JSON, so it has no such place"],
    );
}

/// Holds the answer `got` to `expected` under `rules`; the differences shown.
fn differences(rules: &str, expected: &str, got: &str) -> Vec<String> {
    let sample =
        sample(&[("request.json", b"{}"), ("expected.json", expected.as_bytes()), ("expect.toml", rules.as_bytes())]);
    shown(sample.expectation.compare(200, "application/json", got.as_bytes()))
}

fn shown(result: Result<(), Vec<Difference>>) -> Vec<String> {
    result.err().into_iter().flatten().map(|difference| difference.to_string()).collect()
}

#[test]
fn values_are_compared_place_by_place() {
    let same = [
        (r#"{"a": 1, "b": [true, null, "x"]}"#, r#"{ "b": [true, null, "x"], "a": 1 }"#),
        (r#"{"score": 0.5}"#, r#"{"score": 0.50005}"#),
        (r#"{"score": 1000.0}"#, r#"{"score": 1000.05}"#),
        (r#"{"score": 1}"#, r#"{"score": 1.00001}"#),
        ("7", "7"),
    ];
    for (expected, got) in same {
        assert_eq!(differences("", expected, got), [""; 0], "{got}");
    }
    let cases: [(&str, &str, &[&str]); 9] = [
        (r#"{"score": 0.5}"#, r#"{"score": 0.6}"#, &["/score: expected 0.5 ± 0.0001 or 0.0001 of it, got 0.6"]),
        (r#"{"count": 1}"#, r#"{"count": 2}"#, &["/count: expected 1, got 2"]),
        (r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "c": 3}"#, &["/a: expected 1, got nothing", "/c: expected nothing, got 3"]),
        (r#"{"a": {"b": "x"}}"#, r#"{"a": {"b": "y"}}"#, &[r#"/a/b: expected "x", got "y""#]),
        ("[1, 2]", "[1, 3, 4]", &["body: expected 2 elements, got 3 elements", "/1: expected 2, got 3"]),
        (r#"{"a": 1}"#, r#"{"a": "1"}"#, &[r#"/a: expected number 1, got string "1""#]),
        (r#"{"a/b": true}"#, r#"{"a/b": false}"#, &["/a~1b: expected true, got false"]),
        ("[]", "{", &[r#"body: expected JSON, got "{" (EOF while parsing an object at line 1 column 1)"#]),
        ("null", "[]", &["body: expected null, got array []"]),
    ];
    for (expected, got, texts) in cases {
        assert_eq!(differences("", expected, got), texts, "{got}");
    }
    let long = format!("\"{}\"", "x".repeat(1000));
    assert!(differences("", "\"y\"", &long)[0].len() < 300);
    let numbers = |from: u32| format!("[{}]", (from..from + 1000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    assert_eq!(differences("", &numbers(0), &numbers(1)).len(), 64);
}

#[test]
fn tolerances_are_named_by_place() {
    let rules = "[tolerances]\n\"/confidence\" = 0.01\n\"/scores\" = { relative = 0.1 }\n\"/scores/0\" = 0\n\"/boxes/*/x\" = { absolute = 2, relative = 0.5 }";
    let expected = r#"{"confidence": 0.5, "scores": [1.0, 10], "boxes": [{"x": 1, "y": 1}]}"#;
    let with = |confidence: &str, scores: &str, x: &str, y: &str| {
        let got = format!(r#"{{"confidence": {confidence}, "scores": [{scores}], "boxes": [{{"x": {x}, "y": {y}}}]}}"#);
        differences(rules, expected, &got)
    };
    assert_eq!(with("0.509", "1, 10.9", "3", "1"), [""; 0]);
    assert_eq!(with("0.52", "1, 10", "1", "1"), ["/confidence: expected 0.5 ± 0.01, got 0.52"]);
    assert_eq!(with("0.5", "1.00001, 10", "1", "1"), ["/scores/0: expected 1.0 ± 0, got 1.00001"]);
    assert_eq!(with("0.5", "1, 12", "1", "1"), ["/scores/1: expected 10 ± 0.1 of it, got 12"]);
    assert_eq!(
        with("0.5", "1, 10", "4", "2"),
        ["/boxes/0/x: expected 1 ± 2 or 0.5 of it, got 4", "/boxes/0/y: expected 1, got 2"]
    );
}

#[test]
fn exact_means_equal_values() {
    const EXACT: &str = "mode = \"exact\"";
    assert_eq!(differences(EXACT, r#"{"a": 0.5, "b": 1.0}"#, r#"{"b": 1, "a": 0.5}"#), [""; 0]);
    assert_eq!(differences(EXACT, "0.5", "0.50001"), ["body: expected 0.5, got 0.50001"]);
    assert_eq!(
        differences(EXACT, "18446744073709551615", "18446744073709551614"),
        ["body: expected 18446744073709551615, got 18446744073709551614"]
    );
}

#[test]
fn a_shape_is_fields_types_and_ranges() {
    const SHAPE: &str = "mode = \"shape\"\n[ranges]\n\"/score\" = [0.0, 1.0]";
    let expected = r#"{"score": 0.5, "label": "no", "boxes": [{"x": 1}]}"#;
    assert_eq!(
        differences(SHAPE, expected, r#"{"score": 1, "label": "yes", "boxes": [{"x": 7}, {"x": 2.5}]}"#),
        [""; 0]
    );
    assert_eq!(differences(SHAPE, expected, r#"{"score": 0, "label": "yes", "boxes": []}"#), [""; 0]);
    let cases: [(&str, &[&str]); 4] = [
        (r#"{"score": 1.5, "label": "no", "boxes": []}"#, &["/score: expected a number from 0 to 1, got 1.5"]),
        (r#"{"score": 0.5, "label": null, "boxes": []}"#, &["/label: expected string, got null"]),
        (r#"{"score": 0.5, "boxes": []}"#, &[r#"/label: expected "no", got nothing"#]),
        (
            r#"{"score": 0.5, "label": "no", "boxes": [{"x": 1}, {"x": "1"}]}"#,
            &[r#"/boxes/1/x: expected number, got string "1""#],
        ),
    ];
    for (got, texts) in cases {
        assert_eq!(differences(SHAPE, expected, got), texts, "{got}");
    }
}

#[test]
fn ranges_hold_beside_values_too() {
    let rules = "[tolerances]\n\"/score\" = 10\n[ranges]\n\"/score\" = [0, 1]";
    assert_eq!(differences(rules, r#"{"score": 0.5}"#, r#"{"score": 0.9}"#), [""; 0]);
    assert_eq!(
        differences(rules, r#"{"score": 0.5}"#, r#"{"score": 1.1}"#),
        ["/score: expected a number from 0 to 1, got 1.1"]
    );
}

#[test]
fn any_sample_can_be_held_to_its_shape() {
    let sample = sample(&[("request.json", b"{}"), ("expected.json", b"{\"score\": 0.5}")]);
    let compare = |expectation: &Expectation, body: &[u8]| shown(expectation.compare(200, "application/json", body));
    assert_eq!(compare(&sample.expectation, b"{\"score\": 0.9}").len(), 1);
    assert_eq!(compare(&sample.expectation.as_shape(), b"{\"score\": 0.9}"), [""; 0]);
    assert_eq!(compare(&sample.expectation.as_shape(), b"{\"scores\": 0.9}").len(), 2);
}

#[test]
fn status_and_content_type_are_compared_first() {
    let json = sample(&[("request.json", b"{}"), ("expected.json", b"{}"), ("expect.toml", b"status = 422")]);
    let compare = |content_type: &str, status: u16| shown(json.expectation.compare(status, content_type, b"{}"));
    assert_eq!(compare("application/problem+json", 422), [""; 0]);
    assert_eq!(compare("Application/JSON; charset=utf-8", 422), [""; 0]);
    assert_eq!(compare("text/plain", 422), ["content-type: expected application/json, got text/plain"]);
    assert_eq!(compare("application/json", 200), ["status: expected 422, got 200 with body \"{}\""]);

    let named =
        sample(&[("request.bin", b""), ("expected.png", b"\xff"), ("expect.toml", b"content_type = \"image/png\"")]);
    assert!(named.expectation.compare(200, "image/png", b"\xff").is_ok());
    let differences = shown(named.expectation.compare(200, "image/jpeg", b"\xfe"));
    assert_eq!(
        differences,
        [
            "content-type: expected image/png, got image/jpeg",
            "body: expected 1 bytes that are not text, got 1 bytes that are not text"
        ]
    );

    let text = sample(&[("request.txt", b"x"), ("expected.txt", b"yes")]);
    assert!(text.expectation.compare(200, "text/plain; charset=utf-8", b"yes").is_ok());
    assert_eq!(shown(text.expectation.compare(200, "text/plain", b"no")), ["body: expected \"yes\", got \"no\""]);
    assert_eq!(
        shown(text.expectation.compare(200, "text/html", b"yes")),
        ["content-type: expected text/plain, got text/html"]
    );
    assert!(text.expectation.as_shape().compare(200, "text/plain", b"no").is_ok());
}

#[test]
fn an_answer_that_was_never_recorded_meets_no_value() {
    let unrecorded = sample(&[("request.json", b"{}")]).expectation;
    assert_eq!(
        shown(unrecorded.compare(200, "application/json", b"1")),
        ["body: expected a recorded answer (run `airlock check --update-samples` and review it), got \"1\""]
    );
    assert!(unrecorded.as_shape().compare(200, "text/plain", b"").is_ok());
    assert_eq!(
        shown(unrecorded.as_shape().compare(500, "text/plain", b"")),
        ["status: expected 200, got 500 with body \"\""]
    );
}

/// The files of the case after recording, by name.
fn recorded(files: &[(&str, &[u8])], (status, content_type, body): (u16, &str, &[u8])) -> Vec<String> {
    let folder = case(files);
    let dir = folder.path().join("c");
    write_expected(&dir, status, content_type, body).expect("recorded");
    let samples = read_samples(folder.path()).expect("still valid");
    assert_eq!(shown(samples[0].expectation.compare(status, content_type, body)), [""; 0], "what was recorded is met");
    let mut left: Vec<_> = fs::read_dir(&dir)
        .expect("listed")
        .map(|entry| entry.expect("listed").path())
        .filter(|path| !path.ends_with("request.json"))
        .map(|path| {
            let text = String::from_utf8_lossy(&fs::read(&path).expect("read")).into_owned();
            format!("{}: {text}", path.file_name().expect("a name").to_string_lossy())
        })
        .collect();
    left.sort();
    left
}

#[test]
fn recording_replaces_the_answer_and_keeps_the_rules() {
    let request: (&str, &[u8]) = ("request.json", b"{}");
    let json = "application/json";
    assert_eq!(recorded(&[request], (200, json, b"{}")), ["expected.json: {}"]);
    assert_eq!(recorded(&[request, ("expected.json", b"1")], (200, json, b"2")), ["expected.json: 2"]);
    assert_eq!(recorded(&[request, ("expected.json", b"1")], (200, "text/plain", b"no")), ["expected.txt: no"]);
    assert_eq!(
        recorded(&[request, ("expected.json", b"1")], (422, "application/problem+json", b"{}")),
        ["expect.toml: status = 422\n", "expected.json: {}"]
    );
    assert_eq!(
        recorded(
            &[request, ("expected.json", b"1"), ("expect.toml", b"# ours\nstatus = 422 # bad input\n")],
            (200, json, b"2")
        ),
        ["expect.toml: # ours\nstatus = 200 # bad input\n", "expected.json: 2"]
    );
    assert_eq!(
        recorded(&[request, ("expected.png", b"1")], (200, "image/png", b"2")),
        ["expect.toml: content_type = \"image/png\"\n", "expected.png: 2"]
    );
    assert_eq!(recorded(&[request], (200, "application/octet-stream", b"2")), ["expected.bin: 2"]);
}

#[test]
fn recording_touches_nothing_where_the_rules_are_broken() {
    let folder = case(&[("request.json", b"{}"), ("expected.json", b"1"), ("expect.toml", b"status =")]);
    let dir = folder.path().join("c");
    let error = write_expected(&dir, 200, "application/json", b"2").expect_err("not TOML");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(fs::read(dir.join("expected.json")).expect("read"), b"1");
    assert!(write_expected(&dir.join("none"), 200, "text/plain", b"").is_err());
}

#[test]
fn no_answer_and_no_rules_make_a_panic() {
    let rules =
        "status = 200\nmode = \"tolerances\"\n[tolerances]\n\"/a\" = { absolute = 0.5 }\n[ranges]\n\"/a\" = [0, 1]\n";
    let body = || compare::ExpectedBody::Json(std::sync::Arc::new(serde_json::json!({"a": 0.5, "b": [1, "x", null]})));
    let file = Path::new("f");
    let expectation = expect_toml::read(file, rules, body()).expect("valid");
    let alphabet: Vec<char> = "{}[]=.,:#\"\\-019eax/ \n\0μ".chars().collect();
    let mut random = SmallRng::seed_from_u64(3);
    for _ in 0..4000 {
        let mut corrupt: Vec<char> = rules.chars().collect();
        let at = random.random_range(0..corrupt.len());
        corrupt[at] = alphabet[random.random_range(0..alphabet.len())];
        let text: String = corrupt.iter().collect();
        if let Err(problems) = expect_toml::read(file, &text, body()) {
            assert!(!problems.is_empty());
        }
        let noise: String = (0..12).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect();
        assert!(expectation.compare(200, "application/json", noise.as_bytes()).is_err());
    }
    let deep = "[".repeat(100_000);
    assert!(expectation.compare(200, "application/json", deep.as_bytes()).is_err());
}
