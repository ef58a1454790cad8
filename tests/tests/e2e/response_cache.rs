//! The response cache: the same inputs are answered without the model, and nothing else is.

use anyhow::Result;
use serde_json::{Value, json};
use tests::scaler::{self, Scaling, Weights};
use tests::wait::{PATIENCE, eventually};
use tests::{ModelFolder, Repository, Server, ServerOptions};

const CACHED: &str = "response_cache { enable: true }\n";
const LABELS: [(&str, &str); 2] = [("model", "scaled"), ("version", "1")];

fn body(x: [f64; 4]) -> String {
    json!({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": x}]}).to_string()
}

async fn infer(server: &Server, x: [f64; 4]) -> Result<Value> {
    let answer = server.client().post("/v2/models/scaled/infer", body(x)).await?.expect(200)?.json()?;
    Ok(answer["outputs"][0]["data"].clone())
}

async fn statistics(server: &Server) -> Result<Value> {
    Ok(server.get("/v2/models/scaled/stats").await?.expect(200)?.json()?["model_stats"][0].clone())
}

fn repository() -> Result<(Repository, ModelFolder)> {
    let repository = Repository::new()?;
    let folder = scaler::add(&repository, "scaled", &Scaling::new("t", 10.0))?;
    folder.write("config.pbtxt", scaler::config("scaled") + CACHED)?;
    Ok((repository, folder))
}

#[tokio::test]
async fn the_same_inputs_are_answered_without_the_model_until_it_is_replaced() -> Result<()> {
    let (repository, folder) = repository()?;
    let server = ServerOptions::new(&repository).flag("--cache-config", "local,size=1048576").start().await?;
    for _ in 0..3 {
        assert_eq!(infer(&server, [1.0, 2.0, 3.0, 4.0]).await?, json!([2.0, 4.0, 6.0, 8.0]));
    }
    assert_eq!(infer(&server, [5.0, 2.0, 3.0, 4.0]).await?, json!([10.0, 4.0, 6.0, 8.0]));
    // A plugin's tensors are found like a client's; what the plugin makes of them is not kept.
    for _ in 0..2 {
        let body = scaler::body([1.0, 2.0, 3.0, 4.0]);
        let answer = server.client().post("/v1/models/scaled:predict", body).await?.expect(200)?.json()?;
        assert_eq!(answer["y"], json!([20.0, 40.0, 60.0, 80.0]));
    }

    let stats = statistics(&server).await?;
    assert_eq!((&stats["inference_count"], &stats["execution_count"]), (&json!(3), &json!(3)));
    let counts = ["success", "queue", "compute_infer", "cache_hit", "cache_miss"]
        .map(|phase| stats["inference_stats"][phase]["count"].clone());
    assert_eq!(counts, [6, 6, 3, 3, 3].map(Value::from));
    let metrics = server.metrics().await?;
    let of_model = ["hits", "misses"].map(|what| metrics.value(&format!("nv_cache_num_{what}_per_model"), &LABELS));
    let of_cache = ["entries", "lookups", "hits", "misses", "evictions"]
        .map(|what| metrics.value(&format!("nv_cache_num_{what}"), &[]));
    assert_eq!((of_model, of_cache), ([3.0, 3.0], [3.0, 6.0, 3.0, 3.0, 0.0]));
    assert_eq!(metrics.value("airlock_limit", &[("name", "response_cache_bytes")]), 1_048_576.0);

    let mark = server.log().mark();
    folder.write("1/model.onnx", Weights::Triple.onnx()?)?;
    server.log().wait_for(mark, &["message=published", "part=version 1"]).await?;
    assert_eq!(infer(&server, [1.0, 2.0, 3.0, 4.0]).await?, json!([3.0, 6.0, 9.0, 12.0]));
    // What the old one answered goes with it.
    let entries = async || server.metrics().await.map_or(0.0, |metrics| metrics.value("nv_cache_num_entries", &[]));
    eventually("one entry to be left", PATIENCE, async || (entries().await == 1.0).then_some(())).await?;
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn without_a_cache_the_field_says_that_it_has_no_effect() -> Result<()> {
    let (repository, _) = repository()?;
    let server = ServerOptions::new(&repository).start().await?;
    let told = "response_cache has no effect: this server keeps no answers; give it --cache-config=local,size=BYTES";
    server.log().wait_for(server.log().mark_of_start(), &[told]).await?;
    for _ in 0..2 {
        infer(&server, [1.0, 2.0, 3.0, 4.0]).await?;
    }
    let metrics = server.metrics().await?;
    assert!(!metrics.has("nv_cache_num_hits_per_model", &LABELS) && !metrics.has("nv_cache_num_entries", &[]));
    assert_eq!(statistics(&server).await?["execution_count"], 2);
    server.stop().await?;
    Ok(())
}

#[tokio::test]
async fn clients_at_once_get_their_own_answers_from_a_cache_too_small_for_them() -> Result<()> {
    let (repository, _) = repository()?;
    // Room for about ten.
    let server = ServerOptions::new(&repository).flag("--response-cache-byte-size", "8000").start().await?;
    let asked = (0..8_u32).map(|client| {
        let mut connection = server.client();
        tokio::spawn(async move {
            for i in 0..100 {
                let first = f64::from((client * 7 + i * i) % 40);
                let answer = connection.post("/v2/models/scaled/infer", body([first, 0.0, 0.0, 1.0])).await?;
                let data = answer.expect(200)?.json()?["outputs"][0]["data"].clone();
                assert_eq!(data, json!([2.0 * first, 0.0, 0.0, 2.0]));
            }
            anyhow::Ok(())
        })
    });
    for client in asked.collect::<Vec<_>>() {
        client.await??;
    }
    let metrics = server.metrics().await?;
    let read = |what: &str| metrics.value(&format!("nv_cache_num_{what}"), &[]);
    assert_eq!((read("lookups"), read("hits") + read("misses")), (800.0, 800.0));
    assert!(read("hits") > 0.0 && read("evictions") > 0.0);
    assert!(metrics.value("airlock_response_cache_bytes", &[]) <= 8000.0);
    server.stop().await?;
    Ok(())
}
