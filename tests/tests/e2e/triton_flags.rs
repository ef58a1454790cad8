//! The command line of tritonserver: a manifest written for it starts this server, with the same meaning.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use tests::command::{airlock, finish};
use tests::{Repository, ServerOptions, fixtures};

fn repository() -> Result<Repository> {
    let repository = Repository::new()?;
    repository.add("sum", |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
    Ok(repository)
}

/// Ends by itself: the exit code and what was printed.
async fn serve(repository: &Repository, flags: &[&str]) -> Result<(Option<i32>, String)> {
    let state = tempfile::tempdir()?;
    let mut command =
        airlock(&["serve", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--settle-ms", "20"])?;
    command.arg("--model-repository").arg(repository.path()).arg("--state-dir").arg(state.path()).args(flags);
    let finished = finish(command).await?;
    Ok((finished.status.code(), format!("{}{}", finished.stdout, finished.stderr)))
}

#[tokio::test]
async fn flags_without_a_meaning_here_are_taken_with_one_warning() -> Result<()> {
    let repository = repository()?;
    let server = ServerOptions::new(&repository)
        .flag("--backend-directory", "/opt/tritonserver/backends")
        .flag("--pinned-memory-pool-byte-size", "268435456")
        .flag("--cuda-memory-pool-byte-size", "0:67108864")
        .flag("--backend-config", "onnxruntime,default-max-batch-size=16")
        .flag("--backend-config", "tensorflow,version=2")
        .flag("--allow-cpu-metrics", "false")
        .flag("--allow-grpc", "true")
        .flag("--grpc-keepalive-time", "7200000")
        .flag("--metrics-interval-ms", "500")
        .flag("--trace-config", "level=OFF")
        .flag("--exit-on-error", "true")
        .flag("--strict-readiness", "true")
        .flag("--model-load-retry-count", "1")
        .flag("--repository-poll-secs", "1")
        .flag("--model-control-mode", "poll")
        .flag("--http-thread-count", "2")
        .flag("--exit-timeout-secs", "10")
        .flag("--id", "gateway-7")
        .start()
        .await?;
    let metadata = server.get("/v2").await?.expect(200)?.json()?;
    assert_eq!(metadata["name"], "gateway-7");
    let infer = r#"{"inputs": [{"name": "a", "shape": [16, 2], "datatype": "FP32", "data": [0, 1, 2, 3, 4, 5, 6, 7,
        0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]}, {"name": "b", "shape": [16, 2],
        "datatype": "FP32", "data": [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3,
        4, 5, 6, 7]}]}"#;
    server.client().post("/v2/models/sum/infer", infer).await?.expect(200)?;
    let metrics = server.metrics().await?;
    assert_eq!(metrics.value("airlock_limit", &[("name", "serving_threads")]), 2.0);
    assert_eq!(metrics.value("airlock_limit", &[("name", "rescan_seconds")]), 1.0);
    let log = server.stop().await?;
    let start = log.mark_of_start();
    let ignored = "--backend-directory --cuda-memory-pool-byte-size --pinned-memory-pool-byte-size";
    assert_eq!(log.count(start, &["level=WARN", "accepted and ignored", ignored]), 1);
    Ok(())
}

#[tokio::test]
async fn a_model_that_does_not_load_ends_the_server_only_where_it_is_asked_to() -> Result<()> {
    let repository = repository()?;
    repository.add("bad", |folder| folder.write("1/model.onnx", "no model"))?;
    let (code, printed) = serve(&repository, &["--exit-on-error=true"]).await?;
    assert_eq!(code, Some(1), "{printed}");
    ensure!(printed.contains("--exit-on-error is set: bad: version 1: loading "), "{printed}");
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    ensure!(server.get("/v2/models/sum/ready").await?.status == 200, "a failing model stops nobody else");
    ensure!(server.get("/v2/health/ready").await?.status == 400, "and counts for readiness");
    server.stop().await?;
    let lenient = ServerOptions::new(&repository).flag("--strict-readiness", "false").start().await?;
    ensure!(lenient.get("/v2/models/bad/ready").await?.status != 200);
    lenient.stop().await?;

    let flags = ["--model-control-mode=explicit", "--load-model=absent", "--exit-on-error=1"];
    let (code, printed) = serve(&repository, &flags).await?;
    assert_eq!(code, Some(1), "{printed}");
    ensure!(printed.contains("absent: folder: there is no folder "), "{printed}");
    Ok(())
}

#[tokio::test]
async fn without_auto_completion_a_configuration_says_everything() -> Result<()> {
    let repository = Repository::new()?;
    let folder = repository.add("sum", |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
    let shape = async |options: ServerOptions| {
        let server = options.start().await?;
        let metadata = server.get("/v2/models/sum").await?.expect(200)?.json()?;
        let infer = |rows: usize| {
            let data = vec!["1"; rows * 2].join(",");
            let tensor = |name| format!(r#"{{"name":"{name}","shape":[{rows},2],"datatype":"FP32","data":[{data}]}}"#);
            format!(r#"{{"inputs":[{},{}]}}"#, tensor("a"), tensor("b"))
        };
        let nine = server.client().post("/v2/models/sum/infer", infer(9)).await?.status;
        server.stop().await?;
        anyhow::Ok((metadata["inputs"][0]["shape"].to_string(), nine))
    };
    assert_eq!(shape(ServerOptions::new(&repository)).await?, ("[-1,2]".to_owned(), 400), "batches of 4");
    let strict = ServerOptions::new(&repository).flag("--strict-model-config", "true");
    let server = strict.clone().not_ready().start().await?;
    let text = server.get("/v2/models/sum").await?.expect_failure(404, "no_available_version")?;
    ensure!(text.contains("config.pbtxt: it is not there, and nothing is taken from the model file"), "{text}");
    server.stop().await?;
    let tensor =
        |side: &str, name: &str| format!("{side} {{ name: \"{name}\" data_type: TYPE_FP32 dims: [ -1, 2 ] }}\n");
    let inputs = [tensor("input", "a"), tensor("input", "b")].concat();
    folder.write("config.pbtxt", &inputs)?;
    let server = strict.clone().not_ready().start().await?;
    let text = server.get("/v2/models/sum").await?.expect_failure(404, "no_available_version")?;
    ensure!(text.contains("model sum declares no output, and nothing is taken from the model file"), "{text}");
    server.stop().await?;
    folder.write("config.pbtxt", inputs + &tensor("output", "sum"))?;
    assert_eq!(shape(strict).await?, ("[-1,2]".to_owned(), 200), "no batches, and a free first dimension");
    Ok(())
}

#[tokio::test]
async fn an_escaped_colon_does_not_lead_around_a_restriction() -> Result<()> {
    let repository = repository()?;
    let options = ServerOptions::new(&repository).flag("--http-restricted-api", "inference:X-Key=secret");
    let server = options.start().await?;
    for path in [
        "/v1/models/sum:predict",
        "/v1/models/sum%3Apredict",
        "/v1/models/sum%3apredict",
        "/v1/models/sum/versions/1%3Apredict",
        "/v2/models/sum/infer",
    ] {
        server.client().post(path, "{}").await?.expect_failure(403, "restricted").context(path)?;
    }
    // The router takes only the verb as it is written.
    server.client().post("/v2/models/sum/%69nfer", "{}").await?.expect(404)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn restricted_requests_bring_their_header() -> Result<()> {
    let repository = repository()?;
    let options =
        ServerOptions::new(&repository).flag("--http-restricted-api", "model-repository,metadata:X-Key=let me in");
    let server = options.start().await?;
    let ask = async |method: Method, path: &str, key: Option<&str>| {
        let headers: Vec<(&str, &str)> = key.into_iter().map(|key| ("x-key", key)).collect();
        anyhow::Ok(server.client().send(method, path, &headers, bytes::Bytes::new()).await?)
    };
    for (method, path) in
        [(Method::POST, "/v2/repository/index"), (Method::GET, "/v2/models/sum"), (Method::GET, "/v2")]
    {
        for key in [None, Some("let me"), Some("LET ME IN")] {
            let text = ask(method.clone(), path, key).await?.expect_failure(403, "restricted")?;
            assert_eq!(text, "This API is restricted, expecting header 'x-key'");
        }
        ask(method, path, Some("let me in")).await?.expect(200)?;
    }
    ask(Method::GET, "/v2/health/ready", None).await?.expect(200)?;
    ask(Method::GET, "/v2/models/sum/ready", None).await?.expect(200)?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn log_lines_are_tritons_where_they_are_to_be() -> Result<()> {
    let repository = repository()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("airlock.log");
    repository.add("bad", |folder| folder.write("1/model.onnx", "no model"))?;
    let file_text = file.to_str().context("UTF-8")?;
    let flags = ["--exit-on-error=true", "--log-format=default", "--log-info=false", "--log-file", file_text];
    let (code, printed) = serve(&repository, &flags).await?;
    assert_eq!(code, Some(1));
    ensure!(printed.lines().count() == 1 && printed.starts_with("airlock: models did not load"), "{printed}");
    let log = std::fs::read_to_string(&file)?;
    ensure!(!log.is_empty() && log.lines().all(|line| line.starts_with(['E', 'W'])), "no information: {log}");
    let line = log.lines().find(|line| line.contains("model=bad")).context("the refusal is told")?;
    let (head, text) = line.split_once("] ").context("a head and a text")?;
    let parts: Vec<&str> = head.split(' ').collect();
    let [day, time, process, place] = parts[..] else { panic!("{head}") };
    ensure!(day.len() == 5 && day[1..].parse::<u32>().is_ok(), "{day}");
    ensure!(time.len() == 15 && process.parse::<u32>().is_ok() && place.contains(".rs:"), "{head}");
    ensure!(text.starts_with('"') && text.ends_with('"'), "{text}");
    Ok(())
}

#[tokio::test]
async fn ports_that_are_not_wanted_are_not_opened() -> Result<()> {
    let repository = repository()?;
    let folder = tempfile::tempdir()?;
    let ports = folder.path().join("ports.json");
    let ports_file = ports.to_str().context("UTF-8")?;
    let flags = ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false", "--port-file", ports_file];
    repository.add("bad", |folder| folder.write("1/model.onnx", "no model"))?;
    let flags: Vec<&str> = flags.into_iter().chain(["--exit-on-error=true"]).collect();
    let (code, _) = serve(&repository, &flags).await?;
    assert_eq!(code, Some(1));
    assert_eq!(std::fs::read_to_string(&ports)?, r#"{"grpc":null,"http":null,"metrics":null}"#);
    Ok(())
}

/// A model of the identity backend whose instance needs `count` of the resource R.
fn limited(repository: &Repository, name: &str, count: u32) -> Result<()> {
    let folder = repository.add(name, |folder| {
        let tensors = "input { name: \"INPUT0\" data_type: TYPE_INT32 dims: 1 }\n\
                       output { name: \"OUTPUT0\" data_type: TYPE_INT32 dims: 1 }\n";
        let limiter = format!("rate_limiter {{ resources {{ name: \"R\" count: {count} }} }}");
        folder.write("config.pbtxt", format!("backend: \"identity\"\n{tensors}instance_group {{ {limiter} }}\n"))
    })?;
    Ok(std::fs::create_dir(folder.path("1"))?)
}

#[tokio::test]
async fn an_instance_that_needs_more_than_there_is_does_not_load() -> Result<()> {
    let repository = Repository::new()?;
    limited(&repository, "modest", 1)?;
    limited(&repository, "greedy", 2)?;
    let options = ServerOptions::new(&repository).flag("--rate-limit", "execution_count").not_ready();
    let server = options.clone().flag("--rate-limit-resource", "R:1").start().await?;
    let infer = r#"{"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "INT32", "data": [7]}]}"#;
    server.client().post("/v2/models/modest/infer", infer).await?.expect(200)?;
    let text =
        server.client().post("/v2/models/greedy/infer", infer).await?.expect_failure(404, "no_available_version")?;
    ensure!(text.contains("resource 'R' is limited to 1 and an instance needs 2"), "{text}");
    server.stop().await?;
    // Without a limit there is as much as the neediest instance needs.
    let server = options.start().await?;
    for name in ["modest", "greedy"] {
        server.client().post(&format!("/v2/models/{name}/infer"), infer).await?.expect(200)?;
    }
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_load_that_would_leave_too_little_memory_is_refused_before_it_starts() -> Result<()> {
    let repository = repository()?;
    let options = ServerOptions::new(&repository).flag("--model-load-headroom-mb", "1000000000").not_ready();
    let server = options.start().await?;
    let answer = server.get("/v2/models/sum/ready").await?;
    ensure!(answer.text().contains("(--model-load-headroom-mb)"), "{}", answer.text());
    let loads = server.metrics().await?.value("airlock_engine_loads_total", &[("model", "sum")]);
    assert_eq!(loads, 0.0);
    server.stop().await?;
    let server = ServerOptions::new(&repository).flag("--model-load-headroom-mb", "1").start().await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn models_share_one_pool_of_threads_where_they_are_to() -> Result<()> {
    let repository = repository()?;
    let options = ServerOptions::new(&repository)
        .flag("--backend-config", "onnxruntime,enable-global-threadpool=1")
        .flag("--backend-config", "onnxruntime,intra_op_thread_count=2");
    let server = options.start().await?;
    let infer = r#"{"inputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]},
                               {"name": "b", "shape": [1, 2], "datatype": "FP32", "data": [3, 4]}]}"#;
    let answer = server.client().post("/v2/models/sum/infer", infer).await?.expect(200)?.json()?;
    assert_eq!(answer["outputs"][0]["data"], serde_json::json!([4.0, 6.0]));
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn operators_that_nobody_allowed_are_not_loaded() -> Result<()> {
    let repository = Repository::new()?;
    let folder = repository.add("custom", |folder| folder.write("1/model.onnx", fixtures::model("add")?))?;
    let library = folder.path("libops.so");
    std::fs::write(&library, "native code")?;
    let operations = format!("model_operations {{ op_library_filename: {:?} }}", library.display().to_string());
    folder.write("config.pbtxt", operations)?;
    let server = ServerOptions::new(&repository).not_ready().start().await?;
    let text = server.get("/v2/models/custom/ready").await?.text();
    ensure!(text.contains("--custom-op-library"), "{text}");
    server.stop().await?;
    Ok(())
}
