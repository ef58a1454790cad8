//! Configurations to simulate, drawn at random.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use model::{
    BatchingConfig, Boundaries, Buckets, DataType, PadTo, PaddedInput, Padding, PaddingConfig, Priorities, QueuePolicy,
    Signature, Tensor, TensorSpec, TimeoutAction,
};
use rand::Rng;
use rand::rngs::SmallRng;

fn policy(random: &mut SmallRng) -> QueuePolicy {
    let timeout = Duration::from_micros(random.random_range(1..1_000));
    QueuePolicy {
        max_queue_size: NonZeroUsize::new(random.random_range(1..40)).expect("at least 1"),
        default_timeout: random.random_bool(0.5).then_some(timeout),
        timeout_action: if random.random_bool(0.5) { TimeoutAction::Reject } else { TimeoutAction::Delay },
        allow_timeout_override: random.random_bool(0.5),
    }
}

fn priorities(random: &mut SmallRng) -> Priorities {
    let levels = random.random_range(1..=4);
    let own: Vec<u32> = (1..=levels).filter(|_| random.random_bool(0.5)).collect();
    Priorities {
        levels: NonZeroU32::new(levels).expect("at least 1"),
        default_level: random.random_range(1..=levels),
        policies: own.into_iter().map(|level| (level, policy(random))).collect(),
    }
}

/// Policies, levels, sizes and delays that fit together.
pub(crate) fn config(random: &mut SmallRng, max_batch_size: u32) -> BatchingConfig {
    let delay = Duration::from_micros(if random.random_bool(0.5) { 0 } else { random.random_range(1..500) });
    let mut preferred: Vec<u32> = (0..random.random_range(0..3)).map(|_| random.random_range(1..=16)).collect();
    preferred.retain(|&size| size <= max_batch_size);
    preferred.sort_unstable();
    preferred.dedup();
    BatchingConfig {
        preferred_batch_sizes: preferred,
        max_queue_delay: delay,
        queue: policy(random),
        priorities: random.random_bool(0.6).then(|| priorities(random)),
        split_large_requests: random.random_bool(0.5),
        ..BatchingConfig::default()
    }
}

/// One padded input of bytes, and its buckets.
pub(crate) fn padded(random: &mut SmallRng) -> (Buckets, Padding) {
    let step = NonZeroU64::new(random.random_range(1..20)).expect("at least 1");
    let boundaries = match random.random_range(0..3) {
        0 => Boundaries::PowersOfTwo,
        1 => Boundaries::Step(step),
        _ => Boundaries::Listed(vec![step.get(), 20, 30]),
    };
    let pad_to = if random.random_bool(0.5) { PadTo::Longest } else { PadTo::Boundary };
    let buckets = Buckets { boundaries, pad_to };
    let input = TensorSpec { name: "x".into(), data_type: DataType::Uint8, shape: vec![-1, -1] };
    let config = PaddingConfig {
        inputs: [("x".into(), PaddedInput { length: "length".into(), axis: None, value: None })].into(),
        buckets: [("length".into(), buckets.clone())].into(),
        ..PaddingConfig::default()
    };
    let signature = Signature { inputs: vec![input], ..Signature::default() };
    (buckets, config.resolve(&signature, 1).expect("fits").1)
}

/// A request's input for [`padded`].
pub(crate) fn input(length: u64) -> Tensor {
    let data = vec![0; usize::try_from(length).expect("small")];
    Tensor::new("x".into(), DataType::Uint8, vec![1, length], data.into()).expect("fits")
}
