//! Prints what a call of a warm and of a fresh instance costs, inline and on the plugin runtime. Figures are medians of
//! batches. Run it with `cargo run --release -p plugin --example call_cost`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Subject, call, host, soon};
use model::{DataType, Tensor};
use plugin::{PlacementPolicy, Prepared, Reuse};
use tokio::time::Instant;

const BATCHES: usize = 41;
const CALLS: u32 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let host = host();
    let body = Bytes::from(vec![b'7'; 1_100]);
    let cases = [
        ("warm, inline", Reuse::default(), PlacementPolicy::Inline),
        ("warm, plugin runtime", Reuse::default(), PlacementPolicy::Runtime),
        ("fresh, inline", Reuse::Fresh, PlacementPolicy::Inline),
    ];
    for (name, reuse, placement) in cases {
        let echo = host.plugin_with("echo", |spec| (spec.reuse, spec.placement) = (reuse.clone(), placement));
        let tensor = host.plugin_with("tensor", |spec| (spec.reuse, spec.placement) = (reuse, placement));
        println!(
            "{name:>22}: answer at once {:.2?}, preprocess {:.2?}, postprocess {:.2?}",
            preprocess(&echo, &body).await,
            preprocess(&tensor, &body).await,
            postprocess(&tensor).await
        );
    }
}

async fn preprocess(subject: &Subject, body: &Bytes) -> Duration {
    let call = call();
    let mut medians = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..CALLS {
            let prepared = subject.plugin.preprocess(&call, body.clone(), soon()).await.expect("prepared");
            assert!(matches!(prepared, Prepared::Infer(_) | Prepared::Respond(_)));
        }
        medians.push(start.elapsed() / CALLS);
    }
    median(medians)
}

async fn postprocess(subject: &Subject) -> Duration {
    let call = call();
    let data = Bytes::from_static(&[0; 8]);
    let output = Tensor::new(Arc::from("y"), DataType::Uint8, vec![1, 8], data).expect("fits");
    let mut medians = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..CALLS {
            let outputs = vec![output.clone()];
            subject.plugin.postprocess(&call, outputs, Bytes::new(), soon()).await.expect("an answer");
        }
        medians.push(start.elapsed() / CALLS);
    }
    median(medians)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
