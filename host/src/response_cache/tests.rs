use bytes::Bytes;
use model::DataType;

use super::*;

fn tensor(name: &str, shape: &[u64], data: &[u8]) -> Tensor {
    let data = Bytes::copy_from_slice(data);
    Tensor::new(name.into(), DataType::Uint8, shape.to_vec(), data).expect("fits its shape")
}

fn version(cache: &Arc<ResponseCache>) -> VersionCache {
    VersionCache::new(Arc::clone(cache))
}

fn found(version: &VersionCache, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    match version.look_up(inputs) {
        Lookup::Hit(outputs, _) => Some(outputs),
        Lookup::Miss(_) => None,
    }
}

fn keep(version: &VersionCache, inputs: &[Tensor], outputs: &[Tensor]) {
    match version.look_up(inputs) {
        Lookup::Hit(..) => panic!("it was not kept before"),
        Lookup::Miss(missing) => drop(version.keep(&missing, outputs)),
    }
}

#[test]
fn only_the_very_same_inputs_find_an_answer() {
    let cache = Arc::new(ResponseCache::new(1 << 20));
    let version = version(&cache);
    let inputs = [tensor("x", &[2, 2], b"abcd"), tensor("y", &[1], b"e")];
    let outputs = vec![tensor("out", &[3], b"fgh")];
    keep(&version, &inputs, &outputs);
    assert_eq!(found(&version, &inputs), Some(outputs));
    let other_type = |data_type, shape: &[u64]| {
        Tensor::new("x".into(), data_type, shape.to_vec(), Bytes::from_static(b"abcd")).expect("fits")
    };
    for (what, first) in [
        ("data", tensor("x", &[2, 2], b"abcx")),
        ("shape", tensor("x", &[4, 1], b"abcd")),
        ("name", tensor("z", &[2, 2], b"abcd")),
        ("type", other_type(DataType::Int8, &[2, 2])),
        ("type and shape", other_type(DataType::Fp32, &[1])),
    ] {
        assert_eq!(found(&version, &[first, inputs[1].clone()]), None, "{what}");
    }
    assert_eq!(found(&version, &inputs[..1]), None, "an input that is left out");
    // The first look of `keep`, the hit, and six that found nothing.
    let snapshot = cache.snapshot();
    assert_eq!((snapshot.entries, snapshot.hits, snapshot.misses), (1, 1, 7));
}

#[test]
fn another_load_of_a_version_finds_nothing_and_takes_its_own_along() {
    let cache = Arc::new(ResponseCache::new(1 << 20));
    let (old, new) = (version(&cache), version(&cache));
    let inputs = [tensor("x", &[1], b"a")];
    keep(&old, &inputs, &[tensor("out", &[1], b"1")]);
    assert_eq!(found(&new, &inputs), None);
    keep(&new, &inputs, &[tensor("out", &[1], b"2")]);
    drop(old);
    assert_eq!(found(&new, &inputs), Some(vec![tensor("out", &[1], b"2")]));
    assert_eq!(cache.snapshot().entries, 1);
    drop(new);
    assert_eq!((cache.snapshot().entries, cache.snapshot().bytes), (0, 0));
}

#[test]
fn the_bytes_kept_stay_within_the_bound_and_what_had_to_go_is_counted() {
    const BYTES_MAX: u64 = 100_000;
    let cache = Arc::new(ResponseCache::new(BYTES_MAX));
    let version = version(&cache);
    let output = tensor("out", &[1000], &[7; 1000]);
    for i in 0..1000_u32 {
        keep(&version, &[tensor("x", &[4], &i.to_le_bytes())], std::slice::from_ref(&output));
        assert!(cache.snapshot().bytes <= BYTES_MAX);
    }
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.entries + snapshot.evictions, 1000);
    assert!(snapshot.entries > 50, "{snapshot:?}");
}

#[test]
fn an_answer_larger_than_the_cache_is_not_kept_and_nothing_goes_for_it() {
    let cache = Arc::new(ResponseCache::new(10_000));
    let version = version(&cache);
    let small = [tensor("x", &[1], b"a")];
    keep(&version, &small, &[tensor("out", &[1], b"1")]);
    let large = [tensor("x", &[1], b"b")];
    keep(&version, &large, &[tensor("out", &[10_000], &[0; 10_000])]);
    assert_eq!(found(&version, &large), None);
    assert!(found(&version, &small).is_some());
    assert_eq!((cache.snapshot().entries, cache.snapshot().evictions), (1, 0));
}

/// A view would keep a whole batch, or a whole body, for a row of it.
#[test]
fn entries_keep_no_memory_but_their_own() {
    let cache = Arc::new(ResponseCache::new(1 << 20));
    let version = version(&cache);
    let batch = Bytes::from(vec![1; 64]);
    let row = Tensor::new("x".into(), DataType::Uint8, vec![8], batch.slice(8..16)).expect("fits");
    keep(&version, std::slice::from_ref(&row), std::slice::from_ref(&row));
    drop(row);
    assert!(batch.try_into_mut().is_ok(), "nobody else holds the batch");
}

/// The cache was full of answers that nobody asked for twice, and kept them.
#[test]
fn answers_that_are_asked_for_again_replace_those_that_are_not() {
    let cache = Arc::new(ResponseCache::new(4 << 20));
    let version = version(&cache);
    let ask = |number: u32| {
        let input = [tensor("x", &[4], &number.to_le_bytes())];
        match version.look_up(&input) {
            Lookup::Hit(..) => true,
            Lookup::Miss(missing) => {
                version.keep(&missing, &input);
                false
            }
        }
    };
    for number in 0..20_000 {
        ask(number);
    }
    let pass = || (1_000_000..1_001_500).filter(|&number| ask(number)).count();
    assert_eq!(pass(), 0);
    for _ in 0..3 {
        pass();
    }
    assert!(pass() > 1_200, "a fifth of the cache is enough for them");
}

#[test]
fn threads_share_the_cache() {
    let cache = Arc::new(ResponseCache::new(64 << 20));
    let version = version(&cache);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..500_u32 {
                    let input = [tensor("x", &[4], &i.to_le_bytes())];
                    match version.look_up(&input) {
                        Lookup::Hit(outputs, _) => assert_eq!(outputs, input),
                        Lookup::Miss(missing) => drop(version.keep(&missing, &input)),
                    }
                }
            });
        }
    });
    let snapshot = cache.snapshot();
    assert_eq!((snapshot.entries, snapshot.hits + snapshot.misses), (500, 2000));
    assert!(snapshot.misses >= 500);
}
